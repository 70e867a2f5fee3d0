"""Alternating least squares for any quadratic objective, with momentum on the item factors.

A fit begins with a user step, and then balances both sides if its start is new
(:mod:`mfrank.als.starts`). Each epoch is an item step followed by a user step. The first item step
thus starts from users solved for the initial items. The user factors of a finished fit are solved
for its item factors, so folding in a training user reproduces them up to the accuracy of the
solver.

Each half-step rotates the factors of both sides into the eigenbasis of the fixed side's Gram matrix
and leaves them there (:mod:`mfrank.als.half_steps`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.als.feature_priors import Features, Priors
from mfrank.als.half_steps import HalfSteps, ridge_of
from mfrank.als.objectives import QuadraticObjective
from mfrank.als.starts import balance
from mfrank.arrays import CSR, Recycled, beside, check_time, counted, usable_cores
from mfrank.backends import Backend, Factors, RowProblem, SolveOptions, none_of, withdraw
from mfrank.data import Counts
from mfrank.errors import InputValueError
from mfrank.store import Step

# Nesterov's momentum on the item factors of ALS, without additional half-steps.
#
# Let T(Q) be the item factors after a user step at Q and an item step. Plain ALS iterates Q = T(Q),
# which lowers F(Q), the objective with users solved for Q. With momentum, the next user step is at
#
#     Y = S + b (S - S'),    S = T(Y') and S' the solution before,    b = (t' - 1) / t
#
# where t = (1 + sqrt(1 + 4 t'^2)) / 2 (Nesterov 1983), b at most 0.9; t begins at 2, not 1, which
# saves up to an epoch. F(Y) is known after every user step. If it rose, the users are solved again
# for S, which lowers F as plain ALS does, and t begins anew at 1 (O'Donoghue & Candes 2015). So the
# objective of an exact fit never rises, and fixed points are those of T. ``bench/NOTES.md`` has the
# epochs that this saves: about half.
#
# Only Y and D = b (S - S') are stored, D in half of the bytes: S is Y - D. Y is made of the rounded
# D, so S stays exact, and only the extrapolation is rounded.
#
# Every half-step rotates the factors into another basis, so D is rotated after them, once an epoch.


_MOST = 0.9
_FIRST = 2.0


class Momentum:
    """Extrapolates the item factors from one epoch to the next.

    Parameters
    ----------
    backend : Backend
    n_threads : int
    """

    def __init__(self, backend: Backend, n_threads: int) -> None:
        self._backend, self._n_threads = backend, n_threads
        self._t, self._value, self._extrapolated = _FIRST, math.inf, False
        self._displacements: Factors | None = None
        self._turn: NDArray[np.float64] | None = None

    def state(self) -> dict[str, NDArray[Any]]:
        """The state that the rest of the fit depends on, by name; ``turn`` only after an epoch."""
        assert self._displacements is not None
        state = {
            "numbers": np.array([self._t, self._value, self._extrapolated]),
            "displacements": self._displacements,
        }
        return state if self._turn is None else {**state, "turn": self._turn}

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Resume from a :meth:`state`, whose displacements are then overwritten."""
        self._t, self._value, extrapolated = map(float, state["numbers"])
        self._extrapolated = bool(extrapolated)
        self._turn = state.get("turn")
        self._displacements = self._backend.place(state["displacements"])

    def next(self, solved: Factors, before: Factors, basis: NDArray[np.float64]) -> Factors:
        """Return Y, in the memory of the solved item factors S.

        ``before`` is the Y of the previous epoch; ``basis``, shape (K, K), rotates it into the
        basis of S.
        """
        t = (1 + math.sqrt(1 + 4 * self._t**2)) / 2
        weight, self._t = min((self._t - 1) / t, _MOST), t
        turn, self._turn = self._turn, None
        self._extrapolated = self._displacements is not None and weight > 0
        if self._displacements is None or turn is None:
            self._displacements = none_of(solved)
        elif self._extrapolated:
            self._backend.extrapolate(
                solved, weight, before, basis, self._displacements, turn, self._n_threads
            )
        return solved

    def turned(self, basis: NDArray[np.float64]) -> None:
        """Record that Y was rotated by ``basis``, shape (K, K)."""
        # C-contiguous, as in a saved state: products may depend on the order of memory.
        self._turn = np.ascontiguousarray(basis)

    def is_lower(self, value: float) -> bool:
        """Record the objective, up to a constant; return False if extrapolation raised it."""
        rose = value > self._value and self._extrapolated
        if not rose:
            self._value = value
        return not rose

    def restart(self, ahead: Factors) -> None:
        """Restart: reset Y, in the current basis, to the solved item factors S, in place."""
        assert self._displacements is not None
        assert self._turn is not None
        self._t, self._extrapolated = 1.0, False
        withdraw(self._backend.rotate, ahead, self._displacements, self._turn, self._n_threads)
        self._displacements[:] = 0


OnHalfStep = Callable[[int, Factors, Factors], object]
"""Called with an epoch and the factors of users and items after a half-step that does not end the
epoch: 0 after the first user step; n = 1, 2, ... after the item step of epoch n, and before a user
step of it is repeated."""


class Halfway(NamedTuple):
    """Factors in the middle of an epoch; the fit overwrites them.

    Attributes
    ----------
    item_factors : shape (n_items, K)
    user_factors : shape (n_users, K), or None
        After a repeated user step; else the factors of the last epoch, rotated.
    """

    item_factors: Factors
    user_factors: Factors | None = None


