"""What top-K lists may hold, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.csr import CSR
from mfrank.cuda.device import Array, Device
from mfrank.cuda.resident import Rows, resident_on
from mfrank.picked import Listed, Picked, listed_on_host

__all__ = ["Filters", "Lists", "Spans"]


class Spans(NamedTuple):
    """Query q has listed ``indices`` from ``begins[q]`` up to ``ends[q]``; int64 and int32."""

    begins: Array
    ends: Array
    indices: Array


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list for each query, of rows that stay on the device where there is room.

    Attributes
    ----------
    whole : CSR
    kept : Rows
        Its arrays on the device.
    rows : int64 on the device, shape (U,), or None
        Which of its rows the queries have; None where there is one for each.
    """

    device: Device
    whole: CSR
    kept: Rows
    rows: Array | None

    @classmethod
    def of(cls, device: Device, listed: Listed) -> Lists:
        """Rows that are new to the device go there."""
        resident = resident_on(device)
        if isinstance(listed, CSR):
            return cls(device, listed, resident.rows(listed), None)
        return cls(device, listed.whole, resident.rows(listed.whole), device.asarray(listed.rows))

    def spans(self, part: slice) -> Spans:
        """The lists of some queries."""
        if self.kept.indices is None:
            return self._sent(part)
        indptr, at = self.kept.indptr, part if self.rows is None else self.rows[part]
        return Spans(indptr[:-1][at], indptr[1:][at], self.kept.indices)

    def _sent(self, part: slice) -> Spans:
        """Those of these queries alone, from the host."""
        rows = np.arange(part.start, part.stop) if self.rows is None else self.rows[part]
        few = listed_on_host(Picked(self.whole, rows))
        indptr = self.device.asarray(few.indptr)
        return Spans(indptr[:-1], indptr[1:], self.device.asarray(few.indices))


@dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """What lists may hold.

    Attributes
    ----------
    shelf : int32 on the device, ascending, or None
        The only items that any list may hold.
    only : Lists or None
        The only items of each query's list.
    exclude : Lists, any number
        Those that may not be on it.
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
