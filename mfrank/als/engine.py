"""Alternating least squares for any quadratic objective.

A fit begins with a user step, and then balances both sides if its start is new
(:mod:`mfrank.als.balance`). Each epoch is an item step followed by a user step. The first item step
therefore starts from users that are solved for the initial items, and the user factors of a
finished fit are solved for its item factors, so that folding in a training user reproduces them up
to the accuracy of the solver.

Each half-step rotates the factors of both sides into the eigenbasis of the fixed side's Gram matrix
and leaves them there (:mod:`mfrank.als.eigenbasis`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.als.balance import balance
from mfrank.als.coupling import ItemCoupling
from mfrank.als.eigenbasis import Eigenbasis
from mfrank.als.features import Features, Priors, towards, without_empty_rows
from mfrank.als.momentum import Momentum
from mfrank.als.quadratic import QuadraticObjective
from mfrank.arrays.counted import counted
from mfrank.arrays.csr import CSR
from mfrank.arrays.lazy import lazy
from mfrank.arrays.placement import beside
from mfrank.arrays.read_only import read_only
from mfrank.arrays.recycled import Recycled
from mfrank.arrays.time_limit import check_time
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import Gram, RowProblem, Shared, Vector
from mfrank.backends.solve_options import SolveOptions
from mfrank.data.counts import Counts
from mfrank.store.step import Step

__all__ = ["HalfSteps", "Halfway", "OnHalfStep", "als", "refuse_dislikes"]

OnHalfStep = Callable[[int, Factors, Factors], object]
"""Called with an epoch and the factors of users and items after a half-step that does not end it:
with 0 after the first user step; with n = 1, 2, ... after the item step of epoch n, and after a
user step of it that is done again."""


class Halfway(NamedTuple):
    """Factors in the middle of an epoch, which the fit overwrites.

    Attributes
    ----------
    item_factors : shape (n_items, K)
    user_factors : shape (n_users, K), or None
        After a user step that is done again; else those of the last epoch, turned.
    """

    item_factors: Factors
    user_factors: Factors | None = None


_ROWS_AT_ONCE = 1024


def refuse_dislikes(objective: QuadraticObjective, values: NDArray[np.floating]) -> None:
    """Raise ValueError if there are negative values and the objective does not support them."""
    if not objective.accepts_dislikes and values.size and values.min() < 0:
        raise ValueError(
            f"user_items has {counted(int((values < 0).sum()), 'negative value')} (dislikes); "
            f"{type(objective).__name__} does not support dislikes. Drop them with "
            "Interactions.at_least(0), or use WRMF, which supports them"
        )


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
            float(_ridge(beside(problem.ridge, factors), factors))
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


def als(
    user_items: CSR,
    item_users: CSR,
    half_steps: HalfSteps,
    user_factors: Factors,
    item_factors: Factors,
    *,
    iterations: int,
    new: bool = False,
    track_objective: bool = False,
    momentum: Momentum | None = None,
    done: int | None = None,
    halfway: Halfway | None = None,
    features: Features | None = None,
    watch: OnHalfStep | None = None,
) -> Iterator[Step]:
    """Run ALS from the given factors, which it may overwrite; yield after every epoch.

    Parameters
    ----------
    user_items, item_users : CSR
        The interactions by users and by items.
    half_steps : HalfSteps
        Objective, counts, backend and solve options.
    user_factors, item_factors : shape (n_users, K) and (n_items, K), float32 or float64
        Initial factors; those of users are only the warm start of conjugate gradients.
    iterations : int
        Epochs.
    new : bool, default False
        Whether the factors are a first guess, whose sides have no scale in common yet. Those of
        another fit are gone on from as they are.
    track_objective : bool, default False
        Whether steps contain the objective's value. It costs little, as the half-steps compute
        most of it.
    momentum : Momentum, optional
        By default one that begins.
    done : int, optional
        Complete epochs of this fit; the factors and the momentum are then those after the last, or
        after the first user step for 0. By default not even that is done.
    halfway : Halfway, optional
        Factors after more half-steps than that; the momentum is then that after them. Not for fits
        with features.
    features : Features, optional
        Those of the sides that ``half_steps`` says have some.
    watch : function, optional
        Its time is no part of an epoch's.

    Yields
    ------
    Step
        With factor arrays in the backend's memory that stay as they are while anybody holds them:
        also if an epoch is interrupted, by Ctrl-C or another exception. Who lets go of the users
        of a step before the next one is made saves a table of them.
    """
    began = perf_counter()
    users, items = half_steps.user_problem(user_items), half_steps.item_problem(item_users)
    items = replace(items, observed=users.observed)  # the same numbers of all users, held once
    constant = _constant(half_steps.objective, users, items) if track_objective else 0.0
    user_factors, item_factors = map(half_steps.backend.place, (user_factors, item_factors))
    momentum = momentum or Momentum(half_steps.backend, half_steps.options.n_threads)
    ridge, memory = beside(items.ridge, item_factors), Recycled()
    priors = Priors.of(features, users, items, item_factors)
    del features  # which may hold the factors of a start
    if done is None:
        half_steps.solve_users(users, item_factors, user_factors, priors)
        if new:
            threads = half_steps.options.n_threads
            balance(users, items, user_factors, item_factors, half_steps.backend, threads)
        priors.regress_items(item_factors)
        began += _watched(watch, 0, user_factors, item_factors)
    try:
        for epoch in range((done or 0) + 1, iterations + 1):
            check_time()
            if halfway is None:
                user_factors, solved, basis = half_steps.solve_items(
                    items, user_factors, item_factors, memory, priors
                )
                check_time()
                item_factors = momentum.next(solved, item_factors, basis)
                began += _watched(watch, epoch, user_factors, item_factors)
            else:
                user_factors = (
                    half_steps.turned_users(user_factors, memory)
                    if halfway.user_factors is None
                    else halfway.user_factors
                )
                item_factors, halfway = halfway.item_factors, None
            priors.regress_users(user_factors)
            while True:
                priors.regress_items(item_factors)
                gain, at = half_steps.solve_users(users, item_factors, user_factors, priors)
                momentum.turned(at.basis)
                # The user step returns how far it lowered the objective: no pass over the data.
                penalty = priors.penalty(item_factors)
                if priors.items is None:
                    penalty += _ridge(ridge, item_factors)
                value = float(penalty - gain.sum())  # without the constant
                del gain
                if momentum.is_lower(value):
                    break
                momentum.restart(item_factors)
                began += _watched(watch, epoch, user_factors, item_factors)
            can_solve_again = (
                epoch < iterations and priors.users is None and isinstance(user_factors, np.ndarray)
            )
            yield Step(
                epoch,
                perf_counter() - began,
                constant + value if track_objective else None,
                memory.lend(user_factors),
                item_factors,
                extras=priors.to_arrays(),
                users_again=partial(half_steps.users_again, users, item_factors, at.shared, memory)
                if can_solve_again
                else None,
            )
            began = perf_counter()
    finally:
        memory.end()


def _watched(
    watch: OnHalfStep | None, epoch: int, user_factors: Factors, item_factors: Factors
) -> float:
    """Call the watch, if there is one; return its seconds."""
    began = perf_counter()
    if watch is not None:
        watch(epoch, user_factors, item_factors)
    return perf_counter() - began


def _constant(objective: QuadraticObjective, users: RowProblem, items: RowProblem) -> float:
    """Return the objective's constant part: its value where all factors are 0."""
    cells = users.row_sums(users.observed.constant, likes_only=True).sum()
    return float(cells + objective.target**2 * users.weight.sum() * items.weight.sum())


def _ridge(ridge: Vector, factors: Any) -> Any:
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
