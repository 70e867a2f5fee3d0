"""The weights of kinds of events with which one kind is ranked best: a search, one kind at a time.

Each choice of weights is judged by a narrow ALS under WRMF, whose ``alpha`` has the mean value of
the data as its unit. So only ratios of weights matter, and the kind that is ranked has 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data import (
    Events,
    Interactions,
    KindWeights,
    by_ratio,
    by_time,
    check_alike,
    check_numbering,
    placed,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation import Metric
from mfrank.models import refuse_no_likes
from mfrank.retrieval import ModelState
from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Facts, Setting, short
from mfrank.tuning.ladder import Trial
from mfrank.tuning.successive_halving import Budget
from mfrank.tuning.trials import HELD_OUT, Runner, TrialJudge, enough_known

ByKind = dict[str, float | None]
"""Weights by kind; None leaves its events out."""

_FAMILY = "WRMF"
_STEPS = (5.0, 2.0)
"""Factors by which the weight of a kind is changed, up and down."""
_ENTRIES = (1.0, 0.2, 0.05)
"""ByKind to try of a kind that is left out."""
_MOST_STEPS = 4
"""Of one kind, in one direction."""
_LEAST_GAIN = 0.005
"""A change of less than this share of the metric is no better: it may be chance."""
_SHARE = 0.2
"""The most of the time that the search takes."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetData:
    """Events to train on, and held-out interactions of the kind that is to be ranked.

    Attributes
    ----------
    events : Events
        All but those of ``whole_valid``.
    train : Events
    valid : Interactions
        Of the target, in the rows of the events.
    target : str
    held_out : {"by time", "per user", "as given"}
    """

    events: Events
    train: Events
    valid: Interactions
    target: str
    held_out: str

    @classmethod
    def of(cls, data: Any, target: Any, valid: Any, seed: int) -> TargetData:
        """Read events, and hold out some of the target, if no validation part is given.

        Raises
        ------
        ValueError, TypeError
            The data have no kinds, or not this one; or the validation part has other ids.
        """
        if isinstance(data, Interactions):
            raise InputTypeError(
                "`target` needs the kind of each event, which Interactions do not have:",
                "pass `mfrank.Events`, or a table with a column of kinds",
            )
        events = Events.of(data)
        kind = events.kinds[events.code_of(target)]
        refuse_no_likes(events[kind])
        if valid is not None:
            return cls(events, events, _valid_of(valid, events, kind), kind, "as given")
        if events.timestamps is not None:
            split = _by_time(events, kind)
            if split is not None:
                return cls(events, *split, kind, "by time")
        options = {"train": 1 - HELD_OUT, "valid": 0.0, "test": HELD_OUT, "random_state": seed}
        parts = events.split(kind, by_ratio, **options)
        return cls(events, parts.train, parts.test, kind, "per user")

    @property
    def bought(self) -> Interactions:
        """Training interactions of the target, which lists leave out."""
        return self.train[self.target]

    def whole(self, weights: KindWeights) -> tuple[Interactions, Interactions]:
        """All interactions, weighted, and all of the target, also of a validation part as given."""
        everything, bought = self.events.weighted(weights), self.events[self.target]
        if self.held_out != "as given":
            return everything, bought
        weight = weights[self.target] or 1.0
        more = self.valid.weighted(np.full(self.valid.nnz, weight))
        return everything + more, bought + self.valid


def _by_time(events: Events, kind: str) -> tuple[Events, Interactions] | None:
    try:
        split = events.split(kind, by_time, test=HELD_OUT)
    except ValueError:  # nearly all have the latest time
        return None
    train, bought = split.train.weighted(dict.fromkeys(events.kinds, 1)), split.train[kind]
    return (split.train, split.test) if enough_known(train, split.test, bought) else None


def _valid_of(valid: Any, events: Events, kind: str) -> Interactions:
    """Interactions of the target to choose by, in the rows of the events."""
    given = valid[kind] if isinstance(valid, Events) else Interactions.of(valid)
    known = {"user": events.user_ids, "item": events.item_ids}
    rows = list[NDArray[np.int64]]()
    for side, ids in known.items():
        own = getattr(given, f"{side}_ids")
        for check in (check_alike, check_numbering):
            check(own, ids, "valid", side)
        rows.append(ids.rows(own.labels, missing=-1))
    found = placed(given, rows[0], rows[1], events.user_ids, events.item_ids)
    if not found.nnz:
        raise InputValueError("`valid` must have users and items of the data, and has none of them")
    if (events.timestamps is None) != (found.timestamps is None):
        raise InputValueError(
            "`valid` must have timestamps if the events have some, and none otherwise"
        )
    return found


