"""Weights of the parts of a blend, chosen greedily (Caruana et al. 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["MOST_PARTS", "Weights", "weighed"]

Weights = dict[int, float]
"""By part; others have none."""

MOST_PARTS = 4
_LEAST_GAIN = 1.001
"""A part that raises the value by less is not worth its fit."""
_POWERS = (-3, -1, 1)
"""Weights that are tried first are 2 to these powers."""
_STEPS = (-1, 0, 1, 2)
"""Added to the best of these powers, for the parts that are best by them."""
_PROMISING = 4
"""So many parts."""
_FINER = (0.5**0.5, 2**0.5)


def weighed(
    value: Callable[[Weights], float], joining: Callable[[Weights], Sequence[int]]
) -> Weights:
    """Begin with part 0 alone, of weight 1, and add what raises the value most, while it does.

    ``joining`` tells which parts may join those that were chosen.
    """
    chosen: Weights = {0: 1.0}
    best = value(chosen)
    while len(chosen) < MOST_PARTS:
        found, more = _joined(value, chosen, joining(chosen))
        if found <= best or found < _LEAST_GAIN * best:
            break
        best, chosen = found, more
        for part in [*chosen, *chosen]:  # weights that were best for fewer parts, again
            for factor in _FINER:
                tried = {**chosen, part: chosen[part] * factor}
                if (of_it := value(tried)) > best:
                    best, chosen = of_it, tried
    return chosen


def _joined(
    value: Callable[[Weights], float], chosen: Weights, parts: Sequence[int]
) -> tuple[float, Weights]:
    """The best that a further part makes of those that were chosen; 0 if none may join."""

    def tried(part: int, powers: Sequence[int]) -> tuple[float, int, int]:
        return max((value({**chosen, part: 2.0**power}), part, power) for power in powers)

    coarse = sorted(tried(part, _POWERS) for part in parts)
    fine = [
        tried(part, [power + step for step in _STEPS]) for _, part, power in coarse[-_PROMISING:]
    ]
    if not fine:
        return 0.0, chosen
    found, part, power = max(fine)
    return found, {**chosen, part: 2.0**power}
