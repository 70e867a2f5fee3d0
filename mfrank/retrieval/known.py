"""Queries by ids, some of which the model may not know: the lists of unknown ids are padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.data.unknown_ids import OnUnknown
from mfrank.retrieval.sides import Raw, Side
from mfrank.retrieval.top_k import Lists, emptied

__all__ = ["Known"]


class Known(NamedTuple):
    """The query ids of a call, with a known id in the place of each unknown one.

    So the lists are made as for any ids, and :meth:`blank` then empties those of unknown ids.

    Attributes
    ----------
    side : Side
        The side of the ids.
    ids : id or ids
        What to look up in ``side``: as given, or row numbers.
    unknown : bool, shape (U,), or None
        Which of the given ids are unknown, on their device; None if unknown ids are an error,
        which the look-up raises.
    """

    side: Side
    ids: Raw
    unknown: NDArray[np.bool_] | None

    @classmethod
    def of(cls, side: Side, raw: Raw, on_unknown: OnUnknown) -> Known:
        """The ids ``raw`` of a side."""
        if on_unknown == "error":
            return cls(side, raw, None)
        rows = side.rows_there(raw, f"{side.name}id", missing=-1)
        unknown = rows < 0
        known = rows[~unknown]
        stand_ins = np.where(unknown, known[:1], rows) if len(known) else rows
        return cls(replace(side, by_row=True), stand_ins, unknown)

    @property
    def nobody(self) -> bool:
        """Whether there are ids, but the model knows none of them: call :meth:`padding`."""
        return self.unknown is not None and len(self.unknown) > 0 and bool(self.unknown.all())

    def padding(self, n: int) -> Lists:
        """Empty lists of length ``n`` for all ids."""
        return _padding((np.size(self.ids), n), self.side.factors.dtype)  # type: ignore[arg-type]

    def blank(self, lists: Lists) -> Lists:
        """The lists, in which those of unknown ids are now empty."""
        return lists if self.unknown is None else emptied(lists, self.unknown)


def _padding(shape: tuple[int, int], dtype: DTypeLike) -> tuple[NDArray[np.int32], NDArray[Any]]:
    return np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan, dtype=dtype)
