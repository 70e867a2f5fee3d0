"""The best single model or a blend of several, by the validation part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.evaluation.report import Score
from mfrank.models.neighbor_lists import NeighborRecommender
from mfrank.retrieval.item_blend import ItemBlend
from mfrank.retrieval.recommender import Recommender
from mfrank.store.blend import blend
from mfrank.store.factors import FactorStore
from mfrank.tuning.budget import refit_seconds
from mfrank.tuning.outcomes import Outcome
from mfrank.tuning.shortlists import Shortlists
from mfrank.tuning.trials import Runner
from mfrank.tuning.weighing import MOST_PARTS, Weights, weighed

__all__ = ["Part", "blended", "mixed", "recommender", "refit_seconds_of", "spread"]

_SAMPLE = 64
_SAMPLED_ITEMS = 4096
_LISTINGS = 4.0
"""Time that listing, scoring and weighing take for one candidate, in judgments."""
_LISTED_BY = 0.4
"""No further candidate is listed after this share of the time for all that comes before the refits:
scoring what was listed takes as long again, and weighing needs some time, too."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a blend.

    Attributes
    ----------
    outcome : Outcome
    weight : float
        Of its scores, after the scores of each part are divided by their :func:`spread`. The weight
        of the first part is 1.
    """

    outcome: Outcome
    weight: float = 1.0


def mixed(runner: Runner, outcomes: Sequence[Outcome]) -> tuple[list[Part], Score | None]:
    """Begin with the best outcome, and add those that raise the metric most.

    A part is added only if all parts can still be refitted in time. The score is that of the blend;
    None for a single model.
    """
    candidates = _affordable(runner, outcomes)
    first = [Part(candidates[0])]
    if len(candidates) == 1:
        return first, None
    models = [runner.fitted(outcome) for outcome in candidates]
    lists = Shortlists.of(models, runner.judge, _late(runner, candidates[0]))
    models = models[: len(lists.scores)]
    scales = [1 / spread(model) for model in models]
    with_factors = [not isinstance(model, NeighborRecommender) for model in models]

    def value(weights: Weights) -> float:
        return lists.value([weights.get(each, 0.0) * scale for each, scale in enumerate(scales)])

    def joining(weights: Weights) -> list[int]:
        """Parts that leave a blend with factors, and time to fit all of it again."""
        has_factors = any(with_factors[each] for each in weights)
        return [
            other
            for other in range(len(models))
            if (has_factors or with_factors[other])
            and _in_time(runner, [candidates[each] for each in {*weights, other}])
        ]

    chosen = weighed(value, joining)
    if len(chosen) == 1:
        return first, None
    parts = [
        Part(candidates[each], float(f"{weight / chosen[0]:.3g}"))
        for each, weight in chosen.items()
    ]
    together = blended([models[each] for each in chosen], [part.weight for part in parts])
    return parts, runner.judge.score(recommender(together))


def blended(models: Sequence[Recommender], weights: Sequence[float]) -> FactorStore:
    """One store of all models, weighted after their scores are brought to one scale."""
    scaled = [
        (model.store, weight / spread(model), isinstance(model, NeighborRecommender))
        for model, weight in zip(models, weights, strict=True)
    ]
    scaled.sort(key=lambda each: each[2])  # those with factors first
    (made, unit, _), *others = scaled
    for store, scale, _ in others:
        made = blend(made, store, scale / unit)
    return made


def recommender(store: FactorStore) -> Recommender:
    """A recommender over a blend."""
    of_items = store.fitter["name"] == ItemBlend.__name__
    return ItemBlend.of(store) if of_items else Recommender.of(store)


def spread(model: Recommender) -> float:
    """Standard deviation of a user's scores of items, the mean over users; samples of both."""
    users = _sample(len(model.user_ids), _SAMPLE)
    items = _sample(len(model.item_ids), _SAMPLED_ITEMS)
    deviations = [
        model.score(np.full(len(items), user), items, by_row=True).std() for user in users
    ]
    return float(np.mean(deviations, dtype=np.float64)) or 1.0


def _sample(n_rows: int, most: int) -> NDArray[np.int64]:
    """Rows at equal distances, the same whenever they are asked for."""
    return np.unique(np.linspace(0, n_rows - 1, min(most, n_rows)).astype(np.int64))


def _late(runner: Runner, leader: Outcome) -> Callable[[], bool]:
    """Whether no further candidate is listed, because too much of the time from now on is over."""
    refit = refit_seconds(leader)
    enough = refit + (1 - _LISTED_BY) * (runner.budget.left() - refit)
    return lambda: runner.budget.left() < enough


def refit_seconds_of(outcomes: Sequence[Outcome]) -> float:
    """About the seconds of fitting all of them to all data."""
    return sum(map(refit_seconds, outcomes))


def _affordable(runner: Runner, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The best of each ladder, which err differently, then the others, as time allows.

    The time that is left must suffice to list all of them, and to fit the maximum number of parts
    again.
    """
    ladder_of, leaders, others = runner.space.ladder_of, list[Outcome](), list[Outcome]()
    for outcome in sorted(outcomes, key=lambda outcome: -(outcome.value or 0.0)):
        known = {ladder_of(leader.trial.family) for leader in leaders}
        (others if ladder_of(outcome.trial.family) in known else leaders).append(outcome)
    taken = leaders[:1]
    for other in leaders[1:] + others:
        listing = sum(_LISTINGS * one.judge_seconds for one in (*taken, other))
        refits = refit_seconds_of(taken[: MOST_PARTS - 1]) + refit_seconds(other)
        if runner.budget.left() > listing + refits:
            taken.append(other)
    return taken


def _in_time(runner: Runner, outcomes: Sequence[Outcome]) -> bool:
    judging = sum(outcome.judge_seconds for outcome in outcomes)
    return runner.budget.left() > refit_seconds_of(outcomes) + 1.5 * judging
