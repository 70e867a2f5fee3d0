"""Weights of the parts of a blend: greedy selection with replacement (Caruana et al. 2004).

Weights are small whole numbers: the parts were chosen by the same users, and finer weights would
fit these users rather than all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mfrank.arrays.time_limit import OutOfTimeError

__all__ = ["MOST_PARTS", "Weights", "weighed"]

Weights = dict[int, float]
"""Weight of each part, by its number; parts that are not here have none."""

MOST_PARTS = 4
_STEPS = 12
"""Number of steps, each of which adds one to the weight of a part."""
_LEAST_GAIN = 1.001
"""A part that raises the value by less is not worth its fit."""


def weighed(
    value: Callable[[Weights], float], joining: Callable[[Weights], Sequence[int]]
) -> Weights:
    """Begin with part 0 alone, of weight 1, and give weight to what is best with the others.

    ``joining`` tells which parts may be given more; if none may, or ``value`` is out of time, what
    was found so far is chosen.
    """
    chosen: Weights = {0: 1.0}
    best = {1: (value(chosen), chosen)}  # for each number of parts
    try:
        for _ in range(_STEPS):
            steps = [
                tried for part in joining(chosen) if len(tried := _with(chosen, part)) <= MOST_PARTS
            ]
            if not steps:
                break
            found, chosen = max(((value(tried), tried) for tried in steps), key=lambda one: one[0])
            if found > best.get(len(chosen), (0.0,))[0]:
                best[len(chosen)] = found, chosen
    except OutOfTimeError:
        pass
    reached, taken = best.pop(1)
    for found, weights in best.values():
        if found > _LEAST_GAIN * reached:
            reached, taken = found, weights
    return taken


def _with(weights: Weights, part: int) -> Weights:
    """The weights with one more of a part."""
    return {**weights, part: weights.get(part, 0.0) + 1.0}
