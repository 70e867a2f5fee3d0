"""Without the extension: rows of like length, and queries, are computed together by BLAS.

What has no function here is the reference's. Rows are solved exactly, whatever the solver and the
start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Listed, listed_on_host, on_host, run_parts, single_threaded, usable_cores
from mfrank.backends import reference
from mfrank.backends.arguments import Factors, GatherDtype, SolveOptions
from mfrank.backends.dense import product as product
from mfrank.backends.dense import rounded, scale_of
from mfrank.backends.reference import adam as adam
from mfrank.backends.reference import ball_gradients as ball_gradients
from mfrank.backends.reference import draw_negatives as draw_negatives
from mfrank.backends.reference import draw_positives as draw_positives
from mfrank.backends.reference import eigh as eigh
from mfrank.backends.reference import extrapolate as extrapolate
from mfrank.backends.reference import gram as gram
from mfrank.backends.reference import list_sums as list_sums
from mfrank.backends.reference import place as place
from mfrank.backends.reference import project_rows as project_rows
from mfrank.backends.reference import rotate as rotate
from mfrank.backends.reference import score as score
from mfrank.backends.reference import sparse_product as sparse_product
from mfrank.backends.reference import stationary as stationary
from mfrank.backends.reference import sum_items as sum_items
from mfrank.backends.reference import sum_queries as sum_queries
from mfrank.backends.reference import tangent as tangent
from mfrank.backends.reference import walk as walk
from mfrank.backends.reference import why_unavailable as why_unavailable
from mfrank.backends.row_problem import RowProblem, Shared
from mfrank.backends.surface import RowSums

TOLERANCE = {"float32": 1e-6, "float64": 1e-9}
GATHERS: tuple[GatherDtype, ...] = ("float16",)
PRIORS = True
SUMS: RowSums | None = None

_NUMBERS = 1 << 19
"""Numbers of a block of work (4 MiB in float64), few enough for the caches of most processors."""
_LONGER = 1.2
"""Rows of a batch are padded to its longest, at most this many times as long as its shortest."""


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
    """Solve batches of rows; a row whose matrix may be singular as the reference does."""
    wide = fixed.astype(np.float64)
    if options.gather_dtype == "float16":
        scale = scale_of(fixed)
        wide = scale * rounded(fixed, scale).astype(np.float64)
    rows, counts = problem.rows, problem.rows.counts
    curvature, pull = problem.curvature(), problem.pull()
    least = problem.weight * shared.values.min(initial=np.inf) + problem.ridge
    # Of a diagonal so small beside the rest, sums of squares would leave nothing.
    most = problem.weight * shared.values.max(initial=0.0) + problem.ridge
    plain = least > 1e-9 * most
    bent = np.repeat(np.arange(rows.n_rows), counts)[curvature < 0]
    plain[bent] = False
    gain = np.empty(rows.n_rows)

    def solve(some: NDArray[np.int64]) -> None:
        places = np.arange(counts[some].max(initial=0))
        inside = places < counts[some, None]
        entries = np.where(inside, rows.indptr[some, None] + places, 0)
        factors = wide[rows.indices[entries]]
        c, d = (np.where(inside, each[entries], 0.0) for each in (curvature, pull))
        right = np.matmul(d[:, None], factors)[:, 0] + problem.weight[some, None] * shared.vector
        if prior is not None:
            right += problem.ridge[some, None] * prior[some]
        diagonal = problem.weight[some, None] * shared.values + problem.ridge[some, None]
        solution = _solved(factors, c, diagonal, right)
        out[some] = solution
        gain[some] = np.einsum("rk,rk->r", solution, right)

    n_factors = wide.shape[1]
    with single_threaded():
        threads = options.n_threads or usable_cores()
        run_parts(solve, list(_batches(counts, np.flatnonzero(plain), n_factors)), threads)
    if not plain.all():
        some = np.flatnonzero(~plain)
        theirs = np.empty((len(some), n_factors), out.dtype)
        own = None if prior is None else prior[some]
        cut = problem.cut(some)
        gain[some] = reference.solve_rows(cut, fixed, shared, theirs, options, prior=own)
        out[some] = theirs
    return gain


def _batches(
    counts: NDArray[np.int64], rows: NDArray[np.int64], n_factors: int
) -> Iterator[NDArray[np.int64]]:
    """Rows of like length, as many as make a block of work."""
    rows = rows[np.argsort(counts[rows], kind="stable")]
    lengths = counts[rows]
    begin = 0
    while begin < len(rows):
        longest = max(int(_LONGER * lengths[begin]), 4)
        most = max(1, _NUMBERS // ((longest + n_factors) * n_factors))
        end = min(begin + most, int(np.searchsorted(lengths, longest, side="right")))
        yield rows[begin:end]
        begin = end


def _solved(
    factors: NDArray[np.float64],
    curvature: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    right: NDArray[np.float64],
) -> NDArray[np.float64]:
    """(D + F'CF)^-1 b of each row: factors (R, n, K), curvature (R, n), the others (R, K).

    With G = C^1/2 F D^-1/2, that is D^-1/2 (I - G'(I + GG')^-1 G) D^-1/2 b: where rows are shorter
    than the factors, the smaller system.
    """
    n, k = factors.shape[1:]
    weighted = np.sqrt(curvature)[:, :, None] * factors
    if n >= k:
        matrix = np.matmul(weighted.transpose(0, 2, 1), weighted)
        matrix[:, range(k), range(k)] += diagonal
        return np.asarray(np.linalg.solve(matrix, right[:, :, None])[:, :, 0], np.float64)
    root = 1 / np.sqrt(diagonal)
    weighted *= root[:, None]
    scaled = (root * right)[:, :, None]
    matrix = np.matmul(weighted, weighted.transpose(0, 2, 1))
    matrix[:, range(n), range(n)] += 1
    taken = np.linalg.solve(matrix, np.matmul(weighted, scaled))
    scaled -= np.matmul(weighted.transpose(0, 2, 1), taken)
    return root * scaled[:, :, 0]


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum over observed cells, a block of them at a time."""
    rows = np.repeat(np.arange(problem.rows.n_rows), problem.rows.counts)
    scores = np.empty(len(rows))
    step = max(1, _NUMBERS // max(1, fixed.shape[1]))
    for begin in range(0, len(rows), step):
        some = slice(begin, begin + step)
        left = row_factors[rows[some]].astype(np.float64)
        right = fixed[problem.rows.indices[some]].astype(np.float64)
        np.einsum("ek,ek->e", left, right, out=scores[some])
    value = problem.curvature() * scores**2 - 2 * problem.pull() * scores + problem.constant()
    return float(value.sum())


def top_k(
    queries: Factors,
    items: Factors,
    k: int,
    *,
    item_bias: NDArray[np.floating] | None = None,
    exclude: Sequence[Listed] = (),
    exclude_all: NDArray[np.int32] | None = None,
    candidates: Listed | None = None,
    n_threads: int = 0,
) -> tuple[NDArray[np.int32], Factors]:
    """Find the best by a product of blocks, and score these as the reference does.

    So a query's scores have the same bits in any company.
    """
    ids = np.full((len(queries), k), -1, dtype=np.int32)
    scores = np.full((len(queries), k), np.nan, dtype=items.dtype)
    if not len(items) or not k:
        return ids, scores
    allowed_lists = None if candidates is None else listed_on_host(candidates)
    lists = [listed_on_host(each) for each in exclude]
    wide = items.astype(np.float64)
    bias = np.zeros(len(items)) if item_bias is None else item_bias.astype(np.float64)
    with np.errstate(over="ignore"):  # then every item is scored as the reference does
        longest = np.linalg.norm(wide, axis=1).max()
    last = max(0, len(items) - k)
    step = max(1, _NUMBERS // len(items))
    for begin in range(0, len(queries), step):
        block = queries[begin : begin + step].astype(np.float64)
        rows = (product(block, wide.T, n_threads) + bias).astype(items.dtype)
        allowed = np.full(rows.shape, allowed_lists is None)
        for r, own in enumerate(allowed):
            if allowed_lists is not None:
                own[allowed_lists.row(0 if allowed_lists.n_rows == 1 else begin + r)[0]] = True
            for each in lists:
                own[each.row(begin + r)[0]] = False
        if exclude_all is not None:
            allowed[:, on_host(exclude_all)] = False
        rows[~allowed] = -np.inf
        least = np.partition(rows, last, axis=1)[:, last].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = block.shape[1] * np.finfo(np.float64).eps * np.linalg.norm(block, axis=1)
            near = least - rounding * longest - 4 * np.finfo(items.dtype).eps * np.abs(least)
        near = np.where(np.isnan(near), least, near)  # an infinite score has no rounding
        for r, query in enumerate(block):
            best = np.flatnonzero((rows[r] >= near[r]) & allowed[r])
            own_scores = ((wide[best] * query).sum(axis=1) + bias[best]).astype(items.dtype)
            order = np.argsort(-own_scores, kind="stable")[:k]
            ids[begin + r, : len(order)] = best[order]
            scores[begin + r, : len(order)] = own_scores[order]
    return ids, scores
