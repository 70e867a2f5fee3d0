"""Sums of gradients at the rows of a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import Array

__all__ = ["Sums", "SumsAt", "joined"]


class Sums(NamedTuple):
    """For each row, sums over its scores: of g times the other row (..., K), and of g (...).

    g is the gradient of the loss by a score, the other row is the one it was scored with.
    """

    values: Array
    totals: Array

    def of(self, rows: Any) -> Sums:
        """Select rows, by any numpy index."""
        return Sums(self.values[rows], self.totals[rows])


class SumsAt(NamedTuple):
    """Sums at the rows (R,) of a table; each row appears once."""

    rows: NDArray[np.int64]
    sums: Sums


def joined(one: SumsAt, other: SumsAt) -> SumsAt:
    """Add sums at the same rows; rows must be ascending in each. May overwrite ``one``."""
    if not len(one.rows):
        return other
    at = np.searchsorted(one.rows, other.rows)
    new = other.rows[one.rows[np.minimum(at, len(one.rows) - 1)] != other.rows]
    if len(new):
        one = _among(one, np.sort(np.concatenate([one.rows, new])))
        at = np.searchsorted(one.rows, other.rows)
    one.sums.values[at] += other.sums.values
    one.sums.totals[at] += other.sums.totals
    return one


def _among(some: SumsAt, rows: NDArray[np.int64]) -> SumsAt:
    """Extend to a superset of the rows, with sums of 0 at the new ones."""
    at = np.searchsorted(rows, some.rows)
    values, totals = some.sums
    all_values = np.zeros_like(values, shape=(len(rows), values.shape[1]))
    all_totals = np.zeros_like(totals, shape=(len(rows),))
    all_values[at] = values
    all_totals[at] = totals
    return SumsAt(rows, Sums(all_values, all_totals))
