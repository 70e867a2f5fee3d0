"""Half-steps for new rows against fixed factors, and scores decomposed by the user's items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mfrank.als.biases import Biased, BiasedSteps, FixedSide
from mfrank.als.coupling import weighted_sum
from mfrank.als.half_steps import Eigenbasis, HalfSteps, solve_in_own_basis
from mfrank.als.objectives import QuadraticObjective
from mfrank.arrays import CSR, MadeOfFields, lazy, on_host, single_threaded
from mfrank.backends import Factors, RowProblem, SolveOptions, choose
from mfrank.data import FrameKind, frame_of
from mfrank.store import FactorStore, featured

# A user's score of an item, split up by the user's own items.


@dataclass(frozen=True, eq=False)
class UserWeights:
    """A user's factors as a sum over the user's items, plus a background.

    They are invalid after a fit, an update or a removal.

    Attributes
    ----------
    items : int32, shape (n,)
        Rows of the user's items.
    parts : float64, shape (n, factors)
        Contribution of each item to the user's factors.
    background : float64, shape (factors,)
        Contribution of the objective's background (0 for WRMF, IALS and EALS) and of the user's
        features.
    version : int or None
        Checksum of the model parts from which they were solved; None is not checked.
    user : int, id or None
        The user's row, or the id of a user unknown to the model; None is not checked.
    """

    items: NDArray[np.int32]
    parts: NDArray[np.float64]
    background: NDArray[np.float64]
    version: int | None = None
    user: Any = None


@dataclass(frozen=True)
class Explanation:
    """A decomposed score: score = sum of contributions + baseline.

    As in implicit, it unpacks as ``score, contributions, user_weights``.

    Attributes
    ----------
    score : float
        The score, with user factors solved from the user's row.
    contributions : list of (item, float)
        Contribution of each item of the user's row, largest first.
    baseline : float
        Contribution of the objective's background (0 for WRMF, IALS and EALS) and of the user's
        features.
    user_weights : UserWeights or None
        Of an ALS: pass it to explain other items to the same user without solving the row again.
    """

    score: float
    contributions: list[tuple[Any, float]]
    baseline: float
    user_weights: UserWeights | None = field(repr=False, compare=False)

    def to_frame(self, items: Any = None, kind: FrameKind = "pandas") -> Any:
        """Convert the contributions to a table with the columns ``item`` and ``contribution``.

        Parameters
        ----------
        items : DataFrame, Series, Arrow table or mapping, optional
            Names to join by id, as in :meth:`mfrank.retrieval.lists_by_id.Answer.to_frame`.
        kind : {"pandas", "polars", "arrow"}, default "pandas"
            The table's library.
        """
        ids, parts = zip(*self.contributions, strict=True) if self.contributions else ((), ())
        return frame_of({"item": list(ids), "contribution": list(parts)}, items, kind)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.score, self.contributions, self.user_weights))


Solved: TypeAlias = tuple[Factors, NDArray[np.floating] | None]
"""Factors (R, K) of rows, and their biases (R,) or None."""


@dataclass(frozen=True)
class FoldIn(MadeOfFields):
    """Solves rows against the factors of a store without modifying it.

    Attributes
    ----------
    objective : QuadraticObjective
    store : FactorStore
        Factors of a fit, and the counts of its data.
    backend : str, default "auto"
    n_threads : int, default 0
        0 uses every core this process may use.
    biases : bool, default False
        Whether rows have a bias in addition to factors, as in the fit.
    """

    objective: QuadraticObjective
    store: FactorStore
    backend: str = "auto"
    n_threads: int = 0
    biases: bool = False

    def items(self, item_users: CSR, prior: Factors | None = None) -> Factors:
        """Solve the factors of items exactly from their rows (R, n_users): shape (R, K)."""
        return self.items_and_biases(item_users, prior)[0]

    def users_and_biases(self, user_items: CSR, prior: Factors | None = None) -> Solved:
        """Solve users exactly from their rows (R, n_items), and their biases if the fit had biases.

        ``prior`` (R, K) are the means from their features; by default 0.
        """
        problem = self._user_problem(user_items)
        if self.biases:
            return self._with_biases(problem, self._fixed_items)
        factors, options = self.store.item_factors, self._steps.options
        backend = self._steps.backend
        return solve_in_own_basis(backend, problem, factors, self._of_users, options, prior), None

    def items_and_biases(self, item_users: CSR, prior: Factors | None = None) -> Solved:
        """Solve items, and their biases (R,) if the fit had biases."""
        problem = self._steps.item_problem(item_users)
        if self.biases:
            return self._with_biases(problem, self._fixed_users)
        factors, options = self.store.user_factors, self._steps.options
        backend = self._steps.backend
        return solve_in_own_basis(backend, problem, factors, self._of_items, options, prior), None

    def weigh(self, user_items: CSR, prior: Factors | None = None) -> UserWeights:
        """Decompose a user's factors, and bias if there is one, by the items of their row."""
        problem = self._user_problem(user_items)
        at, items = self._of_users, self.store.item_factors
        if self.biases:
            at, items = self._fixed_items.basis, self._fixed_items.wide
        basis, shared = at.basis, at.shared
        observed = items[user_items.indices].astype(np.float64) @ basis
        matrix = (observed.T * problem.curvature()) @ observed
        matrix += np.diag(problem.weight[0] * shared.values + problem.ridge[0])
        with single_threaded():
            inverse = np.linalg.pinv(matrix, rcond=_rounding(matrix), hermitian=True)
        solved = inverse @ basis.T
        pull = problem.pull()
        background = problem.weight[0] * shared.vector
        if self.biases:
            pull -= self._fixed_items.known(problem)
            background -= problem.weight[0] * (self._fixed_items.background @ basis)
        parts = pull[:, None] * (observed @ solved)
        if prior is not None:
            background = background + problem.ridge[0] * (prior[0].astype(np.float64) @ basis)
        return UserWeights(user_items.indices, parts, background @ solved, self.version)

    @lazy
    def version(self) -> int:
        """Checksum of the objective, the item factors and the counts."""
        store, counts = self.store, self.store.known_counts
        checksum = crc32(repr(self.objective).encode())
        for array in (store.item_factors, store.item_biases, counts.users, counts.items):
            if array is not None:
                checksum = crc32(np.ascontiguousarray(on_host(array)).data, checksum)
        return checksum

    def _user_problem(self, user_items: CSR) -> RowProblem:
        return self._steps.user_problem(user_items, total=self._items_total)

    def _with_biases(self, problem: RowProblem, fixed: FixedSide) -> Solved:
        solved = self._biased.solve(problem, fixed)
        return on_host(solved.factors), on_host(solved.biases)

    def _side(self, name: str) -> Biased:
        """The factors of a side with their biases."""
        return Biased(getattr(self.store, f"{name}_factors"), getattr(self.store, f"{name}_biases"))

    @lazy
    def _biased(self) -> BiasedSteps:
        return BiasedSteps(self._steps)

    @lazy
    def _fixed_items(self) -> FixedSide:
        return self._biased.fixed_items(self._side("item"))

    @lazy
    def _fixed_users(self) -> FixedSide:
        return self._biased.fixed_users(self._side("user"))

    @lazy
    def _items_total(self) -> float:
        return self.objective.items_total(self._steps.counts)

    @lazy
    def _steps(self) -> HalfSteps:
        options = SolveOptions(solver="cholesky", n_threads=self.n_threads)
        return HalfSteps(
            self.objective,
            self.store.known_counts,
            choose(self.backend),
            options,
            featured(self.store),
        )

    @lazy
    def _of_users(self) -> Eigenbasis:
        return self._steps.users_basis(self.store.item_factors)

    @lazy
    def _of_items(self) -> Eigenbasis:
        item_sum = weighted_sum(self._steps.item_weights, self.store.item_factors)
        return self._steps.items_basis(self.store.user_factors, item_sum)


def _rounding(matrix: NDArray[np.float64]) -> float:
    """Eigenvalues up to this times the largest one are rounding errors of 0."""
    return len(matrix) * float(np.finfo(matrix.dtype).eps)
