"""The compiled backend: threads, vector instructions, every row solved in the eigenbasis.

The shared matrix of a half-step is diagonalised once, M = U diag(lambda) U'; in that basis a row's
system is a diagonal plus its own few entries, and cheap (``cext/row_solver.h``). Rows that float32
cannot solve to :data:`TOLERANCE` are solved again in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import on_host
from mfrank.backends import (
    ROUNDS,
    AdamAverages,
    AdamRates,
    Chances,
    Factors,
    GatherDtype,
    Gram,
    Shared,
    SolveOptions,
)
from mfrank.chains import Chain, Moves, Settled, Until, Walked
from mfrank.csr import CSR
from mfrank.native import ext as _ext
from mfrank.native import why_missing
from mfrank.picked import Listed, union
from mfrank.precise import in_float64, minimum_norm
from mfrank.products import multiply
from mfrank.quadratic import RowProblem
from mfrank.shelves import shelves_for

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
GATHERS: tuple[GatherDtype, ...] = ()


def why_unavailable() -> str | None:
    """None where the extension was built, else how to get it."""
    return why_missing


def place(factors: Factors) -> Factors:
    """In numpy: themselves, or a copy of what lies on a device."""
    return on_host(factors)


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights, summed in an order that no thread count changes."""
    return Gram(*_ext.gram(factors, weights, n_threads))


def rotate(
    factors: Factors,
    basis: NDArray[np.float64],
    n_null: int,
    out: Factors,
    n_threads: int = 0,
) -> None:
    """The product in the dtype of the factors, in blocks of rows."""
    columns = np.ascontiguousarray(basis, dtype=factors.dtype)
    _ext.rotate(factors, columns, n_null, out, n_threads)


