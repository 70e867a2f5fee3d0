r"""The family of quadratic objectives that ALS minimizes.

With scores s_xy = p_x . q_y (users x, items y, D the observed cells, r_xy their values) every
objective of :mod:`mfrank.als.objectives` is

    L(P, Q) =  sum_x sum_y a_x w_y (s_xy - z)^2                      background: every cell
             - kappa sum_x a_x (sum_y w_y s_xy)^2                    interaction (RGX only)
             + sum_{(x,y) in D} c_xy s_xy^2 - 2 d_xy s_xy + k_xy     what observed cells add
             + sum_x rho_x |p_x|^2 + sum_y sigma_y |q_y|^2           ridge

so that, with one side fixed, the other side's optimum solves independent K x K systems. With
G = Q' W Q, m = Q' w, H = P' A P, h = P' a:

    (a_x (G - kappa m m') + sum_y c_xy q_y q_y' + rho_x I)   p_x = sum_y d_xy q_y + a_x z m
    (w_y H + sum_x c_xy p_x p_x' + sigma_y I) q_y = sum_x d_xy p_x + w_y (z h + kappa H t)

where t = sum_y w_y q_y couples the items if kappa > 0 (:mod:`mfrank.als.coupling` solves for it).
Engine and backends only use these coefficients, whatever the objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.backends.row_problem import Observed, RowProblem, Vector
from mfrank.data.counts import Counts

__all__ = [
    "QuadraticObjective",
]


class QuadraticObjective(ABC):
    """Base class of quadratic objectives: the coefficients of the family above.

    A subclass implements :meth:`user_weights` and :meth:`observed`, and overrides :attr:`target`,
    :meth:`item_weights` and :meth:`interaction` if their defaults do not fit.

    The ridge is ``regularization * mass^nu``, where a row's mass is the sum of its cells' weights,
    a_x sum(w) + sum_y c_xy for users and w_y sum(a) + sum_x c_xy for items: nu = 0 is a constant
    ridge, nu = 1 the frequency-scaled ridge of Rendle et al. (2022).
    """

    accepts_dislikes: ClassVar[bool] = False
    """Whether the objective supports r < 0; if not, fits raise on such data."""
    uses_values: ClassVar[bool] = False
    """Whether the size of r matters; if not, kernels read the pattern only."""

    regularization: float
    nu: float

    @abstractmethod
    def user_weights(self, n: NDArray[Any], n_items: int) -> Vector:
        """Return background weights a_x, float64, of users with ``n`` observed items each."""

    @abstractmethod
    def observed(self, n: NDArray[Any], n_items: int) -> Observed:
        """Return c, d and k of the observed cells of users with ``n`` observed items each."""

    @property
    def target(self) -> float:
        """Background target z, by default 0."""
        return 0.0

    def item_weights(self, m: NDArray[Any], counts: Counts) -> Vector:
        """Return background weights w_y, float64, of items with ``m`` observed users each.

        ``counts`` are those of the training data; by default all weights are 1.
        """
        return np.ones(len(m))

    def interaction(self, n_items: int) -> float:
        """Return the interaction's weight kappa, by default 0."""
        return 0.0

    def user_problem(
        self, user_items: CSR, counts: Counts, *, total: float | None = None
    ) -> RowProblem:
        """Return the systems of the user step for rows of users.

        The rows are all users in a fit and any users in a fold-in; the columns are the items of
        the training data, which ``counts`` describes. ``total`` is their :meth:`items_total`, if
        it is known already.
        """
        n, n_items = user_items.counts, len(counts.items)
        weight, observed = self.user_weights(n, n_items), self.observed(n, n_items)
        total = self.items_total(counts) if total is None else total
        return self._problem(user_items, weight, total, observed, users_are_rows=True)

    def items_total(self, counts: Counts) -> float:
        """Return the sum of the background weights of all items."""
        return float(self.item_weights(counts.items, counts).sum())

    def item_problem(self, item_users: CSR, counts: Counts) -> RowProblem:
        """Return the systems of the item step for rows of items; columns are the fit's users."""
        n, n_items = counts.users, len(counts.items)
        weight, observed = self.item_weights(item_users.counts, counts), self.observed(n, n_items)
        total = float(self.user_weights(n, n_items).sum())
        return self._problem(item_users, weight, total, observed, users_are_rows=False)

    def _problem(
        self, rows: CSR, weight: Vector, total: float, observed: Observed, *, users_are_rows: bool
    ) -> RowProblem:
        if not self.uses_values and not self.accepts_dislikes:
            rows = rows.pattern()
        problem = RowProblem(rows, weight, np.empty(rows.n_rows), observed, users_are_rows)
        np.multiply(self._mass(problem, total) ** self.nu, self.regularization, out=problem.ridge)
        return problem

    def _mass(self, problem: RowProblem, total: float) -> Vector:
        """Sum the weights of each row's cells; ``total`` is the other side's background weight."""
        mass = problem.weight * total
        if self.nu != 0:
            mass += problem.row_sums(problem.observed.curvature)
        return np.maximum(mass, 0.0)
