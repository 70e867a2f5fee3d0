"""Alternating least squares: the engine over any quadratic objective.

A fit begins with a user step; an epoch is then an item step and a user step. So the first item
step sees users that answer the items they were given, and the user factors of a finished fit are
the half-step's own answer to the item factors beside them: folding a user in gives them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.backends import Backend, Factors, Gram, SolveOptions
from mfrank.coupling import coupled_sum, weighted_sum
from mfrank.csr import CSR
from mfrank.quadratic import Counts, QuadraticObjective, RowProblem
from mfrank.steps import Step

__all__ = ["HalfSteps", "als", "initial_factors", "refuse_dislikes"]


def initial_factors(
    shape: tuple[int, int], random_state: np.random.Generator, dtype: DTypeLike
) -> Factors:
    """Normal random factors of variance 0.01/K, shape (rows, K): row norms near 0.1."""
    drawn = random_state.standard_normal(shape, dtype=np.float32)
    return (drawn * np.float32(0.1 / np.sqrt(shape[1]))).astype(dtype, copy=False)


def refuse_dislikes(objective: QuadraticObjective, values: NDArray[np.floating]) -> None:
    """Raise where values are negative and the objective gives them no meaning."""
    if not objective.accepts_dislikes and values.size and values.min() < 0:
        raise ValueError(
            f"user_items has {int((values < 0).sum())} negative values, which mean dislikes; "
            f"{type(objective).__name__} knows none. Drop them with Interactions.at_least(0), "
            "or use WRMF, which takes them as dislikes"
        )


@dataclass(frozen=True, slots=True, eq=False)
class HalfSteps:
    """The two half-steps of one objective on one backend, for a fit or for single rows."""

    objective: QuadraticObjective
    counts: Counts
    backend: Backend
    options: SolveOptions

    def item_gram(self, item_factors: Factors) -> Gram:
        """G = Q' W Q and m = Q' w."""
        weights = self.objective.item_weights(self.counts.items, self.counts)
        return self.backend.gram(item_factors, weights, self.options.n_threads)

    def user_gram(self, user_factors: Factors) -> Gram:
        """H = P' A P and h = P' a."""
        weights = self.objective.user_weights(self.counts.users, len(self.counts.items))
        return self.backend.gram(user_factors, weights, self.options.n_threads)

    def shared_by_users(self, item_gram: Gram) -> Gram:
        """What users' systems share: G - kappa m m' and z m."""
        m = item_gram.vector
        centred = item_gram.matrix - self._kappa * np.outer(m, m)
        return Gram(centred, self.objective.target * m)

    def shared_by_items(self, user_gram: Gram, item_sum: NDArray[np.float64]) -> Gram:
        """What items' systems share: H and z h + kappa H t, for t = sum_y w_y q_y."""
        pull = self.objective.target * user_gram.vector
        return Gram(user_gram.matrix, pull + self._kappa * user_gram.matrix @ item_sum)

    def solve_users(self, problem: RowProblem, item_factors: Factors, out: Factors) -> Gram:
        """Solve all users' rows into ``out``, their warm start; return the items' Gram matrix."""
        gram = self.item_gram(item_factors)
        shared = self.shared_by_users(gram)
        self.backend.solve_rows(problem, item_factors, shared, out, self.options)
        return gram

    def solve_items(
        self, problem: RowProblem, user_factors: Factors, user_gram: Gram, out: Factors
    ) -> None:
        """Solve all items' rows into ``out``, their warm start."""
        item_sum = np.zeros(out.shape[1])
        if self._kappa:
            alone = self.shared_by_items(user_gram, item_sum)
            start = weighted_sum(problem.weight, out)
            item_sum = coupled_sum(
                problem, user_factors, alone, self._kappa, start, out, self.backend, self.options
            )
        shared = self.shared_by_items(user_gram, item_sum)
        self.backend.solve_rows(problem, user_factors, shared, out, self.options)

    @property
    def _kappa(self) -> float:
        return self.objective.interaction(len(self.counts.items))

    def value(
        self,
        users: RowProblem,
        items: RowProblem,
        user_factors: Factors,
        item_factors: Factors,
        grams: tuple[Gram, Gram],
    ) -> float:
        """Value of the objective; ``grams`` are the users' and the items'."""
        (h, g), z = grams, self.objective.target
        background = (
            (h.matrix * g.matrix).sum()
            - 2 * z * h.vector @ g.vector
            + z**2 * users.weight.sum() * items.weight.sum()
        )
        interaction = self._kappa * g.vector @ h.matrix @ g.vector
        observed = self.backend.observed_value(
            users, user_factors, item_factors, self.options.n_threads
        )
        ridge = users.ridge @ _squared_norms(user_factors)
        ridge += items.ridge @ _squared_norms(item_factors)
        return float(background - interaction + observed + ridge)


def als(
    user_items: CSR,
    item_users: CSR,
    half_steps: HalfSteps,
    user_factors: Factors,
    item_factors: Factors,
    *,
    iterations: int,
    track_objective: bool = False,
) -> Iterator[Step]:
    """Run ALS from the given factors, which are not written to; yield after every epoch.

    Parameters
    ----------
    user_items, item_users : CSR
        The interactions in both orientations.
    half_steps : HalfSteps
        Objective, counts, backend and solve options.
    user_factors, item_factors : shape (n_users, K) and (n_items, K), float32 or float64
        Where to start; user factors matter only as a warm start of conjugate gradients.
    iterations : int
        Epochs.
    track_objective : bool, default False
        Whether steps carry the objective's value: one more pass over the entries.

    Yields
    ------
    Step
        With new factor arrays. An exception (Ctrl-C included) leaves those of the last step whole.
    """
    users = half_steps.objective.user_problem(user_items, half_steps.counts)
    items = half_steps.objective.item_problem(item_users, half_steps.counts)
    began = perf_counter()
    user_factors = user_factors.copy()
    half_steps.solve_users(users, item_factors, user_factors)
    user_gram = half_steps.user_gram(user_factors)
    for epoch in range(1, iterations + 1):
        user_factors, item_factors = user_factors.copy(), item_factors.copy()
        half_steps.solve_items(items, user_factors, user_gram, item_factors)
        item_gram = half_steps.solve_users(users, item_factors, user_factors)
        user_gram = half_steps.user_gram(user_factors)
        seconds = perf_counter() - began
        value = None
        if track_objective:
            grams = user_gram, item_gram
            value = half_steps.value(users, items, user_factors, item_factors, grams)
        yield Step(epoch, seconds, value, user_factors, item_factors)
        began = perf_counter()


def _squared_norms(factors: Factors) -> NDArray[np.float64]:
    return np.asarray(np.einsum("rk,rk->r", factors, factors, dtype=np.float64))