def solve_rows(
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    out: Factors,
    options: SolveOptions,
    start: Factors | None = None,
    turn: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Solve every row into ``out``, the few that the dtype is too coarse for in float64."""
    gain = np.empty(problem.rows.n_rows)
    if turn is not None:
        turn = np.ascontiguousarray(turn, dtype=fixed.dtype)
    failed = _solve(
        problem, fixed, shared, out if start is None else start, turn, out, gain, options
    )
    if len(failed):
        part, columns = problem.part(failed)
        wide = fixed[columns].astype(np.float64)
        out[failed], gain[failed] = _solve_precisely(part, wide, shared, options)
    return gain


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum over observed cells of c s^2 - 2 d s + k."""
    return _ext.observed_value(
        rows=_rows(problem),
        observed=_terms(problem),
        users_are_rows=problem.users_are_rows,
        row_factors=row_factors,
        fixed=fixed,
        n_threads=n_threads,
    )


def product(left: Factors, right: Factors, n_threads: int = 0) -> Factors:
    """By BLAS; each part of the rows on one thread, the parts the same whatever their number."""
    return multiply(left, right, n_threads)


def score(
    queries: Factors,
    items: Factors,
    ids: NDArray[np.int64],
    n_threads: int = 0,
    *,
    distances: bool = False,
) -> Factors:
    """Only the scores that are asked for."""
    out = np.empty((len(queries), ids.shape[1]), dtype=items.dtype)
    _ext.score(queries, items, ids, out, distances, n_threads)
    return out


def sum_items(
    items: Factors, ids: NDArray[np.int64], slopes: Factors, n_threads: int = 0
) -> Factors:
    """List by list, sums in the order of the places."""
    out = np.empty((len(slopes), items.shape[1]), dtype=items.dtype)
    _ext.sum_items(items, ids, slopes, out, n_threads)
    return out


def sum_queries(
    queries: Factors, n_items: int, ids: NDArray[np.int64], slopes: Factors, n_threads: int = 0
) -> tuple[NDArray[np.int64], Factors, Factors]:
    """Item by item, sums in the order of the lists."""
    return _ext.sum_queries(queries, n_items, ids, slopes, n_threads)


def adam(
    table: Factors,
    rows: NDArray[np.int64],
    slopes: Factors,
    averages: AdamAverages,
    rates: AdamRates,
    n_threads: int = 0,
) -> None:
    """In one pass over the rows."""
    _ext.adam(
        table=table,
        rows=rows,
        slopes=slopes,
        **averages._asdict(),
        **rates._asdict(),
        n_threads=n_threads,
    )


def draw_likes(
    rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
) -> NDArray[np.int64]:
    """List by list."""
    cells = np.empty((len(users), n_places), dtype=np.int64)
    _ext.draw_likes(
        indptr=rows.indptr,
        indices=rows.indices,
        n_columns=rows.n_columns,
        users=users,
        key=key,
        cells=cells,
        n_threads=n_threads,
    )
    return cells


def draw_others(
    rows: CSR,
    users: NDArray[np.int64],
    n_places: int,
    key: int,
    chances: Chances | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """List by list."""
    items = np.empty((len(users), n_places), dtype=np.int64)
    filled = np.empty(items.shape, dtype=np.bool_)
    _ext.draw_others(
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


def walk(
    chain: Chain,
    base: Factors,
    start: Factors,
    scale: float,
    until: Until,
    n_threads: int = 0,
) -> Walked:
    """Block by block, or the rows of a large one by all threads."""
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


def settle(
    moves: Moves,
    restarts: CSR,
    alpha: float,
    tolerance: float,
    most: int,
    n_threads: int = 0,
) -> Settled:
    """Gauss-Seidel over waves of nodes; what nodes pass on is float32 as far as that will do."""
    rounding = (1 - alpha) / alpha * float(np.finfo(np.float32).eps) / 2
    shape = restarts.n_rows, restarts.n_columns

    def sweep(begin: NDArray[np.float64] | None, *, rounded: bool, within: float) -> Settled:
        settled = Settled(np.empty(shape), np.empty(shape[0]), np.empty(shape[0], np.int64))
        _ext.settle(
            rows=(moves.rows.indptr, moves.rows.indices, moves.rows.data),
            shares=(1 - alpha) * moves.shares,
            waves=moves.waves,
            order=moves.order,
            place=moves.place,
            starts=(restarts.indptr, restarts.indices, restarts.data),
            begin=begin,
            keep=1 - alpha,
            tolerance=within,
            n_steps=most,
            values=settled.values,
            errors=settled.errors,
            steps=settled.steps,
            rounded=rounded,
            n_threads=n_threads,
        )
        return settled

    if tolerance >= 2 * rounding:
        return sweep(None, rounded=True, within=tolerance)
    near = sweep(None, rounded=True, within=4 * rounding)
    there = sweep(near.values, rounded=False, within=tolerance)
    return there._replace(steps=near.steps + there.steps)


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
    """Scores, filters and selection in one pass."""
    ids = np.full((len(queries), k), -1, dtype=np.int32)
    scores = np.full((len(queries), k), np.nan, dtype=items.dtype)
    excluded = union(exclude)
    rows, sketch, lengths = shelves_for(
        len(queries), items, item_bias, candidates, exclude_all, n_threads
    )
    _ext.top_k(
        queries=queries,
        items=items,
        item_bias=item_bias,
        shelves=None if rows is None else (rows.indptr, rows.indices),
        sketch=sketch,
        lengths=lengths,
        exclude=None if excluded is None else (excluded.indptr, excluded.indices),
        ids=ids,
        scores=scores,
        n_threads=n_threads,
    )
    return ids, scores


def _rows(problem: RowProblem) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any] | None]:
    return problem.rows.indptr, problem.rows.indices, problem.rows.data


def _terms(problem: RowProblem) -> tuple[tuple[NDArray[np.float64], float], ...]:
    observed = problem.observed
    terms = (observed.curvature, observed.pull, observed.constant)
    return tuple((term.offset, term.slope) for term in terms)


def _solve(
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    start: Factors,
    turn: NDArray[Any] | None,
    out: Factors,
    gain: NDArray[np.float64],
    options: SolveOptions,
) -> NDArray[np.int64]:
    """Solve in the dtype of the factors; return the rows that it is not precise enough for."""
    return _ext.solve_rows(
        rows=_rows(problem),
        observed=_terms(problem),
        users_are_rows=problem.users_are_rows,
        weight=problem.weight,
        ridge=problem.ridge,
        fixed=fixed,
        eigenvalues=shared.values,
        vector=shared.vector,
        start=start,
        turn=turn,
        out=out,
        gain=gain,
        solver=options.solver,
        cg_steps=options.cg_steps,
        cg_tolerance=options.residual(fixed.dtype),
        to_tolerance=options.cg_tolerance is not None,
        n_threads=options.n_threads,
    )


def _solve_precisely(
    problem: RowProblem, fixed: NDArray[np.float64], shared: Shared, options: SolveOptions
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solutions and gains in float64; the rows singular even there by least squares."""
    problem, exact = in_float64(problem), replace(options, solver="cholesky")
    out = np.zeros((problem.rows.n_rows, fixed.shape[1]))
    gain = np.empty(len(out))
    for r in _solve(problem, fixed, shared, out, None, out, gain, exact):
        out[r], gain[r] = minimum_norm(problem, int(r), fixed, shared)
    return out, gain
