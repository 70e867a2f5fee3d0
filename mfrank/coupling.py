"""The item step of RGx, whose interaction term couples all items through one sum.

With t = sum_y w_y q_y every item's row reads A_y q_y = b_y + w_y (z h + kappa H t). Summing the
solutions gives an equation for t alone, K unknowns:

    (I - kappa T H) t = t0,    T = sum_y w_y^2 A_y^{-1},    t0 = sum_y w_y A_y^{-1} (b_y + w_y z h)

T v is one ordinary half-step with right-hand sides w_y v, so T is never formed. Multiplied by
kappa H the system is symmetric and positive, and conjugate gradients solve it. All is written in
the eigenbasis of H. The preconditioner replaces each row's observed part by its weight times the
average user, its diagonal taken: exact where no row has an observed part (then one step is enough).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Backend, Factors, Shared, SolveOptions
from mfrank.quadratic import CellTerm, RowProblem

__all__ = ["ItemCoupling", "weighted_sum"]

Vector = NDArray[np.float64]

_TOLERANCE = {"float32": 1e-6, "float64": 1e-13}
_FLAT = {"float32": 1e-5, "float64": 1e-12}
"""Part of a direction's curvature without coupling below which the rest is rounding."""
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class ItemCoupling:
    """The item step of one epoch, its rows solvable for any right-hand side.

    Attributes
    ----------
    problem : RowProblem
        All items.
    user_factors : shape (n_users, K)
        In the eigenbasis of H.
    shared : Shared
        H's eigenvalues, and z h.
    kappa : float
    start : shape (n_items, K)
        Where iterations start, ``start @ turn`` in the eigenbasis.
    turn : float64, shape (K, K)
    """

    problem: RowProblem
    user_factors: Factors
    shared: Shared
    kappa: float
    start: Factors
    turn: NDArray[np.float64]
    backend: Backend
    options: SolveOptions

    def solve(self) -> Vector:
        """Solve for t, float64, shape (K,)."""
        driving = self.kappa * self.shared.values
        no_pull = CellTerm(np.zeros_like(self.problem.observed.pull.offset))
        observed = replace(self.problem.observed, pull=no_pull)
        homogeneous = replace(self.problem, observed=observed)

        def apply(t: Vector) -> Vector:
            return driving * (t - self._sum_of_solutions(homogeneous, driving * t))

        right = driving * self._sum_of_solutions(self.problem, self.shared.vector)
        inverse = self._preconditioner(driving)
        t = weighted_sum(self.problem.weight, self.start) @ self.turn
        residual = right - apply(t)
        dtype = self.user_factors.dtype.name
        goal, flat = _TOLERANCE[dtype] * np.linalg.norm(right), _FLAT[dtype]
        direction, power = np.zeros_like(t), 1.0
        for _ in range(_MOST_STEPS):
            if np.linalg.norm(residual) <= goal:
                break
            improved = inverse * residual
            previous, power = power, float(residual @ improved)
            direction = improved + (power / previous) * direction
            applied = apply(direction)
            curvature = float(direction @ applied)
            if not curvature > flat * float(direction @ (driving * direction)):
                break  # without a ridge t may not be determined along it: that is all rounding
            t += power / curvature * direction
            residual -= power / curvature * applied
        return t

    def _sum_of_solutions(self, rows: RowProblem, vector: Vector) -> Vector:
        solved = np.empty_like(self.start)
        shared = Shared(self.shared.values, vector)
        # Exactly, whatever the solver: T must be one linear map.
        exact = replace(self.options, solver="cholesky")
        self.backend.solve_rows(rows, self.user_factors, shared, solved, exact)
        return weighted_sum(rows.weight, solved)

    def _preconditioner(self, driving: Vector) -> Vector:
        """Diagonal inverse of kappa H - kappa H T^ kappa H, where T^ averages what rows observe."""
        users = self.user_factors
        average = np.einsum("uk,uk->k", users, users, dtype=np.float64) / max(len(users), 1)
        observed, rows = self.problem.row_sums(self.problem.observed.curvature), self.problem
        spread = np.array(
            [
                _safe_ratio(
                    rows.weight**2, rows.weight * value + observed * mean + rows.ridge
                ).sum()
                for value, mean in zip(self.shared.values, average, strict=True)
            ]
        )
        # Directions no user has (zero eigenvalues) play no part in the system.
        return _safe_ratio(np.ones_like(driving), driving - driving**2 * spread)


def weighted_sum(weights: Vector, factors: Factors) -> Vector:
    """Sum of the rows of ``factors`` times their weights, float64, shape (K,)."""
    return np.asarray(np.einsum("r,rk->k", weights, factors))


def _safe_ratio(numerator: Vector, denominator: Vector) -> Vector:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
