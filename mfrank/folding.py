"""Fold-in: the fit's own half-step for single rows, against factors that stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.als import HalfSteps
from mfrank.backends import Factors, SolveOptions, choose
from mfrank.coupling import weighted_sum
from mfrank.csr import CSR
from mfrank.eigenbasis import Eigenbasis, solve_in_own_basis
from mfrank.lazy import lazy
from mfrank.pickles import MadeOfFields
from mfrank.quadratic import QuadraticObjective
from mfrank.store.factors import FactorStore

__all__ = ["Explanation", "FoldIn"]


class Explanation(NamedTuple):
    """Why a user scores an item as they do: score = sum of all contributions + baseline.

    Attributes
    ----------
    score : float
        The user's score of the item, their factors solved from the given row.
    contributions : list of (item, float)
        What each item of the user's row adds to it, greatest first.
    baseline : float
        What the objective's background adds (0 for WRMF, iALS and eALS).
    """

    score: float
    contributions: list[tuple[Any, float]]
    baseline: float


@dataclass(frozen=True)
class FoldIn(MadeOfFields):
    """Solves rows of one store under one objective; the store is not changed.

    Attributes
    ----------
    objective : QuadraticObjective
    store : FactorStore
        Its factors, and the counts of its fit.
    backend : str
    n_threads : int
    """

    objective: QuadraticObjective
    store: FactorStore
    backend: str = "auto"
    n_threads: int = 0

    def users(self, user_items: CSR) -> Factors:
        """Factors of users with the given rows (R, n_items), shape (R, K), solved exactly."""
        problem = self.objective.user_problem(user_items, self._steps.counts)
        factors, options = self.store.item_factors, self._steps.options
        return solve_in_own_basis(self._steps.backend, problem, factors, self._of_users, options)

    def items(self, item_users: CSR) -> Factors:
        """Factors of items with the given rows (R, n_users), shape (R, K), solved exactly."""
        problem = self.objective.item_problem(item_users, self._steps.counts)
        factors, options = self.store.user_factors, self._steps.options
        return solve_in_own_basis(self._steps.backend, problem, factors, self._of_items, options)

    def explain(self, user_items: CSR, item: int) -> tuple[float, NDArray[np.float64], float]:
        """Score, contribution of each entry of the single row, and baseline, for an item row."""
        problem = self.objective.user_problem(user_items, self._steps.counts)
        basis, shared = self._of_users.basis, self._of_users.shared
        observed = self.store.item_factors[user_items.indices].astype(np.float64) @ basis
        curvature, pull = problem.curvature(), problem.pull()
        matrix = (observed.T * curvature) @ observed
        matrix += np.diag(problem.weight[0] * shared.values + problem.ridge[0])
        target = self.store.item_factors[item].astype(np.float64) @ basis
        solved = np.linalg.lstsq(matrix, target)[0]
        contributions = pull * (observed @ solved)
        baseline = float(problem.weight[0] * shared.vector @ solved)
        return float(contributions.sum()) + baseline, contributions, baseline

    @lazy
    def _steps(self) -> HalfSteps:
        options = SolveOptions(solver="cholesky", n_threads=self.n_threads)
        return HalfSteps(self.objective, self.store.counts, choose(self.backend), options)

    @lazy
    def _of_users(self) -> Eigenbasis:
        return self._steps.users_basis(self.store.item_factors)

    @lazy
    def _of_items(self) -> Eigenbasis:
        weights = self.objective.item_weights(self.store.counts.items, self.store.counts)
        item_sum = weighted_sum(weights, self.store.item_factors)
        return self._steps.items_basis(self.store.user_factors, item_sum)
