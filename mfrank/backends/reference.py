"""The specification: every formula as written, in float64, one row at a time.

It is slow on purpose. All other backends are tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Listed, listed_on_host, on_host, random_bits, random_units
from mfrank.backends.arguments import (
    ROUNDS,
    AdamAverages,
    AdamRates,
    Chain,
    Factors,
    GatherDtype,
    ItemProbabilities,
    Moves,
    SolveOptions,
    Stationary,
    Until,
    Walked,
)
from mfrank.backends.dense import ball_gradients as ball_gradients
from mfrank.backends.dense import eigh as eigh
from mfrank.backends.dense import extrapolate as extrapolate_by
from mfrank.backends.dense import project_rows as project_rows
from mfrank.backends.dense import rounded, scale_of
from mfrank.backends.dense import sparse_product as sparse_product
from mfrank.backends.dense import tangent as tangent
from mfrank.backends.row_problem import Gram, RowProblem, Shared
from mfrank.backends.surface import RowSums
from mfrank.losses import WRITTEN_OUT, ListSums

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
GATHERS: tuple[GatherDtype, ...] = ("float16",)
PRIORS = True
SUMS: RowSums | None = None


def why_unavailable() -> str | None:
    """None: numpy is always installed."""
    return None


def place(factors: Factors) -> Factors:
    """Return a numpy array: the factors themselves, or a copy of a device array."""
    return on_host(factors)


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights."""
    wide = factors.astype(np.float64)
    return Gram((wide.T * weights) @ wide, wide.T @ weights)


