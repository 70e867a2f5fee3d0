"""The item step of RGX, whose interaction term couples all items through one sum.

With t = sum_y w_y q_y, the system of item y is A_y q_y = b_y + w_y (z h + kappa H t). The weighted
sum of the solutions is an equation in t alone, with K unknowns:

    (I - kappa T H) t = t0,    T = sum_y w_y^2 A_y^{-1},    t0 = sum_y w_y A_y^{-1} (b_y + w_y z h)

T v is computed by an ordinary half-step with right-hand sides w_y v, so T is never formed.
Multiplied by kappa H, the system is symmetric and positive semidefinite, and conjugate gradients
solve it. Everything is in the eigenbasis of H. The preconditioner uses the diagonal of T, with the
observed part sum_x c_xy p_x p_x' of A_y replaced by (sum_x c_xy) diag(mean_x p_x p_x'). If no item
has an observed part, T equals this diagonal, and the item step costs no more than without coupling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mfrank.als.feature_priors import towards
from mfrank.arrays import beside, on_host, single_threaded
from mfrank.backends import Backend, CellTerm, Factors, RowProblem, Shared, SolveOptions

Vector = NDArray[np.float64]

_TOLERANCE = {"float32": 1e-6, "float64": 1e-13}
_FLAT = {"float32": 1e-5, "float64": 1e-12}
"""Flat directions: coupling leaves less than this fraction of the curvature, only rounding."""
_MOST_STEPS = 100
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class ItemCoupling:
    """The item step of an epoch with coupled items.

    Attributes
    ----------
    problem : RowProblem
        The systems of all items.
    user_factors : shape (n_users, K)
        User factors in the eigenbasis of H.
    shared : Shared
        H's eigenvalues, and z h in the eigenbasis.
    kappa : float
        Weight of the interaction.
    start : shape (n_items, K)
        Item factors at the start of iterations; ``start @ turn`` is in the eigenbasis.
    turn : float64, shape (K, K)
    backend : Backend
    options : SolveOptions
    prior : shape (n_items, K), optional
        Target of the ridges, in the eigenbasis of H.
    """

    problem: RowProblem
    user_factors: Factors
    shared: Shared
    kappa: float
    start: Factors
    turn: NDArray[np.float64]
    backend: Backend
    options: SolveOptions
    prior: Factors | None = None

    def solve(self, out: Factors) -> None:
        """Solve all items into ``out``, shape (n_items, K)."""
        spread = self._spread()
        if self.problem.curved:
            alone = self._solutions(self.shared.vector, prior=self.prior)
            drive = self._drive(spread, alone, self._product)
            driven = Shared(self.shared.values, self.shared.vector + drive)
            self.backend.solve_rows(
                self.problem,
                self.user_factors,
                driven,
                out,
                self.options,
                self.start,
                self.turn,
                **towards(self.prior),
            )
        else:
            self.backend.solve_rows(
                self.problem,
                self.user_factors,
                self.shared,
                out,
                self.options,
                **towards(self.prior),
            )
            self._add_shared(out, self._drive(spread, out, lambda vector: spread * vector))

    def _drive(self, spread: Vector, alone: Factors, product: Callable[[Vector], Vector]) -> Vector:
        """Solve for t; return kappa H t.

        ``alone`` are the items' solutions without coupling, ``product`` computes T v.
        """
        driving = self.kappa * self.shared.values

        def apply(t: Vector) -> Vector:
            return driving * (t - product(driving * t))

        # Directions without any user (zero eigenvalues) drop out: their inverse is set to 0.
        curvatures = driving - driving**2 * spread
        inverse = _safe_ratio(np.ones_like(driving), curvatures)
        with single_threaded():
            t = weighted_sum(self.problem.weight, self.start) @ self.turn
        right = driving * weighted_sum(self.problem.weight, alone)
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
                break  # t is undetermined in this direction; the rest is rounding
            t += power / curvature * direction
            residual -= power / curvature * applied
        return driving * t

    def _product(self, vector: Vector) -> Vector:
        """Return T times a vector."""
        no_pull = CellTerm(np.zeros_like(self.problem.observed.pull.offset))
        observed = replace(self.problem.observed, pull=no_pull)
        rows = replace(self.problem, observed=observed)
        return weighted_sum(rows.weight, self._solutions(vector, rows))

    def _solutions(
        self, vector: Vector, rows: RowProblem | None = None, prior: Factors | None = None
    ) -> Factors:
        """Return the solutions of the rows with the shared vector ``vector``."""
        solved = np.empty_like(self.start)
        shared = Shared(self.shared.values, vector)
        # Exact with every solver option: conjugate gradients need a fixed linear map T.
        exact = replace(self.options, solver="cholesky")
        self.backend.solve_rows(
            rows or self.problem, self.user_factors, shared, solved, exact, **towards(prior)
        )
        return solved

    def _spread(self) -> Vector:
        """Return the preconditioner's diagonal approximation of T, shape (K,)."""
        users, rows = self.user_factors, self.problem
        squares = on_host(np.einsum("uk,uk->k", users, users, dtype=np.float64))
        average = squares / max(len(users), 1)
        observed = rows.row_sums(rows.observed.curvature)
        diagonals = (
            rows.weight * value + observed * mean + rows.ridge
            for value, mean in zip(self.shared.values, average, strict=True)
        )
        return np.array([_safe_ratio(rows.weight**2, diagonal).sum() for diagonal in diagonals])

    def _add_shared(self, out: Factors, vector: Vector) -> None:
        """Add w_y A_y^-1 ``vector`` to each item; A_y is diagonal without observed parts."""
        weight, ridge = self.problem.weight[:, None], self.problem.ridge[:, None]
        for begin in range(0, len(out), _ROWS_AT_ONCE):
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            diagonals = weight[rows] * self.shared.values + ridge[rows]
            out[rows] += beside(_safe_ratio(weight[rows] * vector, diagonals), out)


def weighted_sum(weights: Vector, factors: Factors) -> Vector:
    """Return the weighted sum of the rows of ``factors``, float64, shape (K,)."""
    return on_host(np.einsum("r,rk->k", beside(weights, factors), factors))


def _safe_ratio(numerator: Vector, denominator: Vector) -> Vector:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
