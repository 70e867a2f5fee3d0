"""Device copies that stay while their host arrays are alive: rows, problems, stored factors."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Device, device_copy_of, register_copy
from mfrank.backends.row_problem import RowProblem

# Transposing a CSR on the device, so that its transpose need not be copied from the host.


BYTES_OF_AN_ENTRY = 40
"""Temporary memory per entry: the sort order, the sorted arrays and the sort's own workspace."""


def by_columns(
    device: Device, indptr: Array, indices: Array, data: Array | None, n_columns: int
) -> tuple[Array, Array, Array | None]:
    """The transpose as a CSR with ascending indices: ``scipy.sparse.csr_array.T.tocsr()``.

    Returns
    -------
    indptr : int64, shape (n_columns + 1,)
    indices : int32, shape (nnz,)
    data : shape (nnz,), or None if ``data`` is None
    """
    xp = device.xp
    order = xp.argsort(indices, kind="stable")  # stable: ascending rows
    ends = xp.searchsorted(indices[order], xp.arange(n_columns + 1, dtype=np.int32))
    rows = xp.searchsorted(indptr[1:], order, side="right").astype(np.int32)
    return ends.astype(np.int64), rows, None if data is None else data[order]


_MOST_OF_FREE = 0.5  # Largest fraction of free memory that an array may take in order to stay.


_SMALL = 1 << 20
"""Bytes of an array that fits without asking how much memory is free, which takes longer than to
copy it, and that the host converts sooner than another kernel."""


class DeviceRows(NamedTuple):
    """A CSR's arrays on the device; None for an array that is too large to stay, or None itself."""

    indptr: Array
    indices: Array | None
    data: Array | None


@dataclass(frozen=True, slots=True, eq=False)
class RowParts:
    """Where parts of rows begin and end, int64; row r has those from ``first[r]`` on."""

    SIZE: ClassVar[int] = 256
    """Entries that a warp adds: long rows are divided, so that none is the last to end."""

    begins: Array
    ends: Array
    first: Array


class PerRow(NamedTuple):
    """A problem's numbers per row (weight, ridge) and per user (offsets), float64."""

    weight: Array
    ridge: Array
    curvature_offset: Array
    pull_offset: Array


