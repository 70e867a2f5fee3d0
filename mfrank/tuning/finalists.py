"""Which outcomes of a search can take part in a blend."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Setting
from mfrank.tuning.outcomes import Outcome
from mfrank.tuning.space import Space

__all__ = ["finalists"]

_OF_A_FAMILY = 3
_GOOD = 0.95
"""A family's second and third take part if they have this share of the best value."""
_TIMES_A_FIT = 2
"""Memory that they may take together, as a multiple of that of the largest fit."""


def finalists(
    done: Sequence[Outcome], space: Space = SPACE, setting: Setting | None = None
) -> list[Outcome]:
    """The best of each family and then, unless one family is searched alone, more that are good.

    More are taken in order from the best, as long as they fit in the memory of the setting.
    """
    of_families = [_best_first(done, family.name) for family in space.families()]
    leaders = [own[0] for own in of_families if own]
    if len(of_families) == 1 or not leaders:
        return leaders
    least = _GOOD * max(_value(leader) for leader in leaders)
    others = [other for own in of_families for other in own[1:] if _value(other) >= least]
    room = _TIMES_A_FIT * setting.memory if setting else math.inf
    for other in sorted(others, key=_value, reverse=True):
        if setting:
            room -= space.named(other.trial.family).bytes_needed(other.trial.rung, setting)
        if room >= 0:
            leaders.append(other)
    return leaders


def _best_first(done: Sequence[Outcome], family: str) -> list[Outcome]:
    own = [one for one in done if one.trial.family == family and one.value is not None]
    return sorted(own, key=_value, reverse=True)[:_OF_A_FAMILY]


def _value(outcome: Outcome) -> float:
    return outcome.value or 0.0
