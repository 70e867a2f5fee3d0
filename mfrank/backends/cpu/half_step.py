"""Half-steps: rows in the factors' dtype, or in float64 where that is too coarse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import ext as _ext
from mfrank.backends.arguments import Factors, SolveOptions
from mfrank.backends.row_problem import RowProblem, Shared, Vector, alike, in_float64, minimum_norm

_EXACTLY = SolveOptions("cholesky")


@dataclass(frozen=True, slots=True, eq=False)
class SolveArguments:
    """The arguments of ``solve_rows`` except the start, and the array for its gains."""

    problem: RowProblem
    fixed: Factors
    shared: Shared
    prior: Factors | None
    out: Factors
    gain: Vector
    options: SolveOptions


class Unsolved(NamedTuple):
    """Rows that the dtype could not solve, the start of their iterations, and its basis."""

    rows: NDArray[np.int64]
    start: Factors
    turn: NDArray[Any] | None


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
) -> Vector:
    """Solve every row into ``out``, in float64 if the dtype is not precise enough."""
    step = SolveArguments(
        problem, fixed, shared, prior, out, np.empty(problem.rows.n_rows), options
    )
    if turn is not None:
        turn = np.ascontiguousarray(turn, dtype=fixed.dtype)
    initial = out if start is None else start
    failed = _solve(step, initial, turn)
    solve_unsolved(step, Unsolved(failed, initial[failed], turn))
    return step.gain


def solve_unsolved(step: SolveArguments, left: Unsolved) -> None:
    """Solve some rows in float64; those that are singular even there, by least squares.

    If iterations are allowed, rows that were summed over ranges of columns are solved by iterations
    in their own dtype first, which is faster.
    """
    rows, problem, fixed = left.rows, step.problem, step.fixed
    if step.options.solver == "auto":
        summed = problem.rows.counts[rows] >= summed_from(
            fixed.shape[1], fixed.dtype, step.options, curved=problem.curved
        )
        if summed.any():
            some = Unsolved(rows[summed], np.ascontiguousarray(left.start[summed]), left.turn)
            rows = np.concatenate([rows[~summed], _iterate(step, some)])
    _solve_in_float64(step, rows)


def summed_from(
    n_factors: int, dtype: np.dtype[Any], options: SolveOptions, *, curved: bool
) -> int:
    """See :meth:`mfrank.backends.surface.RowSums.summed_from`."""
    return _ext.summed_from(
        in_float64=dtype == np.float64,
        k=n_factors,
        **solver_arguments(options, dtype),
        curved=curved,
    )


def cells_of(problem: RowProblem) -> dict[str, Any]:
    """The observed cells of a problem, as arguments of kernels."""
    rows, observed = problem.rows, problem.observed
    terms = (observed.curvature, observed.pull, observed.constant)
    return {
        "rows": (rows.indptr, rows.indices, rows.data),
        "observed": tuple((term.offset, term.slope, term.of_dislikes) for term in terms),
        "users_are_rows": problem.users_are_rows,
    }


def solver_arguments(options: SolveOptions, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The options of the solver, as arguments of kernels."""
    return {
        "solver": options.solver,
        "cg_steps": options.cg_steps,
        "cg_tolerance": options.residual(dtype),
        "to_tolerance": options.cg_tolerance is not None,
    }


def _solve(step: SolveArguments, start: Factors, turn: NDArray[Any] | None) -> NDArray[np.int64]:
    """Solve in the dtype of the factors; return the rows that need more precision."""
    return _ext.solve_rows(
        **cells_of(step.problem),
        weight=step.problem.weight,
        ridge=step.problem.ridge,
        fixed=step.fixed,
        eigenvalues=step.shared.values,
        vector=step.shared.vector,
        prior=step.prior,
        start=start,
        turn=turn,
        out=step.out,
        gain=step.gain,
        **solver_arguments(step.options, step.fixed.dtype),
        n_threads=step.options.n_threads,
    )


