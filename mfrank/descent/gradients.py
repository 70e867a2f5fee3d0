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
    new = one.rows[np.minimum(at, len(one.rows) - 1)] != other.rows
    if not new.any():
        one.sums.values[at] += other.sums.values
        one.sums.totals[at] += other.sums.totals
        return one
    rows = np.sort(np.concatenate([one.rows, other.rows[new]]))
    at_one, at_other = np.searchsorted(rows, one.rows), np.searchsorted(rows, other.rows)

    def merged(numbers: Array, others: Array) -> Array:
        every = np.empty_like(numbers, shape=(len(rows), *numbers.shape[1:]))
        every[at_one] = numbers
        every[at_other[new]] = others[new]
        every[at_other[~new]] += others[~new]
        return every

    return SumsAt(rows, Sums(*map(merged, one.sums, other.sums)))
