"""The C++ extension: threads, vector instructions, every row solved in the eigenbasis.

The shared matrix of a half-step is diagonalized once, M = U diag(lambda) U'. In that basis a row's
system is a diagonal plus one rank-one term per entry, which is cheap to solve
(``cext/kernels/rows/row_solver.h``). Rows that float32 cannot solve to :data:`TOLERANCE` are solved
again in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.native import ext as _ext
from mfrank.arrays.native import why_missing
from mfrank.arrays.placement import on_host
from mfrank.arrays.row_lists import Listed, union
from mfrank.backends.cpu.descent import adam as adam
from mfrank.backends.cpu.descent import ball_gradients as ball_gradients
from mfrank.backends.cpu.descent import project_rows as project_rows
from mfrank.backends.cpu.descent import score as score
from mfrank.backends.cpu.descent import sum_items as sum_items
from mfrank.backends.cpu.descent import sum_queries as sum_queries
from mfrank.backends.cpu.descent import tangent as tangent
from mfrank.backends.cpu.draws import draw_negatives as draw_negatives
from mfrank.backends.cpu.draws import draw_positives as draw_positives
from mfrank.backends.cpu.matmul import multiply
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.backends.cpu.search_order import shelves_for
from mfrank.backends.cpu.walks import stationary as stationary
from mfrank.backends.cpu.walks import walk as walk
from mfrank.backends.least_squares import alike, in_float64, minimum_norm
from mfrank.backends.row_problem import Gram, RowProblem, Shared
from mfrank.backends.solve_options import GatherDtype, SolveOptions
from mfrank.backends.surface import Factors
from mfrank.backends.symmetric import eigh as eigh
from mfrank.losses.sums import ListSums

TOLERANCE = {"float32": 2e-4, "float64": 1e-8}
GATHERS: tuple[GatherDtype, ...] = ()
PRIORS = True


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
) -> None:
    """Multiply in the dtype of the factors, in blocks of rows."""
    columns = np.ascontiguousarray(basis, dtype=factors.dtype)
    _ext.rotate(factors, columns, n_null, out, n_threads)


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
    by, turned = (np.ascontiguousarray(each, dtype=solved.dtype) for each in (basis, turn))
    _ext.extrapolate(solved, weight, before, by, displacements, turned, n_threads)


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
    """Solve every row into ``out``, in float64 if the dtype is not precise enough."""
    gain = np.empty(problem.rows.n_rows)
    if turn is not None:
        turn = np.ascontiguousarray(turn, dtype=fixed.dtype)
    failed = _solve(
        problem, fixed, shared, prior, out if start is None else start, turn, out, gain, options
    )
    for some in alike(problem, failed, fixed, shared):
        part, columns = problem.part(some)
        wide = fixed[columns].astype(np.float64)
        towards = None if prior is None else prior[some].astype(np.float64)
        out[some], gain[some] = _solve_precisely(part, wide, shared, towards, options)
    return gain


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum of c s^2 - 2 d s + k over observed cells."""
    return _ext.observed_value(
        rows=_rows(problem),
        observed=_terms(problem),
        users_are_rows=problem.users_are_rows,
        row_factors=row_factors,
        fixed=fixed,
        n_threads=n_threads,
    )


def product(left: Factors, right: Factors, n_threads: int = 0) -> Factors:
    """Multiply by BLAS, in parts of rows that do not depend on the number of threads."""
    return multiply(left, right, n_threads)


def list_sums(n_threads: int = 0) -> ListSums:
    """See :meth:`mfrank.backends.Backend.list_sums`."""
    return NativeSums(n_threads)


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
    prior: Factors | None,
    start: Factors,
    turn: NDArray[Any] | None,
    out: Factors,
    gain: NDArray[np.float64],
    options: SolveOptions,
) -> NDArray[np.int64]:
    """Solve in the dtype of the factors; return the rows that need more precision."""
    return _ext.solve_rows(
        rows=_rows(problem),
        observed=_terms(problem),
        users_are_rows=problem.users_are_rows,
        weight=problem.weight,
        ridge=problem.ridge,
        fixed=fixed,
        eigenvalues=shared.values,
        vector=shared.vector,
        prior=prior,
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
    problem: RowProblem,
    fixed: NDArray[np.float64],
    shared: Shared,
    prior: NDArray[np.float64] | None,
    options: SolveOptions,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solutions and gains in float64; rows that are singular even there, by least squares."""
    problem, exact = in_float64(problem), replace(options, solver="cholesky")
    out = np.zeros((problem.rows.n_rows, fixed.shape[1]))
    gain = np.empty(len(out))
    for r in _solve(problem, fixed, shared, prior, out, None, out, gain, exact):
        out[r], gain[r] = minimum_norm(problem, int(r), fixed, shared, prior)
    return out, gain
