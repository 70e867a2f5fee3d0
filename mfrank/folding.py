"""Fold-in: the fit's own half-step for single rows, against factors that stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.als import HalfSteps
from mfrank.backends import Factors, Gram, SolveOptions, choose
from mfrank.coupling import weighted_sum
from mfrank.csr import CSR
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
class FoldIn:
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
        out = np.zeros((user_items.n_rows, self.store.factors), dtype=self.store.dtype)
        steps, shared = self._steps, self._shared_by_users
        steps.backend.solve_rows(problem, self.store.item_factors, shared, out, steps.options)
        return out

    def items(self, item_users: CSR) -> Factors:
        """Factors of items with the given rows (R, n_users), shape (R, K), solved exactly."""
        problem = self.objective.item_problem(item_users, self._steps.counts)
        out = np.zeros((item_users.n_rows, self.store.factors), dtype=self.store.dtype)
        steps, shared = self._steps, self._shared_by_items
        steps.backend.solve_rows(problem, self.store.user_factors, shared, out, steps.options)
        return out

    def explain(self, user_items: CSR, item: int) -> tuple[float, NDArray[np.float64], float]:
        """Score, contribution of each entry of the single row, and baseline, for an item row."""
        problem = self.objective.user_problem(user_items, self._steps.counts)
        shared = self._shared_by_users
        observed = self.store.item_factors[user_items.indices].astype(np.float64)
        curvature, pull = problem.curvature(), problem.pull()
        matrix = problem.weight[0] * shared.matrix + (observed.T * curvature) @ observed
        matrix += problem.ridge[0] * np.eye(len(matrix))
        target = self.store.item_factors[item].astype(np.float64)
        solved = np.linalg.lstsq(matrix, target)[0]
        contributions = pull * (observed @ solved)
        baseline = float(problem.weight[0] * shared.vector @ solved)
        return float(contributions.sum()) + baseline, contributions, baseline

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what is cached is made again, and backends cannot be pickled."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def _steps(self) -> HalfSteps:
        options = SolveOptions(solver="cholesky", n_threads=self.n_threads)
        return HalfSteps(self.objective, self.store.counts, choose(self.backend), options)

    @cached_property
    def _shared_by_users(self) -> Gram:
        return self._steps.shared_by_users(self._steps.item_gram(self.store.item_factors))

    @cached_property
    def _shared_by_items(self) -> Gram:
        weights = self.objective.item_weights(self.store.counts.items, self.store.counts)
        item_sum = weighted_sum(weights, self.store.item_factors)
        gram = self._steps.user_gram(self.store.user_factors)
        return self._steps.shared_by_items(gram, item_sum)
