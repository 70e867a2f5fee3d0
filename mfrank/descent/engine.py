"""Stochastic gradient descent: minimizes any ranking loss over user and item factors.

For each batch, lists of some users are drawn and scored, the loss returns its gradients by the
scores, and the optimizer updates the factor tables (:mod:`mfrank.descent.factor_tables`). No Python
loop runs over users: losses use numpy's functions; the backend draws the lists, computes the scores
and sums, and takes Adam's steps. On a GPU, tables, lists, scores and gradients stay there, and
numpy's functions dispatch to CuPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_time, key_of
from mfrank.descent.factor_tables import FactorTables
from mfrank.descent.optimizers import Optimizer, Schedule
from mfrank.descent.sampler import Drawn, ListDrawer
from mfrank.losses import Gradients, Loss, Memory
from mfrank.store import Step

Ints = NDArray[np.int64]


class Batches(NamedTuple):
    """The batches of an epoch.

    Attributes
    ----------
    of : {"users", "positives"}
        What an epoch visits: users with at least one positive, or observed cells.
    size : int
        Number of visits per batch.
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
        Weight decay: multiple of the weights that is added to the gradients of a batch's rows.
    clip : float or None
        Maximum absolute value of each component of a gradient, before weight decay; None does not
        clip.
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


class Share(NamedTuple):
    """The visits of an epoch that one process makes; other processes make the rest.

    Attributes
    ----------
    first : int
        Number of the first of these visits; numbers are unique within an epoch.
    before : int
        Number of earlier visits of the epoch, by all processes.
    together : int
        Number of concurrent visits of all processes, including these. Batches consist of the visits
        of all processes.
    epoch : int
        Number of visits of the epoch.
    """

    first: int
    before: int
    together: int
    epoch: int


def descend(
    drawer: ListDrawer,
    counts: Ints,
    plan: DescentPlan,
    tables: FactorTables,
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
    tables : FactorTables
    memory : Memory
        The loss's memory, updated in place.
    done : int, default 0
        Epochs already completed, when a fit continues from their tables and memory.
    watch : function, optional
        Called after every batch with the number of lists done in the epoch, the number of lists in
        the epoch, and the seconds since it began.

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
        order = np.random.default_rng(key_of(plan.seed, epoch)).permutation(every)
        share, total = Share(0, 0, len(order), len(order)), 0.0
        rule = _rule_at(plan, epoch - 1)
        for done, loss, last in visit(plan, epoch, order, share, drawer, tables, memory):
            total, rule = total + loss, last
            if watch:
                watch(done, len(order), perf_counter() - began)
        with np.errstate(over="ignore", invalid="ignore"):  # the check below raises
            tables.catch_up(rule)
        yield ended(plan, epoch, perf_counter() - began, total / max(len(order), 1), tables)


def visit(
    plan: DescentPlan,
    epoch: int,
    order: Ints,
    share: Share,
    drawer: ListDrawer,
    tables: FactorTables,
    memory: Memory,
) -> Iterator[tuple[int, float, Optimizer]]:
    """Visit rows or cells of the drawer in this order, batch by batch.

    Yields
    ------
    done : int
        Visits made so far.
    loss : float
        Sum of the losses of a batch before its step.
    rule : Optimizer
        The rule with the batch's learning rate.

    Raises
    ------
    FloatingPointError
        A loss is no longer finite.
    """
    draw = drawer.of_cells if plan.batches.of == "positives" else drawer.of_users
    for begin in range(0, share.together, plan.batches.size):
        end = min(begin + plan.batches.size, share.together)
        own = slice(begin * len(order) // share.together, end * len(order) // share.together)
        if own.start == own.stop:
            continue
        drawn = draw(order[own], key_of(plan.seed, epoch, share.first + own.start))
        rule = _rule_at(plan, epoch - 1 + (share.before + begin) / share.epoch)
        loss = _batch(plan, rule, tables, memory, drawn, end - begin)
        if not np.isfinite(loss):
            raise FloatingPointError(_diverged(plan, epoch))
        check_time()
        yield own.stop, loss, rule


@np.errstate(over="ignore", invalid="ignore")  # the caller raises if the loss is not finite
def _batch(
    plan: DescentPlan,
    rule: Optimizer,
    tables: FactorTables,
    memory: Memory,
    drawn: Drawn,
    n_lists: int,
) -> float:
    """Take the step of a batch of ``n_lists``, of which this process drew some.

    Return the sum of their losses before the step.
    """
    tables.catch_up(rule, drawn)
    gradients = _gradients(plan.loss, tables, memory, drawn)
    tables.update(drawn, gradients, rule, plan.decay, plan.clip, n_lists)
    return float(gradients.loss.sum())


def _rule_at(plan: DescentPlan, epochs: float) -> Optimizer:
    """The optimizer with the learning rate of the schedule after ``epochs`` epochs."""
    multiplier = plan.schedule.multiplier(epochs / plan.iterations)
    learning_rate = multiplier * plan.rule.learning_rate
    return replace(plan.rule, learning_rate=learning_rate)  # type: ignore[type-var]


def _gradients(loss: Loss, tables: FactorTables, memory: Memory, drawn: Drawn) -> Gradients:
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


def ended(plan: DescentPlan, epoch: int, seconds: float, loss: float, tables: FactorTables) -> Step:
    """The step of a complete epoch, with copies of the factors.

    Raises
    ------
    FloatingPointError
        Factors are no longer finite.
    """
    if not all(np.isfinite(table).all() for table in tables.by_name().values()):
        raise FloatingPointError(_diverged(plan, epoch))
    of_users, of_items = tables.stored_biases()
    users, items = tables.users.copy(), tables.items.copy()
    return Step(epoch, seconds, loss, users, items, of_items, of_users)
