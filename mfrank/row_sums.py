"""Sums of slopes at rows of a table: what their lists ask of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.lists import Array

__all__ = ["Sums", "SumsAt", "joined"]


class Sums(NamedTuple):
    """At some rows (...): of slopes times what they were scored with (..., K), and of slopes."""

    values: Array
    totals: Array

    def of(self, rows: Any) -> Sums:
        """Some of the rows."""
        return Sums(self.values[rows], self.totals[rows])


class SumsAt(NamedTuple):
    """At rows (R,) of a table, each once."""

    rows: NDArray[np.int64]
    sums: Sums


def joined(one: SumsAt, other: SumsAt) -> SumsAt:
    """Both as one, which may take the place of the first; rows ascend in each."""
    if not len(one.rows):
        return other
    at = np.searchsorted(one.rows, other.rows)
    new = other.rows[one.rows[np.minimum(at, len(one.rows) - 1)] != other.rows]
    if len(new):
        one = _among(one, np.sort(np.concatenate([one.rows, new])))
        at = np.searchsorted(one.rows, other.rows)
    for to, part in zip(one.sums, other.sums, strict=True):
        to[at] += part
    return one


def _among(some: SumsAt, rows: NDArray[np.int64]) -> SumsAt:
    """At more rows, 0 where there was none."""
    at = np.searchsorted(rows, some.rows)
    values, totals = some.sums
    wide = Sums(
        np.zeros_like(values, shape=(len(rows), values.shape[1])),
        np.zeros_like(totals, shape=(len(rows),)),
    )
    for to, part in zip(wide, some.sums, strict=True):
        to[at] = part
    return SumsAt(rows, wide)
