"""Seconds of a step of mfrank.Descent: the time from one call of its loss to the next."""

from __future__ import annotations

import itertools
from dataclasses import fields
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import mfrank
from mfrank.arrays import Array
from mfrank.data import Interactions
from mfrank.losses import Gradients, Lists, Loss, Memory, Scores

__all__ = ["Pace", "descent_pace"]

_ticks: list[float] = []


class Pace(NamedTuple):
    """Seconds of a step, and what an epoch takes beside its steps (its copy of the factors)."""

    step: float
    beside: float


def _ticking(loss: Loss) -> Loss:
    """The same loss, of a kind of its own: each call of its slopes leaves the time."""

    class Ticking(type(loss)):  # type: ignore[misc]
        def gradients(
            self, lists: Lists, positives: Array, negatives: Array, memory: Memory
        ) -> Gradients:
            _ticks.append(perf_counter())
            return super().gradients(lists, positives, negatives, memory)

    return Ticking(**{option.name: getattr(loss, option.name) for option in fields(loss)})  # type: ignore[arg-type]


def descent_pace(
    loss: Loss, data: Interactions, n_threads: int, scores: Scores = "dot", **options: Any
) -> Pace:
    """Median seconds of the steps of a second epoch, and what that took beside them."""
    _ticks.clear()
    epochs: list[float] = []
    model = mfrank.Descent(
        _ticking(loss),
        scores=scores,
        temperature=1.0,
        item_biases=False,
        init="random",
        iterations=2,
        n_threads=n_threads,
        random_state=0,
        **options,
    )
    model.fit(data, callback=lambda _, took, __: epochs.append(took))
    own = _ticks[len(_ticks) // 2 :]
    step = median(after - before for before, after in itertools.pairwise(own))
    return Pace(step, max(epochs[1] - step * len(own), 0.0))
