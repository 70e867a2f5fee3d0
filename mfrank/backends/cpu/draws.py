"""Positives and negatives of lists, drawn by the C++ extension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.native import ext as _ext
from mfrank.backends.negative_sampling import ROUNDS, ItemProbabilities

__all__ = ["draw_negatives", "draw_positives"]


def draw_positives(
    rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
) -> NDArray[np.int64]:
    """Draw list by list."""
    cells = np.empty((len(users), n_places), dtype=np.int64)
    _ext.draw_positives(
        indptr=rows.indptr,
        indices=rows.indices,
        n_columns=rows.n_columns,
        users=users,
        key=key,
        cells=cells,
        n_threads=n_threads,
    )
    return cells


def draw_negatives(
    rows: CSR,
    users: NDArray[np.int64],
    n_places: int,
    key: int,
    chances: ItemProbabilities | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw list by list."""
    items = np.empty((len(users), n_places), dtype=np.int64)
    filled = np.empty(items.shape, dtype=np.bool_)
    _ext.draw_negatives(
        indptr=rows.indptr,
        indices=rows.indices,
        n_columns=rows.n_columns,
        users=users,
        key=key,
        cumulative=None if chances is None else chances.cumulative,
        guide=None if chances is None else chances.guide,
        rounds=ROUNDS,
        items=items,
        filled=filled,
        n_threads=n_threads,
    )
    return items, filled