def checked_weights(weights: KindWeights, data: TargetData) -> ByKind:
    """ByKind that are given, as they are; ValueError if the models cannot use them."""
    found = data.events.weights_of(weights)
    if any(weight is not None and weight < 0 for weight in found.values()):
        raise InputValueError(
            "`weights` below 0 are dislikes, which most of the models searched cannot use:",
            "give these kinds the weight None, or fit ALS by hand",
        )
    if not found[data.target]:
        raise InputValueError(
            f"`weights` must have a weight above 0 for {data.target!r}, the target"
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class WeightSearch:
    """The judge of weights: a narrow fit to the weighted events, ranked by what is held out."""

    data: TargetData
    metric: Metric
    budget: Budget
    factors: int
    seed: int
    n_threads: int
    show_progress: bool = False
    is_timed: bool = True

    def best(self) -> ByKind:
        """The best weights found: of the target 1; None for kinds to leave out."""
        target = self.data.target
        counts = self.data.train.counts
        others = sorted((kind for kind in counts if kind != target), key=lambda k: -counts[k])
        began, may_take = self.budget.now(), _SHARE * self.budget.left()
        known = dict[tuple[tuple[str, float | None], ...], float]()

        def value(weights: ByKind) -> float:
            key = tuple(sorted(weights.items()))
            if key not in known:
                late = self.is_timed and self.budget.now() - began > may_take
                known[key] = -np.inf if late and known else self._value(weights)
            return known[key]

        alike: ByKind = dict.fromkeys(counts, 1.0)
        rarer = {k: short(min(1.0, counts[target] / max(n, 1))) for k, n in counts.items()}
        alone: ByKind = {**dict.fromkeys(others), target: 1.0}
        best = self._better(alone, [alike, {**rarer, target: 1.0}], value)
        for step in _STEPS:
            for kind in others:
                for factor in (step, 1 / step):
                    best = self._along(best, kind, factor, value)
                best = self._better(best, [{**best, kind: None}], value)
        return {kind: best[kind] for kind in counts}

    def _along(
        self, best: ByKind, kind: str, factor: float, value: Callable[[ByKind], float]
    ) -> ByKind:
        """Change the weight of a kind by a factor as long as it helps."""
        for _ in range(_MOST_STEPS):
            weight = best[kind]
            to = _ENTRIES if weight is None else (short(weight * factor),)
            tried = self._better(best, [{**best, kind: each} for each in to], value)
            if tried is best:
                break
            best = tried
        return best

    def _better(
        self, first: ByKind, others: list[ByKind], value: Callable[[ByKind], float]
    ) -> ByKind:
        """The best of several weights: the first, unless another is clearly better."""
        for other in others:
            if value(other) > (1 + _LEAST_GAIN) * value(first):
                first = other
        return first

    def _value(self, weights: ByKind) -> float:
        """The metric of a fit to events of these weights; -inf if it fails."""
        data = self.data.train.weighted(weights)
        judge = TrialJudge.of(
            data, self.metric, self.seed, self.n_threads, self.data.valid, self.data.bought
        )
        setting = Setting(Facts.of(data), self.factors, self.seed, self.n_threads)
        runner = Runner(setting, judge, self.budget, {}, SPACE)
        outcome = runner.run(Trial(_FAMILY, SPACE.named(_FAMILY).first, 0), 0.0)
        value = -np.inf if outcome.value is None else outcome.value
        if self.show_progress:
            print(
                f"mfrank: {weights_told(weights)}: {self.metric} {value:.4f}",
                file=sys.stderr,
            )
        return value


def weights_told(weights: Mapping[str, float | None]) -> str:
    """ByKind as an argument to paste."""
    each = (f"{kind!r}: {w if w is None else format(w, 'g')}" for kind, w in weights.items())
    return f"weights={{{', '.join(each)}}}"


def record_weights(model: Any, weights: Mapping[str, float | None]) -> None:
    """Record the weights in the store of a model."""
    held = model._now()
    store = replace(held.store, event_weights=weights)
    model._held = ModelState(store, held.seen, held.parts)
