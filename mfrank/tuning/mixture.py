"""The best single model, or a blend with weights chosen on the validation part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR, OutOfTimeError, check_time
from mfrank.evaluation import NDCG, ListMetric, Metric, Score, UnbiasedMetric
from mfrank.evaluation import judge as judged
from mfrank.models import ALS, Blend, Descent, NeighborRecommender, spread
from mfrank.retrieval import Recommender, Seen, unannounced, without_relevant
from mfrank.tuning.days import Former
from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Setting, Space
from mfrank.tuning.ladder import Outcome
from mfrank.tuning.successive_halving import refit_seconds
from mfrank.tuning.trials import Runner, TrialJudge

# Weights of the parts of a blend: greedy selection with replacement (Caruana et al. 2004).
#
# Weights are small whole numbers: the parts were chosen by the same users, and finer weights would
# fit these users rather than all.


Weights = dict[int, float]
"""Weight of each part, by its number; parts that are not here have none."""

MOST_PARTS = 4
_STEPS = 12
"""Number of steps; each adds one to the weight of a part."""
_LEAST_GAIN = 1.001
"""A part that raises the value by less is not worth its fit."""


def weighed(
    value: Callable[[Weights], float], joining: Callable[[Weights], Sequence[int]]
) -> Weights:
    """Begin with part 0, of weight 1, and repeatedly add weight to the best further part.

    ``joining`` says which parts may get more weight. If none may, or ``value`` runs out of time,
    the weights so far are final.
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


# Scores of several models on the items that any of them ranks high: blends are weighed on these.
#
# A blend's best items are nearly always among the best items of its parts, so weights can be judged
# in hundredths of a second. The blend that is chosen is judged on the whole catalog.


_TIMES_THE_DEPTH = 5
_DEEPEST = 100
_FEWEST = 2
"""Models that are listed even if it is late: one alone makes no blend."""
_USERS_AT_ONCE = 512
_PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Shortlists:
    """Items of U users, and their scores by each model.

    Attributes
    ----------
    items : int32, shape (U, C)
        Distinct within a row, padded with -1.
    scores : list of float32, shape (U, C)
        Scores of each listed model; -inf for padding.
    relevant : CSR
        Held-out items of these users; no row is empty.
    metric : ListMetric
    """

    items: NDArray[np.int32]
    scores: list[NDArray[np.float32]]
    relevant: CSR
    metric: ListMetric

    @classmethod
    def of(
        cls,
        models: Sequence[Recommender],
        judge: TrialJudge,
        is_late: Callable[[], bool] = lambda: False,
    ) -> Self:
        """The best items of each model for the evaluated users, with the scores of all models.

        After the second model, ``is_late`` says whether to leave out the remaining models.
        """
        metric = _by_lists(judge.metric)
        depth = metric.depth(judge.train.n_items) * _TIMES_THE_DEPTH
        users, relevant = judge.users, _held_out(judge)
        seen = without_relevant(
            sp.csr_array(judge.left_out.seen[users]), sp.csr_array(judge.valid.user_items[users])
        )
        lists = list[NDArray[np.int32]]()
        for model in models:
            if len(lists) >= _FEWEST and is_late():
                break
            lists.append(_lists(model, users, seen, depth, judge.n_threads))
        items = np.sort(np.hstack(lists), axis=1)
        items[:, 1:][items[:, 1:] == items[:, :-1]] = -1
        items = -np.sort(-items, axis=1)
        items = items[:, : max(1, int((items >= 0).sum(axis=1).max(initial=0)))]
        row, place = np.nonzero(items >= 0)
        scores = []
        for model in models[: len(lists)]:
            table = np.full(items.shape, -np.inf, np.float32)
            for begin in range(0, len(row), _PAIRS_AT_ONCE):
                part = slice(begin, begin + _PAIRS_AT_ONCE)
                at = row[part], place[part]
                table[at] = model.score(users[row[part]], items[at], by_row=True)
                check_time()
            scores.append(table)
        counts = None
        if isinstance(metric, UnbiasedMetric):
            counts = Seen(judge.left_out.user_items).popularity[:, 0]
        held_out = metric.relevance_of(CSR.from_scipy(relevant, np.float64), counts)
        return cls(items, scores, held_out, metric)

    def value(self, weights: Sequence[float]) -> float:
        """The metric of the lists by the weighted sum of scores.

        An item with score 0 in all models is in no list, as in the blend.
        """
        check_time()
        total = np.where(self.items >= 0, np.float32(0), np.float32(-np.inf))
        linked = np.zeros(total.shape, dtype=bool)
        for weight, scores in zip(weights, self.scores, strict=True):
            if weight:
                total += np.float32(weight) * scores
                linked |= scores != 0
        total[~linked] = -np.inf
        depth = min(self.metric.depth(self.relevant.n_columns), total.shape[1])
        best = np.argpartition(-total, depth - 1, axis=1)[:, :depth]
        order = np.argsort(-np.take_along_axis(total, best, axis=1), axis=1, kind="stable")
        places = np.take_along_axis(best, order, axis=1)
        listed = np.take_along_axis(total, places, axis=1) > -np.inf
        ids = np.where(listed, np.take_along_axis(self.items, places, axis=1), -1)
        lists = judged(ids, self.relevant, self.metric.depth(self.relevant.n_columns))
        shares = self.metric.weights(lists)
        return float(np.average(self.metric.per_user(lists), weights=shares))


