"""Random portions of sparse rows: the number of a row's entries, and their ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rank_in_rows", "round_at_random"]


def round_at_random(
    expected: NDArray[np.floating], offset: NDArray[np.floating]
) -> NDArray[np.int64]:
    """Round down or up at random: floor(expected + offset), elementwise.

    With offsets uniform on [0, 1) the mean of the result is ``expected``. For a given offset the
    result does not decrease with ``expected``, and the difference of two results is the difference
    of their expectations, rounded down or up.
    """
    # Ten digits, because 0.7 + 0.1 is not exactly 0.8.
    rounded: NDArray[np.int64] = np.floor(np.round(expected, 10) + offset).astype(np.int64)
    return rounded


def rank_in_rows(indptr: NDArray[Any], *keys: NDArray[Any]) -> NDArray[np.int64]:
    """Rank of each entry in its row, from 0, by ascending keys; the last key is the primary one."""
    counts = np.diff(indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    rank = np.empty(len(rows), np.int64)
    # The row is the primary key of all, so each row keeps its range of the entries.
    rank[np.lexsort((*keys, rows))] = np.arange(len(rows)) - np.repeat(indptr[:-1], counts)
    return rank
