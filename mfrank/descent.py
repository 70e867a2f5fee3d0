"""Stochastic descent: any ranking loss over the factors of users and items.

A batch draws lists of some users and scores them, the loss gives slopes in the scores, and tables
move down these (:mod:`mfrank.tables`). Without a loop over users: losses are numpy's; draws,
scores, sums and Adam's steps are the backend's. Where the backend has a device of its own, tables,
lists, scores and slopes stay there, and numpy's functions are those of its library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.drawn import Drawn
from mfrank.optimisers import Optimiser
from mfrank.sampling import ListDrawer
from mfrank.schedules import Schedule
from mfrank.steps import Step
from mfrank.streams import key_of
from mfrank.tables import Tables
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["Batches", "Course", "descend"]

Ints = NDArray[np.int64]


class Batches(NamedTuple):
    """How an epoch is cut: users who like something, or observed cells, so many at a time."""

    of: Literal["users", "positives"]
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """How a fit goes down, the same from epoch to epoch.

    Attributes
    ----------
    loss : Loss
    rule : Optimiser
    schedule : Schedule
        Of the rule's learning rate.
    iterations : int
        Epochs of the whole course.
    batches : Batches
    decay : float
        Weight decay, times the weights of touched rows added to their slopes.
    clip : float or None
        What no slope of a weight is larger than, before weight decay.
    seed : int
        Every random number is a function of it and of the numbers of epoch and batch.
    """

    loss: Loss
    rule: Optimiser
    schedule: Schedule
    iterations: int
    batches: Batches
    decay: float
    clip: float | None
    seed: int


def descend(
    drawer: ListDrawer,
    counts: Ints,
    course: Course,
    tables: Tables,
    memory: Memory,
    done: int = 0,
) -> Iterator[Step]:
    """Descend from the tables as they are, in place; yield copies after every epoch.

    An epoch visits each user who likes something, or each observed cell, once, in an order of its
    own.

    Parameters
    ----------
    drawer : ListDrawer
    counts : int64, shape (n_users,)
        Likes of each user.
    course : Course
    tables : Tables
    memory : Memory
        What the loss remembers, written to.
    done : int
        Epochs that led to tables and memory as they are.

    Raises
    ------
    FloatingPointError
        Losses or factors are not finite any more: the learning rate is too large.
    """
    of_cells = course.batches.of == "positives"
    every = np.arange(counts.sum()) if of_cells else np.flatnonzero(counts)
    tables.begin(course.rule)
    for epoch in range(done + 1, course.iterations + 1):
        began = perf_counter()
        total = 0.0
        order = np.random.default_rng(key_of(course.seed, epoch)).permutation(every)
        for begin in range(0, len(order), course.batches.size):
            part = order[begin : begin + course.batches.size]
            key = key_of(course.seed, epoch, begin)
            drawn = drawer.of_cells(part, key) if of_cells else drawer.of_users(part, key)
            pace = course.schedule.pace((epoch - 1 + begin / len(order)) / course.iterations)
            total += _batch(course, pace, tables, memory, drawn)
            if not np.isfinite(total):
                raise FloatingPointError(_diverged(course, epoch))
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            tables.settle(course.rule)
        if not all(np.isfinite(table).all() for table in tables.by_name().values()):
            raise FloatingPointError(_diverged(course, epoch))
        yield _step(epoch, perf_counter() - began, total / max(len(order), 1), tables)


@np.errstate(over="ignore", invalid="ignore")  # told by the caller, with the remedy
def _batch(course: Course, pace: float, tables: Tables, memory: Memory, drawn: Drawn) -> float:
    """One step down; the sum of the losses before it."""
    rule = replace(course.rule, learning_rate=pace * course.rule.learning_rate)  # type: ignore[type-var]
    tables.settle(rule, drawn)
    slopes = _slopes(course.loss, tables, memory, drawn)
    tables.move(drawn, slopes, rule, course.decay, course.clip)
    return float(slopes.loss.sum())


def _slopes(loss: Loss, tables: Tables, memory: Memory, drawn: Drawn) -> Slopes:
    scored = tables.scores(drawn, between=loss.between)
    lists = replace(drawn.lists, between=scored.between) if loss.between else drawn.lists
    return loss.slopes(lists, scored.likes, scored.others, memory)


def _diverged(course: Course, epoch: int) -> str:
    return (
        f"the fit diverges in epoch {epoch}: the learning rate {course.rule.learning_rate:g} is "
        "too large for it; a tenth of it may do"
    )


def _step(epoch: int, seconds: float, loss: float, tables: Tables) -> Step:
    of_users, of_items = tables.stored_biases()
    users, items = tables.users.copy(), tables.items.copy()
    return Step(epoch, seconds, loss, users, items, of_items, of_users)
