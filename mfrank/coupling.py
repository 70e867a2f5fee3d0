r"""The item step of RGx, whose interaction term couples all items through one sum.

With t = sum_y w_y q_y every item's row reads A_y q_y = b_y + w_y (z h + kappa H t). Summing the
solutions gives an equation for t alone, K unknowns:

    (I - kappa T H) t = t0,    T = sum_y w_y^2 A_y^{-1},    t0 = sum_y w_y A_y^{-1} (b_y + w_y z h)

T v is one ordinary half-step with right-hand sides w_y v, so T is never formed. Multiplied by
kappa H the system is symmetric and positive, and conjugate gradients solve it. The preconditioner
replaces each row's observed part by its weight times the average user: diagonal in the
eigenbasis of H, and exact where no row has an observed part (then one step is enough).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Backend, Factors, Gram, SolveOptions
from mfrank.blas import single_threaded
from mfrank.quadratic import CellTerm, RowProblem

__all__ = ["coupled_sum", "weighted_sum"]

Vector = NDArray[np.float64]

_TOLERANCE = {"float32": 1e-6, "float64": 1e-13}
_MOST_STEPS = 100


def coupled_sum(
    problem: RowProblem,
    user_factors: Factors,
    gram: Gram,
    kappa: float,
    start: Vector,
    item_factors: Factors,
    backend: Backend,
    options: SolveOptions,
) -> Vector:
    """Solve for t = sum_y w_y q_y, float64, shape (K,).

    ``gram`` is H with the vector z h, ``start`` a guess of t, ``item_factors`` the rows' warm
    start (not written to).
    """
    matrix = kappa * gram.matrix

    def sum_of_solutions(rows: RowProblem, vector: Vector) -> Vector:
        solved = item_factors.copy()
        backend.solve_rows(rows, user_factors, Gram(gram.matrix, vector), solved, options)
        return weighted_sum(rows.weight, solved)

    no_pull = CellTerm(np.zeros_like(problem.observed.pull.offset))
    homogeneous = replace(problem, observed=replace(problem.observed, pull=no_pull))

    def apply(t: Vector) -> Vector:
        driven = matrix @ t
        return driven - matrix @ sum_of_solutions(homogeneous, driven)

    right = matrix @ sum_of_solutions(problem, gram.vector)
    precondition = _Preconditioner(problem, user_factors, gram.matrix, kappa)
    t, residual = start.copy(), right - apply(start)
    goal = _TOLERANCE[user_factors.dtype.name] * np.linalg.norm(right)
    direction, power = np.zeros_like(t), 1.0
    for _ in range(_MOST_STEPS):
        if np.linalg.norm(residual) <= goal:
            break
        improved = precondition(residual)
        previous, power = power, float(residual @ improved)
        direction = improved + (power / previous) * direction
        applied = apply(direction)
        curvature = float(direction @ applied)
        if not curvature > 0:  # without a ridge t may not be determined along it
            break
        length = power / curvature
        t += length * direction
        residual -= length * applied
    return t


def weighted_sum(weights: Vector, factors: Factors) -> Vector:
    """Sum of the rows of ``factors`` times their weights, float64, shape (K,)."""
    return np.asarray(np.einsum("r,rk->k", weights, factors))


class _Preconditioner:
    """Inverse of kappa H - kappa H T^ kappa H, where T^ averages what rows observe."""

    def __init__(
        self, problem: RowProblem, user_factors: Factors, matrix: Vector, kappa: float
    ) -> None:
        with single_threaded():
            values, self.basis = np.linalg.eigh(matrix)
        values = np.maximum(values, 0.0)
        rotated = user_factors @ self.basis.astype(user_factors.dtype)
        average = np.einsum("uk,uk->k", rotated, rotated, dtype=np.float64)
        average /= max(len(rotated), 1)
        observed = problem.row_sums(problem.observed.curvature)
        spread = np.array(
            [
                _safe_ratio(
                    problem.weight**2,
                    problem.weight * value + observed * mean + problem.ridge,
                ).sum()
                for value, mean in zip(values, average, strict=True)
            ]
        )
        driven = kappa * values
        scale = driven - driven**2 * spread
        # Directions no user has (zero eigenvalues) play no part in the system.
        seen = values > values.max(initial=0.0) * len(values) * np.finfo(values.dtype).eps
        self.inverse = np.where(seen & (scale > 0), _safe_ratio(np.ones_like(scale), scale), 0.0)

    def __call__(self, residual: Vector) -> Vector:
        return np.asarray(self.basis @ (self.inverse * (self.basis.T @ residual)))


def _safe_ratio(numerator: Vector, denominator: Vector) -> Vector:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
