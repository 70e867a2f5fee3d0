"""The two half-steps of ALS, each in the eigenbasis of the matrix that its rows share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.als.coupling import ItemCoupling
from mfrank.als.eigenbasis import Eigenbasis
from mfrank.als.features import Priors, towards, without_empty_rows
from mfrank.als.quadratic import QuadraticObjective
from mfrank.arrays.csr import CSR
from mfrank.arrays.lazy import lazy
from mfrank.arrays.placement import beside
from mfrank.arrays.read_only import read_only
from mfrank.arrays.recycled import Recycled
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import Gram, RowProblem, Shared, Vector
from mfrank.backends.solve_options import SolveOptions
from mfrank.data.counts import Counts

__all__ = ["HalfSteps", "ridge_of"]

_ROWS_AT_ONCE = 1024

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HalfSteps:
    """The two half-steps of an objective on a backend, for fits and fold-ins.

    Attributes
    ----------
    objective : QuadraticObjective
    counts : Counts
        Observed items of each user and users of each item, in the training data.
    backend : Backend
    options : SolveOptions
    featured : set of {"user", "item"}
        Sides with features: their rows without interactions are not part of the objective
        (:mod:`mfrank.als.features`).
    """

    objective: QuadraticObjective
    counts: Counts
    backend: Backend
    options: SolveOptions
    featured: frozenset[str] = frozenset()

    def user_problem(self, user_items: CSR, *, total: float | None = None) -> RowProblem:
        """Return the systems of some or all users; see :class:`QuadraticObjective`."""
        problem = self.objective.user_problem(user_items, self.counts, total=total)
        return without_empty_rows(problem) if "user" in self.featured else problem

    def item_problem(self, item_users: CSR) -> RowProblem:
        """Return the systems of some or all items."""
        problem = self.objective.item_problem(item_users, self.counts)
        return without_empty_rows(problem) if "item" in self.featured else problem

    def item_gram(self, item_factors: Factors) -> Gram:
        """Return G = Q' W Q and m = Q' w."""
        return self.backend.gram(item_factors, self.item_weights, self.options.n_threads)

    def user_gram(self, user_factors: Factors) -> Gram:
        """Return H = P' A P and h = P' a."""
        return self.backend.gram(user_factors, self.user_weights, self.options.n_threads)

    def users_basis(self, item_factors: Factors, gram: Gram | None = None) -> Eigenbasis:
        """Diagonalize the matrix and vector that users' systems share: G - kappa m m' and z m.

        ``gram`` has G and m, if they are known.
        """
        gram = gram or self.item_gram(item_factors)
        centered = gram.matrix - self._kappa * np.outer(gram.vector, gram.vector)
        return Eigenbasis.of(Gram(centered, self.objective.target * gram.vector), self.backend)

    def items_basis(
        self, user_factors: Factors, item_sum: Vector | None = None, gram: Gram | None = None
    ) -> Eigenbasis:
        """Diagonalize the matrix and vector that items' systems share: H and z h + kappa H t.

        ``item_sum`` is t = sum_y w_y q_y, by default 0. ``gram`` has H and h, if they are known.
        """
        gram = gram or self.user_gram(user_factors)
        vector = self.objective.target * gram.vector
        if item_sum is not None:
            vector += self._kappa * gram.matrix @ item_sum
        return Eigenbasis.of(Gram(gram.matrix, vector), self.backend)

    def solve_users(
        self,
        problem: RowProblem,
        item_factors: Factors,
        user_factors: Factors,
        priors: Priors | None = None,
    ) -> tuple[Vector, Eigenbasis]:
        """Solve all users into ``user_factors``, which are also the warm start.

        Rotates ``item_factors``, and ``priors``, into the users' eigenbasis in place. Returns how
        far each row lowers the objective, float64, shape (n_users,) (see ``Backend.solve_rows``),
        and the eigenbasis.
        """
        priors, at = priors or Priors(), self.users_basis(item_factors)
        at.turn(self.backend, item_factors, item_factors, self.options.n_threads)
        priors.turn(at.basis)
        gain = self.backend.solve_rows(
            problem,
            item_factors,
            at.shared,
            user_factors,
            self.options,
            turn=at.basis,
            **towards(priors.user_means()),
        )
        return gain, at

    def users_again(
        self,
        problem: RowProblem,
        item_factors: Factors,
        shared: Shared,
        memory: Recycled,
        backend: Backend,
    ) -> Factors:
        """Exact solutions of all users, by any backend; their own bits where they were exact.

        ``item_factors`` and ``shared`` are those of the user step, in its eigenbasis.
        """
        gathers = self.options.gather_dtype
        options = replace(
            self.options,
            solver="cholesky",
            cg_tolerance=None,
            gather_dtype=gathers if gathers in backend.GATHERS else None,
        )
        solved = memory.empty_beside(item_factors, (problem.rows.n_rows, item_factors.shape[1]))
        backend.solve_rows(problem, item_factors, shared, solved, options)
        return solved

    def solve_items(
        self,
        problem: RowProblem,
        user_factors: Factors,
        item_factors: Factors,
        memory: Recycled | None = None,
        priors: Priors | None = None,
    ) -> tuple[Factors, Factors, Vector]:
        """Return rotated user factors, new item factors that are solved, and the basis.

        The users are those given, overwritten, or a new array if ``memory`` has lent these and
        somebody still holds them. ``priors`` are rotated in place.
        """
        memory, priors = memory or Recycled(), priors or Priors()
        at = self.items_basis(user_factors)
        priors.turn(at.basis)
        prior = priors.item_means()
        turned = memory.place_of(user_factors)
        at.turn(self.backend, user_factors, turned, self.options.n_threads)
        shared, start = at.shared, item_factors
        solved = memory.empty_beside(item_factors, item_factors.shape)
        if self._kappa:
            ItemCoupling(
                problem,
                turned,
                shared,
                self._kappa,
                start,
                at.basis,
                self.backend,
                self.options,
                prior,
            ).solve(solved)
        else:
            self.backend.solve_rows(
                problem, turned, shared, solved, self.options, start, at.basis, **towards(prior)
            )
        return turned, solved, at.basis

    def turned_users(self, user_factors: Factors, memory: Recycled) -> Factors:
        """User factors as :meth:`solve_items` returns them."""
        at = self.items_basis(user_factors)
        turned = memory.place_of(user_factors)
        at.turn(self.backend, user_factors, turned, self.options.n_threads)
        return turned

    def value(
        self, users: RowProblem, items: RowProblem, user_factors: Factors, item_factors: Factors
    ) -> float:
        """Evaluate the objective at any factors, term by term."""
        h, g = self.user_gram(user_factors), self.item_gram(item_factors)
        background = (h.matrix * g.matrix).sum() - 2 * self.objective.target * h.vector @ g.vector
        interaction = self._kappa * g.vector @ h.matrix @ g.vector
        observed = self.backend.observed_value(
            users, user_factors, item_factors, self.options.n_threads
        )
        ridge = sum(
            float(ridge_of(beside(problem.ridge, factors), factors))
            for problem, factors in ((users, user_factors), (items, item_factors))
        )
        constant = self.objective.target**2 * users.weight.sum() * items.weight.sum()
        return float(constant + background - interaction + observed + ridge)

    @property
    def _kappa(self) -> float:
        return self.objective.interaction(len(self.counts.items))

    # Read-only, which lets a GPU keep its copies.

    @lazy
    def item_weights(self) -> Vector:
        """Background weights of all items, float64, shape (n_items,)."""
        weights = self.objective.item_weights(self.counts.items, self.counts)
        return read_only(self._of_fit("item", weights, self.counts.items))

    @lazy
    def user_weights(self) -> Vector:
        """Background weights of all users, float64, shape (n_users,)."""
        weights = self.objective.user_weights(self.counts.users, len(self.counts.items))
        return read_only(self._of_fit("user", weights, self.counts.users))

    def _of_fit(self, side: str, weights: Vector, counts: NDArray[np.int64]) -> Vector:
        """The weights of rows that are part of the objective, 0 for others."""
        return np.where(counts > 0, weights, 0.0) if side in self.featured else weights


def ridge_of(ridge: Vector, factors: Any) -> Any:
    """Sum ridge_r |f_r|^2 over the rows r, in blocks that fit in a processor's cache."""
    if not isinstance(factors, np.ndarray):  # many calls would cost more than a copy
        return (ridge * (factors * factors).sum(axis=1)).sum()
    total = 0.0
    for begin in range(0, len(factors), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        # Not a product of BLAS, whose threads go on spinning beside the next half-step.
        squares = np.einsum("rk,rk->r", factors[rows], factors[rows])
        total += float((ridge[rows] * squares).sum())
    return total
