"""Filters of top-K lists, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.device import Array, Device
from mfrank.arrays.row_lists import Listed, Picked, listed_on_host
from mfrank.backends.cuda.resident import Rows, resident_on

__all__ = ["Filters", "Lists", "Spans"]


class Spans(NamedTuple):
    """Query q's list is ``indices[begins[q]:ends[q]]``; int64 offsets, int32 indices."""

    begins: Array
    ends: Array
    indices: Array


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """One list per query, from rows that stay on the device if they fit.

    Attributes
    ----------
    whole : CSR
    kept : Rows
        Arrays of ``whole`` on the device.
    rows : int64 on the device, shape (U,), or None
        The row of ``whole`` for each query; None if query q has row q.
    """

    device: Device
    whole: CSR
    kept: Rows
    rows: Array | None

    @classmethod
    def of(cls, device: Device, listed: Listed) -> Lists:
        """Copy the rows to the device unless they are there already."""
        resident = resident_on(device)
        if isinstance(listed, CSR):
            return cls(device, listed, resident.rows(listed), None)
        return cls(device, listed.whole, resident.rows(listed.whole), device.asarray(listed.rows))

    def spans(self, part: slice) -> Spans:
        """The lists of the queries ``part``."""
        if self.kept.indices is None:
            return self._sent(part)
        indptr, at = self.kept.indptr, part if self.rows is None else self.rows[part]
        return Spans(indptr[:-1][at], indptr[1:][at], self.kept.indices)

    def _sent(self, part: slice) -> Spans:
        """Copy only the lists of these queries from the host."""
        rows = np.arange(part.start, part.stop) if self.rows is None else self.rows[part]
        few = listed_on_host(Picked(self.whole, rows))
        indptr = self.device.asarray(few.indptr)
        return Spans(indptr[:-1], indptr[1:], self.device.asarray(few.indices))


@dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """Which items the queries may get.

    Attributes
    ----------
    shelf : int32 on the device, ascending, or None
        The only items that any query may get.
    only : Lists or None
        The only items that each query may get.
    exclude : tuple of Lists
        Items that each query must not get.
    """

    shelf: Array | None
    only: Lists | None
    exclude: tuple[Lists, ...]

    @classmethod
    def of(
        cls,
        device: Device,
        n_items: int,
        candidates: Listed | None,
        exclude_all: NDArray[np.int32] | None,
        exclude: Sequence[Listed],
    ) -> Filters:
        """From the arguments of ``Backend.top_k``."""
        shelf, only = None, None
        if isinstance(candidates, CSR) and candidates.n_rows == 1:
            shelf = device.asarray(candidates.indices)
        elif candidates is not None:
            only = Lists.of(device, candidates)
        if exclude_all is not None:
            shelf = _without(device, n_items, shelf, device.asarray(exclude_all))
        return cls(shelf, only, tuple(Lists.of(device, each) for each in exclude))


def _without(device: Device, n_items: int, shelf: Array | None, items: Array) -> Array:
    every = device.xp.arange(n_items, dtype=np.int32) if shelf is None else shelf
    allowed = device.xp.ones(n_items, np.bool_)
    allowed[items] = False
    return every[allowed[every]]
