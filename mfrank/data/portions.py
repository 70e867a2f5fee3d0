"""Portions of sparse rows: how many of a row's entries, and which ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rank_in_rows", "round_at_random"]


def round_at_random(
    expected: NDArray[np.floating], offset: NDArray[np.floating]
) -> NDArray[np.int64]:
    """Round down or up such that, over offsets uniform on [0, 1), the mean is what was expected.

    With the same offset, a larger expectation is rounded to no less, and the difference of the two
    is their expected difference, rounded down or up.
    """
    # Ten digits hide that 0.7 + 0.1 is not quite 0.8.
    rounded: NDArray[np.int64] = np.floor(np.round(expected, 10) + offset).astype(np.int64)
    return rounded


def rank_in_rows(indptr: NDArray[Any], *keys: NDArray[Any]) -> NDArray[np.int64]:
    """Place of each entry in its row, from 0, by ascending keys, of which the last comes first."""
    counts = np.diff(indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    rank = np.empty(len(rows), np.int64)
    # The row is the sort's first key, so each row keeps its stretch of the entries.
    rank[np.lexsort((*keys, rows))] = np.arange(len(rows)) - np.repeat(indptr[:-1], counts)
    return rank