class Resident:
    """Copies on one device, or the originals of host copies (:mod:`mfrank.arrays.device`).

    The objects that they belong to, ``CSR`` and ``RowProblem``, are immutable.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._rows = WeakKeyDictionary[CSR, DeviceRows]()
        self._columns = WeakValueDictionary[int, Array]()
        self._problems = WeakKeyDictionary[RowProblem, PerRow]()
        self._blocks = WeakKeyDictionary[RowProblem, dict[Any, Any]]()
        self._arrays: dict[tuple[int, Any], tuple[weakref.ref[Any], Array]] = {}
        self._tables = WeakValueDictionary[int, Array]()
        self._parts = WeakKeyDictionary[CSR, RowParts]()

    def rows(self, rows: CSR) -> DeviceRows:
        """The arrays of ``rows`` on the device."""
        kept = self._rows.get(rows)
        if kept is None:
            kept = self._transposed(rows) or DeviceRows(
                self._device.asarray(self._original(rows.indptr), np.int64),
                self._columns_of(rows),
                self._if_it_fits(rows.data),
            )
            self._rows[rows] = kept
        return kept

    def _transposed(self, rows: CSR) -> DeviceRows | None:
        """Arrays transposed on the device from ``rows.across``, if that came from a device."""
        source = rows.across
        if source is None or device_copy_of(source.indices) is None:
            return None
        if BYTES_OF_AN_ENTRY * len(source.indices) > _MOST_OF_FREE * self._device.free_bytes():
            return None
        indptr, indices, data = self.rows(source if rows.data is not None else source.pattern())
        if indices is None or (data is None and rows.data is not None):
            return None
        return DeviceRows(*by_columns(self._device, indptr, indices, data, rows.n_rows))

    def parts(self, rows: CSR) -> RowParts:
        """The rows in parts of at most ``RowParts.SIZE`` entries."""
        kept = self._parts.get(rows)
        if kept is None:
            n_parts = np.maximum(1, -(-rows.counts // RowParts.SIZE))
            first = np.concatenate([[0], np.cumsum(n_parts)])
            before = RowParts.SIZE * (np.arange(first[-1]) - np.repeat(first[:-1], n_parts))
            begins = np.repeat(rows.indptr[:-1], n_parts) + before
            ends = np.minimum(begins + RowParts.SIZE, np.repeat(rows.indptr[1:], n_parts))
            kept = self._parts[rows] = RowParts(*map(self._device.asarray, (begins, ends, first)))
        return kept

    def per_row(self, problem: RowProblem) -> PerRow:
        """The problem's numbers on the device."""
        kept = self._problems.get(problem)
        if kept is None:
            offsets = problem.observed.curvature.offset, problem.observed.pull.offset
            arrays = problem.weight, problem.ridge, *offsets
            kept = PerRow(*(self._device.asarray(array, np.float64) for array in arrays))
            self._problems[problem] = kept
        return kept

    def blocks(self, problem: RowProblem) -> dict[Any, Any]:
        """The problem's blocks that stay (:mod:`mfrank.backends.cuda.blocks`), to be added to."""
        return self._blocks.setdefault(problem, {})

    def of_factors(self, factors: Any) -> Array:
        """Factors on the device; copies of read-only ones, such as a store's, stay."""
        if not isinstance(factors, np.ndarray):
            placed = self._device.asarray(factors)
            self._tables[id(placed)] = placed
            return placed
        if not factors.flags.writeable:
            return self.array(factors)
        return self._device.asarray(self._original(factors), factors.dtype)

    def array(self, array: Any, dtype: Any = None) -> Array:
        """Device copy of an array that does not change, cached by its id and dtype."""
        key, arrays = (id(array), dtype), self._arrays
        known = arrays.get(key)
        if known is not None and known[0]() is array:
            return known[1]
        if self._original(array) is array and array.nbytes <= _SMALL:
            copy = self._device.asarray(array.astype(dtype or array.dtype, copy=False))
        else:
            copy = self._if_it_fits(array)
            if copy is None:
                return self._device.asarray(array, dtype)
            copy = self._device.asarray(copy, dtype)
        arrays[key] = weakref.ref(array, lambda _: arrays.pop(key, None)), copy
        return copy

    def with_copy(self, placed: Array) -> NDArray[Any]:
        """A host copy of an array of the device, which stays as long as the copy."""
        here = self._device.asnumpy(placed)
        register_copy(here, placed)
        weakref.finalize(here, _released, placed)
        return here

    def small(self, array: NDArray[Any], dtype: Any) -> Array:
        """Device copy in that dtype, which stays if the array is read-only."""
        return (self._device.asarray if array.flags.writeable else self.array)(array, dtype)

    def _columns_of(self, rows: CSR) -> Array | None:
        """Column indices, which rows with and without values may share."""
        if self._device.holds(self._original(rows.indices)):
            return self._if_it_fits(rows.indices)
        key = id(rows.indices)  # unique as long as rows with this array are kept
        columns = self._columns.get(key)
        if columns is None:
            columns = self._if_it_fits(rows.indices)
            if columns is not None:
                self._columns[key] = columns
        return columns

    def _if_it_fits(self, array: Any) -> Array | None:
        if array is None:
            return None
        original = self._original(array)
        if original.dtype == array.dtype and self._device.holds(original):
            return self._device.asarray(original)
        # A fit makes every table of factors anew while somebody may still hold the last one, in
        # memory that lies in pieces: so room for two is left.
        tables = [ref() for ref in self._tables.valuerefs()]  # other threads may add some meanwhile
        room = self._device.free_bytes() - 2 * sum(t.nbytes for t in tables if t is not None)
        if array.nbytes > _MOST_OF_FREE * room:
            return None
        return self._device.asarray(original, array.dtype)

    def _original(self, array: Any) -> Any:
        """The device array that a host array is a copy of, else the array itself."""
        original = device_copy_of(array) if isinstance(array, np.ndarray) else None
        return array if original is None else original


def _released(_: Any) -> None:
    """The end of an array that was kept until now."""


def resident_on(device: Device) -> Resident:
    """The copies on that device."""
    key: Any = device  # mypy does not know that a protocol is hashable
    return _resident(key)


@cache
def _resident(device: Any) -> Resident:
    return Resident(device)
