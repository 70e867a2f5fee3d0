"""Half-steps: rows in the dtype of the factors, and again in float64 where that is too coarse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.native import ext as _ext
from mfrank.backends.least_squares import alike, in_float64, minimum_norm
from mfrank.backends.row_problem import RowProblem, Shared, Vector
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.surface import Factors

__all__ = ["Unsolved", "cells_of", "chosen", "solve_rows", "solve_unsolved"]

_EXACTLY = SolveOptions("cholesky")


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
    gain = np.empty(problem.rows.n_rows)
    if turn is not None:
        turn = np.ascontiguousarray(turn, dtype=fixed.dtype)
    begun = out if start is None else start
    failed = _solve(problem, fixed, shared, prior, begun, turn, out, gain, options)
    left = Unsolved(failed, begun[failed], turn)
    solve_unsolved(problem, left, fixed, shared, prior, out, gain, options)
    return gain


class Unsolved(NamedTuple):
    """Rows that the dtype could not solve: their numbers, where iterations start, and the basis."""

    rows: NDArray[np.int64]
    start: Factors
    turn: NDArray[Any] | None


def solve_unsolved(
    problem: RowProblem,
    left: Unsolved,
    fixed: Factors,
    shared: Shared,
    prior: Factors | None,
    out: Factors,
    gain: Vector,
    options: SolveOptions,
) -> None:
    """Solve some rows in float64; those that are singular even there, by least squares.

    Where iterations are allowed, rows that were summed over ranges of columns are iterated on
    instead: float64 takes longer.
    """
    rows = left.rows
    if options.solver == "auto" and len(rows):
        summed = problem.rows.counts[rows] >= _ext.summed_from(
            in_float64=fixed.dtype == np.float64,
            k=fixed.shape[1],
            **chosen(options, fixed.dtype),
            curved=problem.curved,
        )
        some = Unsolved(rows[summed], np.ascontiguousarray(left.start[summed]), left.turn)
        again = _iterate(problem, some, fixed, shared, prior, out, gain, options)
        rows = np.concatenate([rows[~summed], again])
    _solve_in_float64(problem, rows, fixed, shared, prior, out, gain, options)


def _iterate(
    problem: RowProblem,
    left: Unsolved,
    fixed: Factors,
    shared: Shared,
    prior: Factors | None,
    out: Factors,
    gain: Vector,
    options: SolveOptions,
) -> NDArray[np.int64]:
    """Solve some rows by iterations; return those that are left even so."""
    rows, start, turn = left
    solved, gains = np.empty_like(start), np.empty(len(rows))
    towards = None if prior is None else np.ascontiguousarray(prior[rows])
    failed = _solve(
        problem.cut(rows),
        fixed,
        shared,
        towards,
        start,
        turn,
        solved,
        gains,
        replace(options, solver="cg"),
    )
    out[rows], gain[rows] = solved, gains
    return rows[failed]


def _solve_in_float64(
    problem: RowProblem,
    rows: NDArray[np.int64],
    fixed: Factors,
    shared: Shared,
    prior: Factors | None,
    out: Factors,
    gain: Vector,
    options: SolveOptions,
) -> None:
    """Solve some rows in float64; those that are singular even there, by least squares.

    Rows that are solved from sums over ranges of columns are solved each by itself: which ranges
    there are depends on the number of columns, and so on the rows that are solved together.
    """
    exactly = replace(_EXACTLY, n_threads=options.n_threads)
    summed = problem.rows.counts[rows] >= _ext.summed_from(
        in_float64=True, k=fixed.shape[1], **chosen(exactly, fixed.dtype), curved=problem.curved
    )
    together = alike(problem, rows[~summed], fixed, shared)
    for some in [*(rows[summed][:, np.newaxis]), *together]:
        part, columns = problem.part(some)
        wide = fixed[columns].astype(np.float64)
        towards = None if prior is None else prior[some].astype(np.float64)
        out[some], gain[some] = _solve_precisely(part, wide, shared, towards, exactly)


def cells_of(problem: RowProblem) -> dict[str, Any]:
    """The observed cells of a problem, as kernels are given them."""
    rows, observed = problem.rows, problem.observed
    terms = (observed.curvature, observed.pull, observed.constant)
    return {
        "rows": (rows.indptr, rows.indices, rows.data),
        "observed": tuple((term.offset, term.slope) for term in terms),
        "users_are_rows": problem.users_are_rows,
    }


def chosen(options: SolveOptions, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The way that rows are solved, as kernels are told it."""
    return {
        "solver": options.solver,
        "cg_steps": options.cg_steps,
        "cg_tolerance": options.residual(dtype),
        "to_tolerance": options.cg_tolerance is not None,
    }


def _solve(
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    prior: Factors | None,
    start: Factors,
    turn: NDArray[Any] | None,
    out: Factors,
    gain: Vector,
    options: SolveOptions,
) -> NDArray[np.int64]:
    """Solve in the dtype of the factors; return the rows that need more precision."""
    return _ext.solve_rows(
        **cells_of(problem),
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
        **chosen(options, fixed.dtype),
        n_threads=options.n_threads,
    )


def _solve_precisely(
    problem: RowProblem,
    fixed: NDArray[np.float64],
    shared: Shared,
    prior: NDArray[np.float64] | None,
    options: SolveOptions,
) -> tuple[NDArray[np.float64], Vector]:
    """Solutions and gains in float64; rows that are singular even there, by least squares."""
    problem = in_float64(problem)
    out = np.zeros((problem.rows.n_rows, fixed.shape[1]))
    gain = np.empty(len(out))
    for r in _solve(problem, fixed, shared, prior, out, None, out, gain, options):
        out[r], gain[r] = minimum_norm(problem, int(r), fixed, shared, prior)
    return out, gain
