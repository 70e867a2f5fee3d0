"""The best single model or a blend of several, by the validation part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
_LISTINGS = 5.0
"""Judgments that listing, scoring and weighing for one candidate take."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a blend.

    Attributes
    ----------
    outcome : Outcome
    weight : float
        Of its scores, those of each part divided by their :func:`spread`. That of the first part
        is 1.
    """

    outcome: Outcome
    weight: float = 1.0


def mixed(runner: Runner, outcomes: Sequence[Outcome]) -> tuple[list[Part], Score | None]:
    """Begin with the best outcome, and add what raises the metric most.

    A part takes part only if all of them can still be refitted in time. The score is that of the
    blend; None for a single model.
    """
    candidates = _affordable(runner, outcomes)
    first = [Part(candidates[0])]
    if len(candidates) == 1:
        return first, None
    models = [runner.fitted(outcome) for outcome in candidates]
    lists = Shortlists.of(models, runner.judge)
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
            if other not in weights
            and (has_factors or with_factors[other])
            and _in_time(runner, [candidates[each] for each in (*weights, other)])
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
    """One store of all, by weights of scores that were brought to one scale."""
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
    """Standard deviation of a user's scores of all items, the mean over a sample of users."""
    n_users, n_items = len(model.user_ids), len(model.item_ids)
    users = np.unique(np.linspace(0, n_users - 1, min(_SAMPLE, n_users)).astype(np.int64))
    deviations = [
        model.score(np.full(n_items, user), np.arange(n_items), by_row=True).std() for user in users
    ]
    return float(np.mean(deviations, dtype=np.float64)) or 1.0


def refit_seconds_of(outcomes: Sequence[Outcome]) -> float:
    """About the seconds of fitting all of them to all data."""
    return sum(map(refit_seconds, outcomes))


def _affordable(runner: Runner, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The best of each ladder, which err differently, then the others, as time allows.

    What is left of the time must do for listing all of them, and for fitting the most parts again.
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