def _iterate(step: SolveArguments, left: Unsolved) -> NDArray[np.int64]:
    """Solve some rows by iterations; return those that remain unsolved."""
    rows, start, turn = left
    prior = None if step.prior is None else np.ascontiguousarray(step.prior[rows])
    some = replace(
        step,
        problem=step.problem.cut(rows),
        prior=prior,
        out=np.empty_like(start),
        gain=np.empty(len(rows)),
        options=replace(step.options, solver="cg"),
    )
    failed = _solve(some, start, turn)
    step.out[rows], step.gain[rows] = some.out, some.gain
    return rows[failed]


def _solve_in_float64(step: SolveArguments, rows: NDArray[np.int64]) -> None:
    """Solve some rows in float64; those that are singular even there, by least squares.

    Rows that are summed over ranges of columns are solved one by one: the ranges depend on the
    number of columns, and so would depend on the other rows.
    """
    problem, fixed, wide = step.problem, step.fixed, np.dtype(np.float64)
    exactly = replace(_EXACTLY, n_threads=step.options.n_threads)
    summed = problem.rows.counts[rows] >= summed_from(
        fixed.shape[1], wide, exactly, curved=problem.curved
    )
    together = alike(problem, rows[~summed], fixed, step.shared)
    for some in [*(rows[summed][:, np.newaxis]), *together]:
        part, columns = problem.part(some)
        precisely = SolveArguments(
            in_float64(part),
            fixed[columns].astype(wide),
            step.shared,
            None if step.prior is None else step.prior[some].astype(wide),
            np.zeros((len(some), fixed.shape[1])),
            np.empty(len(some)),
            exactly,
        )
        _solve_or_least_squares(precisely)
        step.out[some], step.gain[some] = precisely.out, precisely.gain


def _solve_or_least_squares(step: SolveArguments) -> None:
    """Solve all rows in float64; those that are singular even there, by least squares."""
    for r in _solve(step, step.out, None):
        step.out[r], step.gain[r] = minimum_norm(
            step.problem, int(r), step.fixed, step.shared, step.prior
        )


# Rows with very many entries, by sums over ranges of columns; see :class:`RowSums`.
#
# :func:`solve_rows` solves them in the same way (``cext/kernels/rows/heavy_rows.h``), to the bit.


def column_ranges(n_columns: int) -> NDArray[np.int64]:
    """See :meth:`mfrank.backends.surface.RowSums.column_ranges`."""
    return _ext.column_ranges(n_columns)


def sum_rows(
    problem: RowProblem, fixed: Factors, n_threads: int = 0, *, curved: bool
) -> NDArray[Any]:
    """See :meth:`mfrank.backends.surface.RowSums.sum_rows`."""
    return _ext.sum_rows(**cells_of(problem), fixed=fixed, curved=curved, n_threads=n_threads)


def solve_summed(
    problem: RowProblem,
    rows: NDArray[np.int64],
    sums: NDArray[Any],
    fixed: Factors,
    shared: Shared,
    out: Factors,
    gain: Vector,
    options: SolveOptions,
    start: Factors,
    turn: NDArray[np.float64] | None = None,
    *,
    prior: Factors | None = None,
) -> None:
    """See :meth:`mfrank.backends.surface.RowSums.solve_summed`."""
    solved, gains = np.empty((len(rows), fixed.shape[1]), fixed.dtype), np.empty(len(rows))
    failed = _ext.solve_summed(
        sums=sums,
        curved=problem.curved,
        weight=problem.weight[rows],
        ridge=problem.ridge[rows],
        fixed=fixed,
        eigenvalues=shared.values,
        vector=shared.vector,
        prior=None if prior is None else prior[rows],
        out=solved,
        gain=gains,
        n_threads=options.n_threads,
    )
    out[rows], gain[rows] = solved, gains
    if turn is not None:
        turn = np.ascontiguousarray(turn, dtype=fixed.dtype)
    step = SolveArguments(problem, fixed, shared, prior, out, gain, options)
    solve_unsolved(step, Unsolved(rows[failed], start[failed], turn))
