"""The C++ extension: threads, vector instructions, every row solved in the eigenbasis.

The shared matrix of a half-step is diagonalized once, M = U diag(lambda) U'. In that basis a row's
system is a diagonal plus one rank-one term per entry, which is cheap to solve
(``cext/kernels/rows/row_solver.h``). Rows that float32 cannot solve to :data:`TOLERANCE` are solved
again in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR, Listed, on_host, union, why_missing
from mfrank.arrays import ext as _ext
from mfrank.backends.arguments import (
    ROUNDS,
    AdamAverages,
    AdamRates,
    Chain,
    Factors,
    GatherDtype,
    ItemProbabilities,
    Moves,
    Stationary,
    Until,
    Walked,
)
from mfrank.backends.cpu import half_step as row_sums
from mfrank.backends.cpu.half_step import cells_of
from mfrank.backends.cpu.half_step import solve_rows as solve_rows
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.backends.cpu.search_order import shelves_for
from mfrank.backends.dense import eigh as eigh
from mfrank.backends.dense import of_both
from mfrank.backends.dense import product as product
from mfrank.backends.dense import sparse_product as sparse_product
from mfrank.backends.row_problem import Gram, RowProblem
from mfrank.backends.surface import RowSums
from mfrank.losses import ListSums

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
GATHERS: tuple[GatherDtype, ...] = ()
PRIORS = True
SUMS: RowSums | None = row_sums


def why_unavailable() -> str | None:
    """Return None if the extension was built, else how to get it."""
    return why_missing


def place(factors: Factors) -> Factors:
    """Return a numpy array: the factors themselves, or a copy of a device array."""
    return on_host(factors)


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights, summed in the same order for any number of threads."""
    matrix, vector = _ext.gram(factors, weights, n_threads)
    if factors.dtype == np.float32 and not np.isfinite(matrix).all():
        # Partial sums are float32: products of factors beyond 1e19 overflow them.
        matrix, vector = _ext.gram(factors.astype(np.float64), weights, n_threads)
    return Gram(matrix, vector)


def rotate(
    factors: Factors,
    basis: NDArray[np.float64],
    n_null: int,
    out: Factors,
    n_threads: int = 0,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Multiply in the dtype of the factors, in blocks of rows."""
    columns = np.ascontiguousarray(basis, dtype=factors.dtype)
    _ext.rotate(factors, columns, n_null, out, n_threads, rows)


def extrapolate(
    solved: Factors,
    weight: float,
    before: Factors,
    basis: NDArray[np.float64],
    displacements: Factors,
    turn: NDArray[np.float64],
    n_threads: int = 0,
) -> None:
    """In one pass over the tables."""
    turns = basis, of_both(turn, basis)
    by, turned = (np.ascontiguousarray(each, dtype=solved.dtype) for each in turns)
    _ext.extrapolate(solved, weight, before, by, displacements, turned, n_threads)


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum of c s^2 - 2 d s + k over observed cells."""
    return _ext.observed_value(
        **cells_of(problem),
        row_factors=row_factors,
        fixed=fixed,
        n_threads=n_threads,
    )


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


def list_sums(n_threads: int = 0) -> ListSums:
    """See :meth:`mfrank.backends.Backend.list_sums`."""
    return NativeSums(n_threads)


def walk(
    chain: Chain,
    base: Factors,
    start: Factors,
    scale: float,
    until: Until,
    n_threads: int = 0,
) -> Walked:
    """Iterate block by block, a large block with all threads."""
    n_blocks = len(chain.blocks) - 1
    walked = Walked(start.copy(), np.empty(n_blocks), np.empty(n_blocks, dtype=np.int64))
    _ext.walk(
        rows=(chain.rows.indptr, chain.rows.indices, chain.rows.data),
        blocks=chain.blocks,
        left=chain.left,
        right=chain.right,
        base=base,
        scale=scale,
        x=walked.values,
        n_steps=until.steps,
        tolerance=until.tolerance,
        spread=until.norm == "spread",
        changes=walked.changes,
        steps=walked.steps,
        n_threads=n_threads,
    )
    return walked


def stationary(
    moves: Moves,
    restarts: CSR,
    alpha: float,
    tolerance: float,
    most: int,
    n_threads: int = 0,
) -> Stationary:
    """Gauss-Seidel over waves of nodes, with float32 contributions until float64 is needed.

    Rounded to float32, a walk may keep changing by more than the tolerance. So in float32 it gets
    only as many steps as it should need; the rest are in float64.
    """
    rounding = (1 - alpha) / alpha * float(np.finfo(np.float32).eps) / 2
    coarse_tolerance = 4 * rounding if tolerance < 2 * rounding else tolerance
    tiny = float(np.finfo(np.float64).tiny)
    decay = -np.log(max(1 - alpha, tiny))  # of the log of a change in each step, at least
    enough = min(most, 50 + 2 * int(np.log(2 / max(coarse_tolerance * alpha, tiny)) / decay))

    def sweep(
        begins: CSR, values: NDArray[np.float64] | None, within: float, steps: int
    ) -> Stationary:
        shape = begins.n_rows, begins.n_columns
        swept = Stationary(np.empty(shape), np.empty(shape[0]), np.empty(shape[0], np.int64))
        _ext.stationary(
            rows=(moves.rows.indptr, moves.rows.indices, moves.rows.data),
            shares=(1 - alpha) * moves.shares,
            waves=moves.waves,
            order=moves.order,
            place=moves.place,
            starts=(begins.indptr, begins.indices, begins.data),
            begin=values,
            keep=1 - alpha,
            tolerance=within,
            n_steps=steps,
            values=swept.values,
            errors=swept.errors,
            steps=swept.steps,
            rounded=values is None,
            n_threads=n_threads,
        )
        return swept

    result = sweep(restarts, None, coarse_tolerance, enough)
    unfinished = np.flatnonzero(
        (result.errors > tolerance) & (result.steps < most) | (coarse_tolerance > tolerance)
    )
    if len(unfinished):
        begins = restarts
        if len(unfinished) < restarts.n_rows:
            entries: Any = restarts.data, restarts.indices, restarts.indptr
            every = sp.csr_array(entries, result.values.shape)
            begins = CSR.from_scipy(every[unfinished], np.float64)
        fine = sweep(begins, result.values[unfinished], tolerance, most)
        result.values[unfinished], result.errors[unfinished] = fine.values, fine.errors
        result.steps[unfinished] += fine.steps
    return result


def top_k(
    queries: Factors,
    items: Factors,
    k: int,
    *,
    item_bias: NDArray[Any] | None = None,
    exclude: Sequence[Listed] = (),
    exclude_all: NDArray[np.int32] | None = None,
    candidates: Listed | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Score, filter and select in one pass."""
    ids = np.empty((len(queries), k), dtype=np.int32)
    scores = np.empty(ids.shape, dtype=items.dtype)
    ids.fill(-1)  # numpy.full takes longer than some lists
    scores.fill(np.nan)
    excluded = union(exclude)
    shelves = shelves_for(len(queries), items, item_bias, candidates, exclude_all, n_threads)
    rows = shelves.rows
    _ext.top_k(
        queries=queries,
        items=items,
        item_bias=item_bias,
        shelves=None if rows is None else (rows.indptr, rows.indices),
        sketch=shelves.sketch,
        lengths=shelves.lengths,
        allowed=shelves.allowed,
        exclude=None if excluded is None else (excluded.indptr, excluded.indices),
        ids=ids,
        scores=scores,
        n_threads=n_threads,
    )
    return ids, scores
