"""Stochastic descent: any ranking loss over the factors of users and items.

A batch draws lists of some users, the loss gives slopes g in the scores h_u(i), and the chain rule
is the same for every loss. With dot products, h = p_u . q_i / T + b_i:

    dP_u = sum_i g_ui q_i / T        dQ_i = sum_u g_ui p_u / T        db_i = sum_u g_ui

With cosines, rows of P and Q are kept at length 1: slopes lose their part along the row, and each
step is drawn back to the sphere. Without a loop over users: losses are numpy's; draws, scores, sums
and Adam's steps are the backend's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Backend
from mfrank.lists import Array
from mfrank.optimisers import Optimiser, State
from mfrank.sampling import Drawn, ListDrawer
from mfrank.schedules import Schedule
from mfrank.steps import Step
from mfrank.streams import key_of
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["Batches", "Course", "Tables", "descend", "on_sphere"]

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Tables:
    """Parameters that descend, written in place, and what the optimiser keeps beside them.

    Attributes
    ----------
    users, items : float32 or float64, shape (n_users, K) and (n_items, K)
        Of length 1 each where ``cosine``.
    biases : shape (n_items, 1), optional
    backend : Backend
        Where scores are computed and slopes summed.
    cosine : bool
    temperature : float
        T.
    kept : dict
        The optimiser's state of each table.
    """

    users: Array
    items: Array
    biases: Array | None
    backend: Backend
    cosine: bool = False
    temperature: float = 1.0
    n_threads: int = 0
    kept: dict[str, State] = field(default_factory=dict)

    def by_name(self) -> dict[str, Array]:
        """The tables there are."""
        named = {"users": self.users, "items": self.items, "biases": self.biases}
        return {name: table for name, table in named.items() if table is not None}

    def begin(self, rule: Optimiser) -> None:
        """Make the optimiser's state, where it is not there yet."""
        for name, table in self.by_name().items():
            self.kept.setdefault(name, rule.state(table))

    def settle(self, rule: Optimiser, drawn: Drawn | None = None) -> None:
        """Bring the rows that a batch reads, or all, to where the rule has them by now."""
        if not rule.drifts:
            return
        users = np.arange(len(self.users)) if drawn is None else np.unique(drawn.lists.users)
        items = np.arange(len(self.items)) if drawn is None else np.unique(drawn.items)
        for name, table in self.by_name().items():
            rows = users if name == "users" else items
            rule.settle(table, self.kept[name], rows)
            if self.cosine and name != "biases":
                table[rows] = on_sphere(table[rows])

    def scores(self, drawn: Drawn) -> tuple[Array, Array]:
        """Scores of the liked and of the other items of the lists."""
        queries = self.users[drawn.lists.users]
        scores = self.backend.score(queries, self.items, drawn.items, self.n_threads)
        scores = scores / self.temperature
        if self.biases is not None:
            scores = scores + self.biases[drawn.items, 0]
        width = drawn.lists.gains.shape[1]
        return scores[:, :width], scores[:, width:]

    def move(
        self, drawn: Drawn, slopes: Slopes, rule: Optimiser, decay: float, clip: float | None
    ) -> None:
        """Update what the lists touch against the slopes of the mean of their losses.

        Sums of slopes are cut off at ``clip``; ``decay`` times the weights is added to them.
        """
        size, users = len(slopes.loss), drawn.lists.users
        by_score = np.concatenate([slopes.likes, slopes.others], axis=1) / size
        by_score = np.ascontiguousarray(by_score, dtype=self.users.dtype)
        queries = self.users[users]
        on_users = self.backend.sum_items(self.items, drawn.items, by_score, self.n_threads)
        if drawn.users_repeat:
            each = np.ones((len(users), 1), dtype=queries.dtype)
            users, on_users = self.backend.sum_queries(
                on_users, len(self.users), users[:, None], each, self.n_threads
            )
        if self.biases is not None:
            queries = np.append(queries, np.ones((len(queries), 1), queries.dtype), axis=1)
        touched, on_items = self.backend.sum_queries(
            queries, len(self.items), drawn.items, by_score, self.n_threads
        )
        if self.biases is not None:
            self._update("biases", touched, on_items[:, -1:], rule, decay, clip)
            on_items = on_items[:, :-1]
        self._update("users", users, on_users / self.temperature, rule, decay, clip)
        self._update("items", touched, on_items / self.temperature, rule, decay, clip)

    def _update(
        self,
        name: str,
        rows: Ints,
        slopes: Array,
        rule: Optimiser,
        decay: float,
        clip: float | None,
    ) -> None:
        table = self.by_name()[name]
        on_ball = self.cosine and name != "biases"
        if on_ball:
            slopes = slopes - (slopes * table[rows]).sum(1, keepdims=True) * table[rows]
        if clip is not None:
            slopes = np.clip(slopes, -clip, clip)
        if decay:
            slopes = slopes + decay * table[rows]
        slopes = np.ascontiguousarray(slopes, dtype=table.dtype)
        rule.update(table, rows, slopes, self.kept[name], self.backend, self.n_threads)
        if on_ball:
            table[rows] = on_sphere(table[rows])


def on_sphere(rows: Array) -> Array:
    """Rows divided by their lengths; those of length 0 stay."""
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(1, keepdims=True))
    scaled: Array = (rows / np.where(lengths > 0, lengths, 1)).astype(rows.dtype)
    return scaled


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
        tables.settle(course.rule)
        if not all(np.isfinite(table).all() for table in tables.by_name().values()):
            raise FloatingPointError(_diverged(course, epoch))
        yield _step(epoch, perf_counter() - began, total / max(len(order), 1), tables)


def _batch(course: Course, pace: float, tables: Tables, memory: Memory, drawn: Drawn) -> float:
    """One step down; the sum of the losses before it."""
    rule = replace(course.rule, learning_rate=pace * course.rule.learning_rate)  # type: ignore[type-var]
    tables.settle(rule, drawn)
    with np.errstate(over="ignore", invalid="ignore"):  # told by the caller, with the remedy
        slopes = course.loss.slopes(drawn.lists, *tables.scores(drawn), memory)
        tables.move(drawn, slopes, rule, course.decay, course.clip)
    return float(slopes.loss.sum())


def _diverged(course: Course, epoch: int) -> str:
    return (
        f"the fit diverges in epoch {epoch}: the learning rate {course.rule.learning_rate:g} is "
        "too large for it; a tenth of it may do"
    )


def _step(epoch: int, seconds: float, loss: float, tables: Tables) -> Step:
    biases = None
    if tables.biases is not None:
        # The store's scores are p . q + b, those of the descent p . q / T + b.
        biases = tables.temperature * tables.biases[:, 0]
    return Step(epoch, seconds, loss, tables.users.copy(), tables.items.copy(), biases)
