r"""Biases of users and items: a column of ones among the factors of the other side.

With scores s_xy = p_x . q_y + b_x + b_y, the ridge is on biases as on factors:

    sum_x rho_x (|p_x|^2 + b_x^2) + sum_y sigma_y (|q_y|^2 + b_y^2)

With the items fixed, a user's unknowns are v_x = (p_x, b_x), the fixed factors are f_y = (q_y, 1),
and b_y is a known part of the score. In the notation of :mod:`mfrank.als.objectives`,

    (a_x F'WF + sum_y c_xy f_y f_y' + rho_x I) v_x
        = sum_y (d_xy - c_xy b_y) f_y + a_x F'W (z - b)

A half-step thus solves factors that are wider by one, with ridges that pull to a vector instead of
0. This is a prior as for features, here -(sum_y c_xy b_y f_y + a_x F'W b) / rho_x. Items are solved
in the same way. There is no momentum. An interaction (RGX) would also couple the items through the
biases, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mfrank.als.coupling import weighted_sum
from mfrank.als.half_steps import Eigenbasis, HalfSteps, solve_in_own_basis
from mfrank.als.starts import balance
from mfrank.arrays import CSR, beside, empty_beside, in_one_piece
from mfrank.backends import Factors, RowProblem, Vector
from mfrank.store import Step


@dataclass(frozen=True, eq=False)
class Biased:
    """The factors (R, K) and biases (R,) of one side, of one dtype, on the host or a GPU."""

    factors: Factors
    biases: NDArray[np.floating]

    @property
    def with_ones(self) -> Factors:
        """The factors and a column of ones, which multiplies the other side's biases."""
        return np.hstack([self.factors, np.ones_like(self.biases)[:, None]])


@dataclass(frozen=True, slots=True, eq=False)
class FixedSide:
    """The fixed side of a half-step.

    Attributes
    ----------
    wide : shape (R, K + 1)
        The factors of the side and a column of ones.
    biases : shape (R,)
    basis : Eigenbasis
        Basis of the matrix that the rows share.
    background : float64, shape (K + 1,)
        Contribution F'W b of the side's biases to rows of background weight 1.
    """

    wide: Factors
    biases: NDArray[np.floating]
    basis: Eigenbasis
    background: Vector

    @classmethod
    def of(cls, side: Biased, weights: Vector, basis_of: Callable[[Factors], Eigenbasis]) -> Self:
        """Prepare half-steps against a side; ``weights`` (R,) are its background weights."""
        wide, weighted = side.with_ones, beside(weights, side.biases) * side.biases
        return cls(wide, side.biases, basis_of(wide), weighted_sum(weighted, wide))

    def of_columns(self, columns: NDArray[np.int32]) -> FixedSide:
        """The same for rows whose columns are a subset of this side."""
        return replace(self, wide=self.wide[columns], biases=self.biases[columns])

    def known(self, problem: RowProblem) -> Vector:
        """Each entry's known bias times its curvature, float64, shape (nnz,)."""
        known: Vector = problem.curvature() * self.biases[problem.rows.indices]
        return known


@dataclass(frozen=True, eq=False)
class BiasedSteps:
    """The two half-steps of an objective without interaction, with biases."""

    half_steps: HalfSteps
    _curvatures: WeakKeyDictionary[RowProblem, CSR] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def fixed_items(self, items: Biased) -> FixedSide:
        """The items as the fixed side of a user step."""
        return FixedSide.of(items, self.half_steps.item_weights, self.half_steps.users_basis)

    def fixed_users(self, users: Biased) -> FixedSide:
        """The users as the fixed side of an item step."""
        counts = self.half_steps.counts
        weights = self.half_steps.objective.user_weights(counts.users, len(counts.items))
        return FixedSide.of(users, weights, self.half_steps.items_basis)

    def solve(self, problem: RowProblem, fixed: FixedSide) -> Biased:
        """Solve rows of the other side, on the host or GPU where ``fixed`` is."""
        wide, backend = fixed.wide, self.half_steps.backend

        def there(numbers: Vector) -> Any:
            return beside(numbers.astype(wide.dtype), wide)

        curvature = self._curvature(problem, wide.dtype)
        towards = backend.sparse_product(curvature, wide * fixed.biases[:, None])
        towards += there(problem.weight)[:, None] * there(fixed.background)
        # Where the ridge is 0, the row has no weight at all, and the prior does not count.
        towards /= there(np.where(problem.ridge == 0, 1.0, -problem.ridge))[:, None]
        out, options = empty_beside(wide, towards.shape), self.half_steps.options
        solved = solve_in_own_basis(backend, problem, wide, fixed.basis, options, towards, out)
        return Biased(in_one_piece(solved[:, :-1]), solved[:, -1].copy())

    def _curvature(self, problem: RowProblem, dtype: np.dtype[Any]) -> CSR:
        """The entries' curvatures: made once for all epochs, so that a GPU keeps its copy."""
        found = self._curvatures.get(problem)
        if found is None:
            rows, values = problem.rows, problem.curvature().astype(dtype)
            found = CSR(rows.indptr, rows.indices, values, rows.n_columns)
            self._curvatures[problem] = found
        return found

    def value(
        self, user_problem: RowProblem, item_problem: RowProblem, users: Biased, items: Biased
    ) -> float:
        """The objective of the factors wider by two, minus the ridge on both columns of ones."""
        wide = (
            np.hstack([users.with_ones, users.biases[:, None]]),
            np.hstack([items.factors, items.biases[:, None], np.ones_like(items.biases)[:, None]]),
        )
        whole = self.half_steps.value(user_problem, item_problem, *wide)
        return whole - float(user_problem.ridge.sum() + item_problem.ridge.sum())


def als_with_biases(
    user_items: CSR,
    item_users: CSR,
    half_steps: HalfSteps,
    user_factors: Factors,
    item_factors: Factors,
    item_biases: NDArray[np.floating],
    *,
    iterations: int,
    new: bool,
    track_objective: bool,
) -> Iterator[Step]:
    """Run ALS with biases; arguments as in :func:`mfrank.als.engine.als`.

    ``item_biases`` (n_items,) are initial values. New factors are balanced as in a fit without
    biases.
    """
    began = perf_counter()
    user_problem = half_steps.user_problem(user_items)
    item_problem = half_steps.item_problem(item_users)
    steps, place = BiasedSteps(half_steps), half_steps.backend.place
    user_factors, item_factors = place(user_factors), place(item_factors)
    if new:
        half_steps.solve_users(user_problem, item_factors, user_factors)
        threads = half_steps.options.n_threads
        balance(user_problem, item_problem, user_factors, item_factors, half_steps.backend, threads)
    items = Biased(item_factors, beside(item_biases.astype(item_factors.dtype), item_factors))
    users = steps.solve(user_problem, steps.fixed_items(items))
    for epoch in range(1, iterations + 1):
        items = steps.solve(item_problem, steps.fixed_users(users))
        users = steps.solve(user_problem, steps.fixed_items(items))
        value = steps.value(user_problem, item_problem, users, items) if track_objective else None
        yield Step(
            epoch,
            perf_counter() - began,
            value,
            users.factors,
            items.factors,
            items.biases,
            users.biases,
        )
        began = perf_counter()
