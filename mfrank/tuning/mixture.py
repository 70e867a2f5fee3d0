"""The best single model or a blend of several, by the validation part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mfrank.evaluation.report import Score
from mfrank.store.blend import blend
from mfrank.store.factors import FactorStore
from mfrank.tuning.budget import refit_seconds
from mfrank.tuning.families import ladder_of
from mfrank.tuning.outcomes import Outcome
from mfrank.tuning.trials import Runner

__all__ = ["Part", "blended", "mixed", "refit_seconds_of"]

_MOST_PARTS = 3
_SAMPLE = 256


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a blend.

    Attributes
    ----------
    outcome : Outcome
    weight : float
        Of its scores against those of all parts before it, both on one scale: each divided by
        its :func:`spread`. That of the first part is 1.
    """

    outcome: Outcome
    weight: float = 1.0


def mixed(runner: Runner, outcomes: Sequence[Outcome]) -> tuple[list[Part], Score | None]:
    """Choose greedily: the best outcome first, then what raises the metric, at most three.

    Those of other ladders than the first are tried before the others, because they err
    differently. A part is tried only if all of them can still be refitted in time. The score is
    that of the blend; None for a single model.
    """
    first, *others = sorted(outcomes, key=lambda outcome: -(outcome.value or 0.0))
    others.sort(key=lambda other: ladder_of(other.trial.family) == ladder_of(first.trial.family))
    parts, score = [Part(first)], None
    value = first.value or 0.0
    for other in others:
        if len(parts) == _MOST_PARTS:
            break
        if not _in_time(runner, [*parts, Part(other)]):
            continue
        stores = [runner.store(part.outcome) for part in parts]
        store = blended(stores, [part.weight for part in parts])
        weight, found = _best_weight(runner, store, other, parts)
        if found is None or found.value <= value:
            continue
        parts, value, score = [*parts, Part(other, weight)], found.value, found
    return parts, score


def blended(stores: Sequence[FactorStore], weights: Sequence[float]) -> FactorStore:
    """One store of all, each weighed against those before it, on one scale."""
    made = stores[0]
    for store, weight in zip(stores[1:], weights[1:], strict=True):
        made = blend(made, store, weight * spread(made) / spread(store))
    return made


def spread(store: FactorStore) -> float:
    """Standard deviation of a user's scores of all items, the mean over a sample of users."""
    users = np.linspace(0, store.n_users - 1, min(_SAMPLE, store.n_users)).astype(np.int64)
    scores = store.user_factors[users].astype(np.float64) @ store.item_factors.T
    if store.item_biases is not None:
        scores += store.item_biases
    return float(scores.std(axis=1).mean()) or 1.0


def refit_seconds_of(parts: Sequence[Part]) -> float:
    """About the seconds of fitting all parts to all data."""
    return sum(refit_seconds(part.outcome) for part in parts)


def _best_weight(
    runner: Runner, store: FactorStore, other: Outcome, parts: Sequence[Part]
) -> tuple[float, Score | None]:
    """Double or halve the weight from 1, as long as the metric rises and there is time."""
    tried: dict[int, Score] = {}

    def value(power: int) -> float:
        if power not in tried and _in_time(runner, [*parts, Part(other)]):
            together = blended([store, runner.store(other)], [1.0, 2.0**power])
            tried[power] = runner.judge.score(together)
        return tried[power].value if power in tried else -1.0

    best, direction = 0, 1 if value(1) > max(value(0), value(-1)) else -1
    while value(best + direction) > value(best):
        best += direction
    return 2.0**best, tried.get(best)


def _in_time(runner: Runner, parts: Sequence[Part]) -> bool:
    judging = sum(part.outcome.judge_seconds for part in parts)
    return runner.budget.left() > refit_seconds_of(parts) + 2 * judging
