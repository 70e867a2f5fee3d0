"""Without the extension: rows of like length, and queries, are computed together by BLAS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Listed, listed_on_host, on_host, run_parts, single_threaded, usable_cores
from mfrank.backends import reference
from mfrank.backends.arguments import Factors, SolveOptions
from mfrank.backends.dense import product as product
from mfrank.backends.dense import rounded, scale_of
from mfrank.backends.row_problem import RowProblem, Shared

TOLERANCE = {"float32": 1e-6, "float64": 1e-9}

_NUMBERS = 1 << 19
"""Numbers of a block of work (4 MiB in float64), few enough for the caches of most processors."""
_SLOWER = 4.0
"""Time of a multiply-add of conjugate gradients relative to one of the exact solution."""
_LONGER = 1.2
"""Rows of a batch are padded to its longest, at most this many times as long as its shortest."""


def __getattr__(name: str) -> Any:
    """What is not here is the reference's."""
    return getattr(reference, name)


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
    rows, counts, n_factors = problem.rows, problem.rows.counts, wide.shape[1]
    curvature, pull = problem.curvature(), problem.pull()
    least = problem.weight * shared.values.min(initial=np.inf) + problem.ridge
    # Of a diagonal so small beside the rest, sums of squares would leave nothing.
    plain = least > 1e-9 * (problem.weight * shared.values.max(initial=0.0) + problem.ridge)
    bent = np.zeros(rows.n_rows, np.bool_)
    bent[np.repeat(np.arange(rows.n_rows), counts)[curvature < 0]] = True
    iterated = plain & (options.solver == "cg")
    if options.solver == "auto":
        iterated = plain & (options.cg_steps < _break_even(counts, n_factors) - 1)
    gain = np.empty(rows.n_rows)

    def systems(some: NDArray[np.int64]) -> _Systems:
        places = np.arange(counts[some].max(initial=0))
        inside = places < counts[some, None]
        entries = np.where(inside, rows.indptr[some, None] + places, 0)
        factors = wide[rows.indices[entries]]
        c, d = (np.where(inside, each[entries], 0.0) for each in (curvature, pull))
        right = np.matmul(d[:, None], factors)[:, 0] + problem.weight[some, None] * shared.vector
        if prior is not None:
            right += problem.ridge[some, None] * prior[some]
        diagonal = problem.weight[some, None] * shared.values + problem.ridge[some, None]
        return _Systems(factors, c, diagonal, right)

    def iterate(some: NDArray[np.int64]) -> None:
        x = (out if start is None else start)[some].astype(np.float64)
        its = systems(some)
        x, residual, reached = _iterated(its, x if turn is None else x @ turn, options)
        out[some] = x
        gain[some] = np.einsum("rk,rk->r", x, its.right + residual)
        if options.cg_tolerance is not None:
            iterated[some] = reached

    def solve(some: NDArray[np.int64]) -> None:
        its = systems(some)
        solution = _solved(its)
        out[some] = solution
        gain[some] = np.einsum("rk,rk->r", solution, its.right)

    with single_threaded():
        threads = options.n_threads or usable_cores()
        run_parts(iterate, list(_batches(counts, np.flatnonzero(iterated), n_factors)), threads)
        exact = np.flatnonzero(~iterated & plain & ~bent)
        run_parts(solve, list(_batches(counts, exact, n_factors)), threads)
    some = np.flatnonzero(~iterated & ~(plain & ~bent))
    if len(some):
        theirs = np.empty((len(some), n_factors), out.dtype)
        own = None if prior is None else prior[some]
        cut = problem.cut(some)
        gain[some] = reference.solve_rows(cut, fixed, shared, theirs, options, prior=own)
        out[some] = theirs
    return gain


class _Systems(NamedTuple):
    """Systems (D + F'CF) x = b of R rows, padded to n entries whose c is 0."""

    factors: NDArray[np.float64]
    """F, shape (R, n, K)."""
    curvature: NDArray[np.float64]
    """c, shape (R, n)."""
    diagonal: NDArray[np.float64]
    """D, shape (R, K), like b."""
    right: NDArray[np.float64]


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


def _break_even(counts: NDArray[np.int64], n_factors: int) -> NDArray[np.float64]:
    """Steps of conjugate gradients that take as long as the exact solution of so many entries."""
    n, k = counts.astype(np.float64), float(n_factors)
    exact = np.minimum(n**2 * (k / 2 + n / 6), k**2 * (n / 2 + k / 6))
    return np.asarray(exact / (_SLOWER * 2 * np.maximum(n, 1) * k), np.float64)


def _iterated(
    systems: _Systems, x: NDArray[np.float64], options: SolveOptions
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Conjugate gradients of each row from x, preconditioned with D, as the options say.

    Returns x, the residuals and which of them are small enough.
    """
    factors, curvature, diagonal, right = systems

    def times(x: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = np.matmul(factors, x[:, :, None])[:, :, 0]
        product = np.matmul((curvature * scores)[:, None], factors)[:, 0]
        return np.asarray(diagonal * x + product, np.float64)

    def squares(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.einsum("rk,rk,rk->r", x, 1 / diagonal, x), np.float64)

    residual = right - times(x)
    size, left = squares(right), squares(residual)
    steps = options.cg_steps
    if options.cg_tolerance is None:
        size = np.maximum(size, left)
    else:
        n, k = factors.shape[1:]
        steps = max(steps, int(_break_even(np.array([n]), k)[0]))
    enough = options.residual(np.float64) ** 2 * size
    direction = residual / diagonal
    for _ in range(steps):
        image = times(direction)
        bends = np.einsum("rk,rk->r", direction, image)
        going = (left > enough) & (bends > 0)
        if not going.any():
            break
        length = np.where(going, left / np.where(going, bends, 1.0), 0.0)[:, None]
        x = x + length * direction
        residual -= length * image
        left, before = np.where(going, squares(residual), left), left
        momentum = np.where(going, left / np.where(going, before, 1.0), 0.0)[:, None]
        direction = residual / diagonal + momentum * direction
    return x, residual, left <= enough


def _solved(systems: _Systems) -> NDArray[np.float64]:
    """(D + F'CF)^-1 b of each row.

    With G = C^1/2 F D^-1/2, that is D^-1/2 (I - G'(I + GG')^-1 G) D^-1/2 b: where rows are shorter
    than the factors, the smaller system.
    """
    factors, curvature, diagonal, right = systems
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
