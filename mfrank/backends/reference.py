"""The specification: every formula as it is written, in float64, one row at a time.

Slow on purpose. Each other backend is tested against this one.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Factors, Gram, SolveOptions
from mfrank.quadratic import RowProblem

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}


def why_unavailable() -> str | None:
    """None: numpy is always there."""
    return None


def gram(factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
    """F' diag(weights) F and F' weights."""
    wide = factors.astype(np.float64)
    return Gram((wide.T * weights) @ wide, wide.T @ weights)


def solve_rows(
    problem: RowProblem, fixed: Factors, gram: Gram, out: Factors, options: SolveOptions
) -> None:
    """Every row's minimum-norm solution, whatever the solver asked for."""
    wide = fixed.astype(np.float64)
    curvature, pull = _coefficients(problem)
    identity = np.eye(fixed.shape[1])
    for r, (begin, end) in enumerate(pairwise(problem.rows.indptr)):
        observed = wide[problem.rows.row(r)[0]]
        matrix = (
            problem.weight[r] * gram.matrix
            + (observed.T * curvature[begin:end]) @ observed
            + problem.ridge[r] * identity
        )
        right = observed.T @ pull[begin:end] + problem.weight[r] * gram.vector
        out[r] = np.linalg.lstsq(matrix, right)[0]


def observed_value(
    problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
) -> float:
    """Sum over observed cells of c s^2 - 2 d s + k."""
    rows = np.repeat(np.arange(problem.rows.n_rows), problem.rows.counts)
    left = row_factors[rows].astype(np.float64)
    scores = np.einsum("ek,ek->e", left, fixed[problem.rows.indices].astype(np.float64))
    curvature, pull = _coefficients(problem)
    users, magnitudes = problem.entry_users(), problem.magnitudes()
    constant = problem.observed.constant.of(magnitudes, users) * problem.positive()
    return float((curvature * scores**2 - 2 * pull * scores + constant).sum())


def _coefficients(problem: RowProblem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    users, magnitudes = problem.entry_users(), problem.magnitudes()
    curvature = problem.observed.curvature.of(magnitudes, users)
    return curvature, problem.observed.pull.of(magnitudes, users) * problem.positive()