def refuse_dislikes(
    objective: QuadraticObjective, values: NDArray[np.floating], argument: str = "user_items"
) -> None:
    """Raise ValueError if there are negative values and the objective does not support them."""
    if not objective.accepts_dislikes and values.size and values.min() < 0:
        raise InputValueError(
            f"`{argument}` has {counted(int((values < 0).sum()), 'negative value')} (dislikes); "
            f"{type(objective).__name__} does not support dislikes",
            "Drop them with `Interactions.at_least(0)`, or use `mfrank.WRMF()` or "
            "`mfrank.IALS(weighted=True)`, which support them",
        )


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
    """Run ALS from initial factors, which it may overwrite; yield after every epoch.

    Parameters
    ----------
    user_items, item_users : CSR
        The interactions by users and by items.
    half_steps : HalfSteps
        Objective, counts, backend and solve options.
    user_factors, item_factors : shape (n_users, K) and (n_items, K), float32 or float64
        Initial factors; the user factors are only the warm start of conjugate gradients.
    iterations : int
        Epochs.
    new : bool, default False
        Whether the factors are initial ones, whose sides have no common scale yet. Factors of
        another fit are not new: the fit continues from them without balancing.
    track_objective : bool, default False
        Whether steps contain the objective's value. It costs little, because the half-steps compute
        most of it.
    momentum : Momentum, optional
        Default: a new one.
    done : int, optional
        Complete epochs of this fit; factors and momentum are then the state after the last epoch.
        0: only the first user step has run. Default: nothing has run.
    halfway : Halfway, optional
        Factors after further half-steps; the momentum is then the state after these. Not for fits
        with features.
    features : Features, optional
        Features of the sides in ``half_steps.featured``.
    watch : function, optional
        Called after half-steps; its time is not part of the epoch's.

    Yields
    ------
    Step
        The factor arrays are in the backend's memory and do not change while a reference exists,
        even if an epoch is interrupted by Ctrl-C or another exception. A caller that releases the
        users of a step before requesting the next saves the memory of one table of users.
    """
    began = perf_counter()
    users, items = half_steps.user_problem(user_items), half_steps.item_problem(item_users)
    items = replace(items, observed=users.observed)  # the same numbers of all users, held once
    constant = _constant(half_steps.objective, users, items) if track_objective else 0.0
    user_factors, item_factors = map(half_steps.backend.place, (user_factors, item_factors))
    momentum = momentum or Momentum(half_steps.backend, half_steps.options.n_threads)
    ridge, memory = beside(items.ridge, item_factors), Recycled()
    priors = Priors.of(features, users, items, item_factors, half_steps.backend)
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
                    penalty += ridge_of(ridge, item_factors)
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
    """Call the watch, if there is one; return the seconds it took."""
    began = perf_counter()
    if watch is not None:
        watch(epoch, user_factors, item_factors)
    return perf_counter() - began


def _constant(objective: QuadraticObjective, users: RowProblem, items: RowProblem) -> float:
    """Return the objective's constant part: its value where all factors are 0."""
    cells = users.row_sums(users.observed.constant, signed=True).sum()
    return float(cells + objective.target**2 * users.weight.sum() * items.weight.sum())


# About how long an epoch of ALS takes, from the numbers of rows, entries and factors.
#
# Meant for a warning before a fit that would take hours: right within a factor of a few.


_EIGENVECTORS = 5e-10
"""Seconds, times K^3: eigenvectors of a K x K matrix, and their product with the previous ones."""
_MULTIPLY_ADDS = 1e10
"""Multiply-adds of a thread in a second."""
_READING = 1000.0
"""Cost of reading an entry and its factors from memory, in multiply-adds."""
_VECTORS = 64
"""Bytes of a row's offset, number of entries, coefficients, weights, ridge and gain, 8 each."""
_CG_SLOWNESS = 4.0
"""Time of a multiply-add of conjugate gradients, relative to one of an exact solution
(row_solver.h)."""


def epoch_seconds(counts: Counts, width: int, options: SolveOptions) -> float:
    """Seconds of an epoch with ``width`` factors on this machine's processor."""
    threads = options.n_threads or usable_cores()
    each_row = 4 * (len(counts.users) + len(counts.items)) * width**2  # Gram matrix, rotations
    own = sum(_of_rows(side, width, options) for side in (counts.users, counts.items))
    return shared_seconds(width) + (each_row + own) / (threads * _MULTIPLY_ADDS)


def tables_at_once(n_users: int, n_items: int, row_bytes: int, *, best: bool = False) -> float:
    """Peak memory of a fit, as a multiple of the factors of all users and items.

    The fit holds one table of users, the items of this epoch and of the previous one, half the
    bytes of the items for momentum, and vectors with one number per row. ``row_bytes`` is the size
    of a row's factors; ``best`` adds the best epoch.
    """
    return 1 + 1.5 * n_items / (n_users + n_items) + _VECTORS / row_bytes + best


def shared_seconds(width: int) -> float:
    """Seconds of an epoch that depend only on the number of factors, not on rows or threads."""
    return 2 * _EIGENVECTORS * float(width) ** 3


def _of_rows(counts: NDArray[np.int64], width: int, options: SolveOptions) -> float:
    """Multiply-adds to solve rows with these numbers of entries, by the method that each takes."""
    n, k = counts.astype(np.float64), float(width)
    reading = _READING * float(n.sum())
    exact = np.minimum(n**2 * (k / 2 + n / 6), k**2 * (n / 2 + k / 6))
    if options.solver == "cholesky" or options.cg_tolerance is not None:
        return reading + float(exact.sum())
    iterated = _CG_SLOWNESS * 2 * n * k * options.cg_steps
    chosen = iterated if options.solver == "cg" else np.minimum(exact, iterated)
    return reading + float(chosen.sum())
