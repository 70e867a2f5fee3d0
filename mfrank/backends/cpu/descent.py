"""The operations of a descent step, draws included, by the C++ extension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.arrays import ext as _ext
from mfrank.backends.arguments import ROUNDS, AdamAverages, AdamRates, Factors, ItemProbabilities


def score(
    queries: Factors,
    items: Factors,
    ids: NDArray[np.int64],
    n_threads: int = 0,
    *,
    distances: bool = False,
) -> Factors:
    """Compute only the listed scores."""
    out = np.empty((len(queries), ids.shape[1]), dtype=items.dtype)
    _ext.score(queries, items, ids, out, distances, n_threads)
    return out


def sum_items(
    items: Factors, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
) -> Factors:
    """Sum list by list, in the order of the places."""
    out = np.empty((len(gradients), items.shape[1]), dtype=items.dtype)
    _ext.sum_items(items, ids, gradients, out, n_threads)
    return out


def sum_queries(
    queries: Factors, n_items: int, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
) -> tuple[NDArray[np.int64], Factors, Factors]:
    """Sum item by item, in the order of the lists."""
    return _ext.sum_queries(queries, n_items, ids, gradients, n_threads)


def adam(
    table: Factors,
    rows: NDArray[np.int64],
    gradients: Factors,
    averages: AdamAverages,
    rates: AdamRates,
    n_threads: int = 0,
) -> None:
    """Update in one pass over the rows."""
    _ext.adam(
        table=table,
        rows=rows,
        gradients=gradients,
        **averages._asdict(),
        **rates._asdict(),
        n_threads=n_threads,
    )


def tangent(table: Factors, rows: NDArray[np.int64], sums: Factors, n_threads: int = 0) -> Factors:
    """See :meth:`mfrank.backends.Backend.tangent`."""
    sums = np.ascontiguousarray(sums)
    _ext.tangent(table, rows, sums, n_threads)
    return sums


def ball_gradients(
    table: Factors,
    rows: NDArray[np.int64],
    sums: Factors,
    totals: Factors,
    n_threads: int = 0,
) -> Factors:
    """See :meth:`mfrank.backends.Backend.ball_gradients`."""
    sums = np.ascontiguousarray(sums)
    _ext.ball_gradients(table, rows, np.ascontiguousarray(totals), sums, n_threads)
    return sums


def project_rows(
    table: Factors, rows: NDArray[np.int64], *, ball: bool, n_threads: int = 0
) -> None:
    """See :meth:`mfrank.backends.Backend.project_rows`."""
    _ext.project_rows(table, rows, ball, n_threads)


# Positives and negatives of lists, drawn by the C++ extension.


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