def rotate(
    factors: Factors,
    basis: NDArray[np.float64],
    n_null: int,
    out: Factors,
    n_threads: int = 0,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Multiply, and set rounding errors in null directions to 0."""
    given = factors if rows is None else factors[rows]
    turned = given.astype(np.float64) @ basis
    lengths = np.linalg.norm(turned, axis=1, keepdims=True)
    null = turned[:, :n_null]
    noise = max(4 * np.sqrt(len(basis)) * np.finfo(factors.dtype).eps, 1e-8) * lengths
    turned[:, :n_null] = np.where(np.abs(null) <= noise, 0.0, null)
    out[:] = turned


def extrapolate(
    solved: Factors,
    weight: float,
    before: Factors,
    basis: NDArray[np.float64],
    displacements: Factors,
    turn: NDArray[np.float64],
    n_threads: int = 0,
) -> None:
    """By rotations."""
    extrapolate_by(rotate, solved, weight, before, basis, displacements, turn, n_threads)


def solve_rows(
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    out: Factors,
    options: SolveOptions,
    start: Factors | None = None,
    turn: NDArray[np.float64] | None = None,
    *,
    prior: Factors | None = None,
) -> NDArray[np.float64]:
    """Compute every row's minimum-norm solution, whatever the solver and the start."""
    wide = fixed.astype(np.float64)
    if options.gather_dtype == "float16":
        scale = scale_of(fixed)
        wide = scale * rounded(fixed, scale).astype(np.float64)
    curvature, pull = problem.curvature(), problem.pull()
    gain = np.empty(problem.rows.n_rows)
    for r, (begin, end) in enumerate(pairwise(problem.rows.indptr)):
        observed = wide[problem.rows.row(r)[0]]
        matrix = (observed.T * curvature[begin:end]) @ observed
        matrix += np.diag(problem.weight[r] * shared.values + problem.ridge[r])
        right = observed.T @ pull[begin:end] + problem.weight[r] * shared.vector
        if prior is not None:
            right += problem.ridge[r] * prior[r]
        solution = np.linalg.lstsq(matrix, right)[0]
        out[r] = solution
        gain[r] = 2 * solution @ right - solution @ matrix @ solution
    return gain


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum of c s^2 - 2 d s + k over observed cells."""
    rows = np.repeat(np.arange(problem.rows.n_rows), problem.rows.counts)
    left = row_factors[rows].astype(np.float64)
    scores = np.einsum("ek,ek->e", left, fixed[problem.rows.indices].astype(np.float64))
    value = problem.curvature() * scores**2 - 2 * problem.pull() * scores + problem.constant()
    return float(value.sum())


def product(left: Factors, right: Factors, n_threads: int = 0) -> Factors:
    """Compute in float64."""
    return np.asarray(left.astype(np.float64) @ right.astype(np.float64), dtype=left.dtype)


def score(
    queries: Factors,
    items: Factors,
    ids: NDArray[np.int64],
    n_threads: int = 0,
    *,
    distances: bool = False,
) -> Factors:
    """Compute in float64."""
    wide = items.astype(np.float64)[_list_of_each_query(ids, len(queries))]
    if distances:
        scores = -((queries[:, None] - wide) ** 2).sum(2)
    else:
        scores = np.einsum("bk,bnk->bn", queries, wide)
    return np.asarray(scores, dtype=items.dtype)


def sum_items(
    items: Factors, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
) -> Factors:
    """Compute in float64."""
    wide = items.astype(np.float64)[_list_of_each_query(ids, len(gradients))]
    return np.asarray(np.einsum("bn,bnk->bk", gradients, wide), dtype=items.dtype)


def sum_queries(
    queries: Factors, n_items: int, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
) -> tuple[NDArray[np.int64], Factors, Factors]:
    """Add place by place, in float64."""
    ids = _list_of_each_query(ids, len(queries))
    sums = np.zeros((n_items, queries.shape[1]))
    terms = gradients[:, :, None].astype(np.float64) * queries[:, None, :]
    np.add.at(sums, ids.ravel(), terms.reshape(-1, queries.shape[1]))
    totals = np.bincount(ids.ravel(), gradients.ravel(), n_items)
    touched = np.unique(ids[gradients != 0])
    return touched, sums[touched].astype(queries.dtype), totals[touched].astype(queries.dtype)


def _list_of_each_query(ids: NDArray[np.int64], n_queries: int) -> NDArray[np.int64]:
    """Each query's list."""
    return np.repeat(ids, n_queries // max(1, len(ids)), axis=0)


def adam(
    table: Factors,
    rows: NDArray[np.int64],
    gradients: Factors,
    averages: AdamAverages,
    rates: AdamRates,
    n_threads: int = 0,
) -> None:
    """Compute in float64."""
    wide = gradients.astype(np.float64)
    means = rates.decay_1 * averages.means[rows] + (1 - rates.decay_1) * wide
    squares = rates.decay_2 * averages.squares[rows] + (1 - rates.decay_2) * wide**2
    averages.means[rows], averages.squares[rows] = means, squares
    averages.updates[rows] += 1
    updates = averages.updates[rows][:, None]
    corrected = means / (1 - rates.decay_1**updates)
    spread = np.sqrt(squares / (1 - rates.decay_2**updates)) + rates.epsilon
    table[rows] -= (rates.learning_rate * corrected / spread).astype(table.dtype)


def list_sums(n_threads: int = 0) -> ListSums:
    """See :meth:`mfrank.backends.Backend.list_sums`."""
    return WRITTEN_OUT


def draw_positives(
    rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
) -> NDArray[np.int64]:
    """Sort each user's entries by their random numbers."""
    cells = np.full((len(users), n_places), -1, dtype=np.int64)
    for b, user in enumerate(users):
        entries = np.arange(rows.indptr[user], rows.indptr[user + 1])
        chosen = entries[np.argsort(random_bits(key, entries), kind="stable")][:n_places]
        cells[b, : len(chosen)] = chosen
    return cells


def draw_negatives(
    rows: CSR,
    users: NDArray[np.int64],
    n_places: int,
    key: int,
    chances: ItemProbabilities | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw all places in each round; filled places keep their first valid item."""
    items = np.zeros((len(users), n_places), dtype=np.int64)
    filled = np.zeros(items.shape, dtype=np.bool_)
    positions = np.arange(items.size).reshape(items.shape) * ROUNDS
    for attempt in range(ROUNDS):
        units = random_units(key, positions + attempt)
        at = np.minimum((units * rows.n_columns).astype(np.int64), rows.n_columns - 1)
        if chances is not None:
            at = np.searchsorted(chances.cumulative, units, side="right")
        items[~filled] = at[~filled]
        for b, user in enumerate(users):
            filled[b] |= ~np.isin(items[b], rows.row(user)[0])
    return items, filled


def walk(
    chain: Chain,
    base: Factors,
    start: Factors,
    scale: float,
    until: Until,
    n_threads: int = 0,
) -> Walked:
    """Iterate all blocks at once; blocks that have stopped keep their values."""
    begins, n_blocks = chain.blocks[:-1], len(chain.blocks) - 1
    block = np.repeat(np.arange(n_blocks), np.diff(chain.blocks))
    x, changes = start.astype(np.float64), np.full(n_blocks, np.inf)
    steps, moving = np.zeros(n_blocks, dtype=np.int64), np.ones(n_blocks, dtype=bool)
    for _ in range(until.steps):
        step = np.where(moving[block, None], base + scale * _product(chain, x, block) - x, 0.0)
        x = x + step
        changes = np.where(moving, _norms(step, begins, until.norm), changes)
        steps += moving
        if until.tolerance is not None:
            moving = changes > until.tolerance
            if not moving.any():
                break
    return Walked(x.astype(start.dtype), changes, steps)


def _product(chain: Chain, x: NDArray[np.float64], block: NDArray[np.int64]) -> NDArray[Any]:
    """Compute W x + l (r . x) in each block."""
    entries = np.repeat(np.arange(len(x)), chain.rows.counts)
    product = np.zeros_like(x)
    np.add.at(product, entries, np.asarray(chain.rows.data)[:, None] * x[chain.rows.indices])
    if chain.left is not None and chain.right is not None:
        dots = np.add.reduceat(chain.right[:, None] * x, chain.blocks[:-1])
        product += chain.left * dots[block]
    return product


def _norms(step: NDArray[np.float64], begins: NDArray[np.int64], norm: str) -> NDArray[Any]:
    """Norm of each block's change: the largest over its columns."""
    if norm == "sum":
        return np.asarray(np.add.reduceat(np.abs(step), begins).max(axis=1, initial=0.0))
    spread = np.maximum.reduceat(step, begins) - np.minimum.reduceat(step, begins)
    return np.asarray(spread.max(axis=1, initial=0.0) / 2)


def stationary(
    moves: Moves,
    restarts: CSR,
    alpha: float,
    tolerance: float,
    most: int,
    n_threads: int = 0,
) -> Stationary:
    """Power iteration, for one restart distribution at a time."""
    shape = restarts.n_rows, restarts.n_columns
    result = Stationary(np.zeros(shape), np.empty(shape[0]), np.empty(shape[0], dtype=np.int64))
    until = Until(most, np.array([alpha / (1 - alpha) * tolerance]))
    for row, values in enumerate(result.values):
        nodes, probabilities = restarts.row(row)
        begin = np.zeros((shape[1], 1))
        begin[moves.place[nodes], 0] = probabilities
        walked = walk(moves.chain(begin), alpha * begin, begin, 1 - alpha, until)
        values[moves.order] = walked.values[:, 0]
        result.errors[row] = (1 - alpha) / alpha * walked.changes[0]
        result.steps[row] = walked.steps[0]
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
    """Score every item, drop the filtered ones, sort."""
    ids = np.full((len(queries), k), -1, dtype=np.int32)
    scores = np.full((len(queries), k), np.nan, dtype=items.dtype)
    allowed_lists = None if candidates is None else listed_on_host(candidates)
    lists = [listed_on_host(each) for each in exclude]
    wide = items.astype(np.float64)
    bias = np.float64(0) if item_bias is None else item_bias.astype(np.float64)
    for r, query in enumerate(queries.astype(np.float64)):
        allowed = np.ones(len(items), dtype=bool)
        if allowed_lists is not None:
            allowed[:] = False
            allowed[allowed_lists.row(0 if allowed_lists.n_rows == 1 else r)[0]] = True
        if exclude_all is not None:
            allowed[on_host(exclude_all)] = False
        for each in lists:
            allowed[each.row(r)[0]] = False
        row = ((wide * query).sum(axis=1) + bias).astype(items.dtype)
        best = np.argsort(-row, kind="stable")
        best = best[allowed[best]][:k]
        ids[r, : len(best)], scores[r, : len(best)] = best, row[best]
    return ids, scores
