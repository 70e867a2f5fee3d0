"""What stays on a device while its owner on the host lives: rows, problems, stored factors."""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from mfrank.csr import CSR
from mfrank.cuda.across import BYTES_OF_AN_ENTRY, by_columns
from mfrank.cuda.device import Array, Device
from mfrank.quadratic import RowProblem
from mfrank.twins import twin_of

__all__ = ["PerRow", "Resident", "Rows", "resident_on"]

_MOST_OF_FREE = 0.5  # of free memory that an array may take to stay


class Rows(NamedTuple):
    """A CSR's arrays on the device; None where one is too large to stay, or is not there."""

    indptr: Array
    indices: Array | None
    data: Array | None


class PerRow(NamedTuple):
    """A problem's numbers of rows and users, float64."""

    weight: Array
    ridge: Array
    curvature_offset: Array
    pull_offset: Array


class Resident:
    """Copies on one device, or what was given there (:mod:`mfrank.twins`).

    Their owners, ``CSR`` and ``RowProblem``, do not change.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._rows = WeakKeyDictionary[CSR, Rows]()
        self._columns = WeakValueDictionary[int, Array]()
        self._problems = WeakKeyDictionary[RowProblem, PerRow]()
        self._arrays: dict[int, tuple[weakref.ref[Any], Array]] = {}

    def rows(self, rows: CSR) -> Rows:
        """The rows' arrays."""
        kept = self._rows.get(rows)
        if kept is None:
            kept = self._turned(rows) or Rows(
                self._device.asarray(self._given(rows.indptr), np.int64),
                self._columns_of(rows),
                self._if_it_fits(rows.data),
            )
            self._rows[rows] = kept
        return kept

    def _turned(self, rows: CSR) -> Rows | None:
        """Made of the other side's rows, where those were given there."""
        other = rows.across
        if other is None or twin_of(other.indices) is None:
            return None
        if BYTES_OF_AN_ENTRY * len(other.indices) > _MOST_OF_FREE * self._device.free_bytes():
            return None
        indptr, indices, data = self.rows(other if rows.data is not None else other.pattern())
        if indices is None or (data is None and rows.data is not None):
            return None
        return Rows(*by_columns(self._device, indptr, indices, data, rows.n_rows))

    def per_row(self, problem: RowProblem) -> PerRow:
        """The problem's numbers."""
        kept = self._problems.get(problem)
        if kept is None:
            offsets = problem.observed.curvature.offset, problem.observed.pull.offset
            arrays = problem.weight, problem.ridge, *offsets
            kept = PerRow(*(self._device.asarray(array, np.float64) for array in arrays))
            self._problems[problem] = kept
        return kept

    def of_factors(self, factors: Any) -> Array:
        """Factors; read-only ones, such as a store's, stay."""
        if not isinstance(factors, np.ndarray):
            return self._device.asarray(factors)
        if not factors.flags.writeable:
            return self.array(factors)
        return self._device.asarray(self._given(factors), factors.dtype)

    def array(self, array: Any) -> Array:
        """An array that does not change, told by its identity."""
        known = self._arrays.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        copy = self._if_it_fits(array)
        if copy is None:
            return self._device.asarray(array)
        key, arrays = id(array), self._arrays
        arrays[key] = weakref.ref(array, lambda _: arrays.pop(key, None)), copy
        return copy

    def _columns_of(self, rows: CSR) -> Array | None:
        """Those of an array that rows with and without values may have in common."""
        if self._device.holds(self._given(rows.indices)):
            return self._if_it_fits(rows.indices)
        key = id(rows.indices)  # of no other array while rows that have it are kept
        columns = self._columns.get(key)
        if columns is None:
            columns = self._if_it_fits(rows.indices)
            if columns is not None:
                self._columns[key] = columns
        return columns

    def _if_it_fits(self, array: Any) -> Array | None:
        if array is None:
            return None
        there = self._given(array)
        if there.dtype == array.dtype and self._device.holds(there):
            return self._device.asarray(there)
        if array.nbytes > _MOST_OF_FREE * self._device.free_bytes():
            return None
        return self._device.asarray(there, array.dtype)

    def _given(self, array: Any) -> Any:
        """What an array on the host is a copy of, else itself."""
        there = twin_of(array) if isinstance(array, np.ndarray) else None
        return array if there is None else there


def resident_on(device: Device) -> Resident:
    """What stays on that device."""
    of: Any = device  # protocols are not known to be hashable
    return _resident(of)


@cache
def _resident(device: Any) -> Resident:
    return Resident(device)
