"""Filters of top-K lists, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Device, Grid, Listed, Picked, listed_on_host
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.resident import DeviceRows, resident_on

MOST_QUERIES = 1 << 15
"""Whose filters are applied at a time: a grid has at most 2^16 - 1 blocks along y."""

_THREADS = 128


class Spans(NamedTuple):
    """Query q's list is ``indices[begins[q]:ends[q]]``; int64 offsets, int32 indices."""

    begins: Array
    ends: Array
    indices: Array


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRowLists:
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
    kept: DeviceRows
    rows: Array | None

    @classmethod
    def of(cls, device: Device, listed: Listed) -> DeviceRowLists:
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

    def of_queries(self, at: Array) -> DeviceRowLists:
        """The lists of the queries ``at``, int64 on the device."""
        return replace(self, rows=at if self.rows is None else self.rows[at])

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
    only: DeviceRowLists | None
    exclude: tuple[DeviceRowLists, ...]

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
            only = DeviceRowLists.of(device, candidates)
        if exclude_all is not None:
            shelf = _without(device, n_items, shelf, device.asarray(exclude_all))
        return cls(shelf, only, tuple(DeviceRowLists.of(device, each) for each in exclude))

    def of_queries(self, at: Array) -> Filters:
        """The filters of the queries ``at``, int64 on the device."""
        only = None if self.only is None else self.only.of_queries(at)
        return Filters(self.shelf, only, tuple(each.of_queries(at) for each in self.exclude))

    def remove(self, device: Device, part: slice, items: slice, scores: Array) -> None:
        """Set the scores of items that the queries ``part`` must not get to NaN.

        ``scores`` of the items are float16, float32 or float64, shape (U, N), and may be followed
        by others in each row.
        """
        n_queries, stride = scores.shape
        n = items.stop - items.start
        each_item = -(-n // _THREADS), n_queries
        removals: list[tuple[DeviceRowLists, str, int | tuple[int, int]]] = [
            (lists, "drop_listed", n_queries) for lists in self.exclude
        ]
        if self.only is not None:
            removals.append((self.only, "keep_listed", each_item))
        for lists, kernel, blocks in removals:
            args = *lists.spans(part), self.shelf, items.start, n, stride, scores
            device.launch(_module(scores.dtype), kernel, Grid(blocks, _THREADS), args)


def _module(dtype: np.dtype[Any]) -> Module:
    """The kernels for scores of that dtype."""
    if dtype == np.float16:
        return Module.of("filters", np.float32, half=True)
    return Module.of("filters", dtype)


def _without(device: Device, n_items: int, shelf: Array | None, items: Array) -> Array:
    every = device.xp.arange(n_items, dtype=np.int32) if shelf is None else shelf
    allowed = device.xp.ones(n_items, np.bool_)
    allowed[items] = False
    return every[allowed[every]]
