"""Stochastic gradient descent: minimizes any ranking loss over user and item factors.

Each batch draws lists for some users and scores them, the loss returns its gradients by the scores,
and the optimizer updates the factor tables (:mod:`mfrank.descent.factor_tables`). No Python loop
runs over users: losses use numpy's functions; the backend draws the lists, computes the scores and
sums, and takes Adam's steps. If the backend runs on a GPU, tables, lists, scores and gradients stay
there, and numpy's functions dispatch to CuPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.random import key_of
from mfrank.descent.factor_tables import Tables
from mfrank.descent.optimizers import Optimizer
from mfrank.descent.sample import Drawn
from mfrank.descent.sampler import ListDrawer
from mfrank.descent.schedules import Schedule
from mfrank.losses import Gradients, Loss, Memory
from mfrank.store.step import Step

__all__ = ["Batches", "DescentPlan", "descend"]

Ints = NDArray[np.int64]


class Batches(NamedTuple):
    """How an epoch is split into batches.

    Attributes
    ----------
    of : {"users", "positives"}
        What an epoch visits: users with at least one positive, or observed cells.
    size : int
        Number of them in a batch.
    """

    of: Literal["users", "positives"]
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class DescentPlan:
    """Options of a fit, the same in every epoch.

    Attributes
    ----------
    loss : Loss
    rule : Optimizer
    schedule : Schedule
        Learning-rate multipliers.
    iterations : int
        Epochs of the whole fit.
    batches : Batches
    decay : float
        Weight decay: this times the weights is added to the gradients of the rows of a batch.
    clip : float or None
        Largest absolute value of each weight's gradient, before weight decay; None does not clip.
    seed : int
        Every random number is a function of the seed, the epoch and the batch.
    """

    loss: Loss
    rule: Optimizer
    schedule: Schedule
    iterations: int
    batches: Batches
    decay: float
    clip: float | None
    seed: int


def descend(
    drawer: ListDrawer,
    counts: Ints,
    plan: DescentPlan,
    tables: Tables,
    memory: Memory,
    done: int = 0,
    watch: Callable[[int, int, float], object] | None = None,
) -> Iterator[Step]:
    """Run gradient descent on the tables in place; yield copies of them after every epoch.

    An epoch visits each user with a positive, or each observed cell, once, in a new random order.

    Parameters
    ----------
    drawer : ListDrawer
    counts : int64, shape (n_users,)
        Number of positives of each user.
    plan : DescentPlan
    tables : Tables
    memory : Memory
        The loss's memory, updated in place.
    done : int, default 0
        Epochs already completed, when a fit continues from their tables and memory.
    watch : function, optional
        Called after every batch with the lists of the epoch that are done, their number in the
        epoch, and the seconds since it began.

    Raises
    ------
    FloatingPointError
        Losses or factors are no longer finite: the learning rate is too large.
    """
    of_cells = plan.batches.of == "positives"
    every = np.arange(counts.sum()) if of_cells else np.flatnonzero(counts)
    tables.begin(plan.rule)
    for epoch in range(done + 1, plan.iterations + 1):
        began = perf_counter()
        total, rule = 0.0, _rule_at(plan, epoch - 1)
        order = np.random.default_rng(key_of(plan.seed, epoch)).permutation(every)
        for begin in range(0, len(order), plan.batches.size):
            part = order[begin : begin + plan.batches.size]
            key = key_of(plan.seed, epoch, begin)
            drawn = drawer.of_cells(part, key) if of_cells else drawer.of_users(part, key)
            rule = _rule_at(plan, epoch - 1 + begin / len(order))
            total += _batch(plan, rule, tables, memory, drawn)
            if not np.isfinite(total):
                raise FloatingPointError(_diverged(plan, epoch))
            if watch:
                watch(begin + len(part), len(order), perf_counter() - began)
        with np.errstate(over="ignore", invalid="ignore"):  # the check below raises
            tables.catch_up(rule)
        if not all(np.isfinite(table).all() for table in tables.by_name().values()):
            raise FloatingPointError(_diverged(plan, epoch))
        yield _step(epoch, perf_counter() - began, total / max(len(order), 1), tables)


@np.errstate(over="ignore", invalid="ignore")  # the caller raises if the loss is not finite
def _batch(
    plan: DescentPlan, rule: Optimizer, tables: Tables, memory: Memory, drawn: Drawn
) -> float:
    """Take one step; return the sum of the losses before it."""
    tables.catch_up(rule, drawn)
    gradients = _gradients(plan.loss, tables, memory, drawn)
    tables.update(drawn, gradients, rule, plan.decay, plan.clip)
    return float(gradients.loss.sum())


def _rule_at(plan: DescentPlan, epochs: float) -> Optimizer:
    """The optimizer with the learning rate that the schedule has after so many epochs."""
    multiplier = plan.schedule.multiplier(epochs / plan.iterations)
    learning_rate = multiplier * plan.rule.learning_rate
    return replace(plan.rule, learning_rate=learning_rate)  # type: ignore[type-var]


def _gradients(loss: Loss, tables: Tables, memory: Memory, drawn: Drawn) -> Gradients:
    scored = tables.scores(drawn, pair_scores=loss.pair_scores)
    lists = (
        replace(drawn.lists, pair_scores=scored.pair_scores) if loss.pair_scores else drawn.lists
    )
    return loss.gradients(lists, scored.positives, scored.negatives, memory)


def _diverged(plan: DescentPlan, epoch: int) -> str:
    return (
        f"the fit diverged in epoch {epoch}: the learning rate {plan.rule.learning_rate:g} is too "
        "large; try a tenth of it"
    )


def _step(epoch: int, seconds: float, loss: float, tables: Tables) -> Step:
    of_users, of_items = tables.stored_biases()
    users, items = tables.users.copy(), tables.items.copy()
    return Step(epoch, seconds, loss, users, items, of_items, of_users)
