"""Float64 least squares, for rows that the factors' dtype cannot solve precisely enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.backends.row_problem import RowProblem

if TYPE_CHECKING:
    from mfrank.backends.row_problem import Shared

__all__ = ["alike", "in_float64", "minimum_norm"]


def alike(
    problem: RowProblem, rows: NDArray[np.int64], fixed: NDArray[Any], shared: Shared
) -> list[NDArray[np.int64]]:
    """Divide the rows into those that have factors where the shared matrix is 0, and the others.

    How rows are solved together depends on whether any of them has such factors. Divided in this
    way, the bits of a row do not depend on the rows beside it.
    """
    n_null = int(np.count_nonzero(shared.values == 0))
    if not len(rows) or not n_null:
        return [rows] if len(rows) else []
    part, columns = problem.part(rows)
    reaching = np.asarray(fixed[columns, :n_null].any(axis=1))
    of_rows = np.repeat(np.arange(len(rows)), part.rows.counts)
    reach = np.bincount(of_rows, reaching[part.rows.indices], len(rows)) > 0
    return [some for some in (rows[reach], rows[~reach]) if len(some)]


def in_float64(problem: RowProblem) -> RowProblem:
    """The problem with its values converted to float64."""
    if problem.rows.data is None:
        return problem
    return replace(problem, rows=replace(problem.rows, data=problem.rows.data.astype(np.float64)))


def minimum_norm(
    problem: RowProblem,
    r: int,
    fixed: NDArray[np.float64],
    shared: Shared,
    prior: NDArray[Any] | None = None,
) -> tuple[NDArray[np.float64], float]:
    """Minimum-norm solution (K,) and gain of row ``r``, by least squares."""
    one, columns = problem.part(np.array([r]))
    observed = fixed[columns][one.rows.indices]
    matrix = (observed.T * one.curvature()) @ observed
    matrix[np.diag_indices_from(matrix)] += one.weight[0] * shared.values + one.ridge[0]
    right = observed.T @ one.pull() + one.weight[0] * shared.vector
    if prior is not None:
        right += one.ridge[0] * prior[r]
    solution = np.linalg.lstsq(matrix, right)[0]
    return solution, float(2 * solution @ right - solution @ matrix @ solution)