def _lists(
    model: Recommender, users: NDArray[np.int64], seen: sp.csr_array, n: int, n_threads: int
) -> NDArray[np.int32]:
    """The best items of each user, -1 behind them."""
    found = []
    for begin in range(0, len(users), _USERS_AT_ONCE):
        part = slice(begin, begin + _USERS_AT_ONCE)
        with unannounced():
            answer = model.recommend(users[part], seen[part], N=n, by_row=True, n_threads=n_threads)
        found.append(answer.ids)
        check_time()
    return np.vstack(found).astype(np.int32)


def _by_lists(metric: Metric) -> ListMetric:
    """The metric, or one that stands in for it if it reads whole rankings."""
    if isinstance(metric, ListMetric) and metric.cutoff is not None and metric.cutoff <= _DEEPEST:
        return metric
    return NDCG @ 20


def _held_out(judge: TrialJudge) -> sp.csr_array:
    """What was held out of the judged users and is not left out of lists."""
    held_out = sp.csr_array(judge.valid.user_items[judge.users] > 0).astype(np.float64)
    known = judge.left_out.user_items[judge.users].astype(bool).astype(np.float64)
    return sp.csr_array(held_out - held_out.multiply(known))


_LISTINGS = 4.0
"""Time that listing, scoring and weighing take for one candidate, in judgments."""
_LISTED_BY = 0.4
"""No further candidate is listed after this share of the time for all that comes before the refits:
scoring what was listed takes as long again, and weighing needs some time, too."""


@dataclass(frozen=True, slots=True)
class BlendPart:
    """A part of a blend.

    Attributes
    ----------
    outcome : Outcome
    weight : float
        Weight of the scores, after those of each part are divided by their
        ``mfrank.models.spread``. The weight of the first part is 1.
    """

    outcome: Outcome
    weight: float = 1.0


def mixed(
    runner: Runner, outcomes: Sequence[Outcome], former: Sequence[Former] = ()
) -> tuple[list[BlendPart], Score | None]:
    """Begin with the best outcome, and add the outcomes that raise the metric most.

    A part is added only if all parts can still be refitted in time. The blend of an earlier search,
    with its weights, is taken if it is better. Also returns the score of the blend; None for a
    single model.
    """
    candidates = _affordable(runner, outcomes)
    first = [BlendPart(candidates[0])]
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
    with suppress(OutOfTimeError):
        earlier = _as_formerly(candidates[: len(models)], former)
        in_time = _in_time(runner, [candidates[each] for each in earlier])
        if len(earlier) > 1 and in_time and value(earlier) > value(chosen):
            chosen = earlier
    if len(chosen) == 1:
        return first, None
    unit = next(iter(chosen.values()))
    parts = [
        BlendPart(candidates[each], float(f"{weight / unit:.3g}"))
        for each, weight in chosen.items()
    ]
    together = blended([models[each] for each in chosen], parts)
    return parts, runner.judge.score(together)


def _as_formerly(candidates: Sequence[Outcome], former: Sequence[Former]) -> Weights:
    """The weights of an earlier search for its settings; none if one of them is no candidate."""
    numbered = reversed(list(enumerate(candidates)))  # so that the best of a setting is the last
    place = {(one.trial.family, one.trial.point): at for at, one in numbered}
    parts = [one for one in former if one.weight is not None]
    found = {place.get((one.trial.family, one.trial.point)): one.weight or 0.0 for one in parts}
    return (
        {at: weight for at, weight in found.items() if at is not None} if None not in found else {}
    )


def blended(models: Sequence[Recommender], parts: Sequence[BlendPart]) -> Blend:
    """The blend of the fitted models of some parts."""
    epochs = [
        part.outcome.epochs if isinstance(model, ALS | Descent) else None
        for model, part in zip(models, parts, strict=True)
    ]
    return Blend.from_models(models, [part.weight for part in parts], epochs)


def _late(runner: Runner, leader: Outcome) -> Callable[[], bool]:
    """Whether no further candidate is listed, because too much of the time from now on is over."""
    refit = refit_seconds(leader)
    enough = refit + (1 - _LISTED_BY) * (runner.budget.left() - refit)
    return lambda: runner.budget.left() < enough


def refit_seconds_of(outcomes: Sequence[Outcome]) -> float:
    """Approximate seconds to fit all of them to all data."""
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


# Which outcomes of a search can take part in a blend.


_OF_A_FAMILY = 3
_GOOD = 0.95
"""A family's second and third take part if they have this share of the best value."""
_TIMES_A_FIT = 2
"""Memory that they may take together, as a multiple of the largest fit's memory."""


def finalists(
    done: Sequence[Outcome], space: Space = SPACE, setting: Setting | None = None
) -> list[Outcome]:
    """The best outcome of each family and, unless there is only one family, further good ones.

    Further outcomes are added, best first, as long as they fit in memory.
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
