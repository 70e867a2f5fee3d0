"""Blends are weighed on shortlists as on the whole catalog, and take what helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mfrank
from mfrank.evaluation import ListMetric, Metric
from mfrank.tuning import (
    CAUTION,
    Budget,
    Facts,
    Outcome,
    Runner,
    Setting,
    Shortlists,
    Trial,
    TrialJudge,
    _late,
    blended,
    mixed,
    recommender,
    spread,
)

DATA = mfrank.synthetic(300, 80, 6000, random_state=0)
JUDGE = TrialJudge.of(DATA, mfrank.NDCG @ 5, 0, 1)
ALS = mfrank.ALS(factors=6, iterations=3, random_state=0).fit(JUDGE.train)
RG2 = mfrank.ALS(mfrank.RG2(), factors=6, iterations=3, random_state=0).fit(JUDGE.train)
FILTER, EASE = (model.fit(JUDGE.train) for model in (mfrank.ItemFilter(), mfrank.EASE(50.0)))
MODELS = [ALS, RG2, FILTER, EASE]


@pytest.mark.parametrize("metric", [mfrank.NDCG @ 5, mfrank.Recall @ 20, mfrank.MRR @ 10])
@pytest.mark.parametrize("weights", [(1, 0, 0, 0), (0, 0, 1, 0), (1, 0.5, 0, 0), (1, 2, 0.3, 4)])
def test_a_shortlist_judges_as_the_whole_catalog_does(
    metric: ListMetric, weights: tuple[float, ...]
) -> None:
    judge = replace(JUDGE, metric=metric)
    lists = Shortlists.of(MODELS, judge)
    used = [(model, weight) for model, weight in zip(MODELS, weights, strict=True) if weight]
    value = lists.value([w / spread(m) for m, w in zip(MODELS, weights, strict=True)])
    together = used[0][0]
    if len(used) > 1:
        store = blended([model for model, _ in used], [weight for _, weight in used])
        together = recommender(store)
    assert value == pytest.approx(judge.score(together).value, abs=1e-3)


@pytest.mark.parametrize("metric", [mfrank.AUC, mfrank.NDCG])
def test_metrics_of_whole_rankings_have_a_stand_in(metric: Metric) -> None:
    chosen = metric() if isinstance(metric, type) else metric
    lists = Shortlists.of([ALS, FILTER], replace(JUDGE, metric=chosen))
    assert lists.metric == mfrank.NDCG @ 20
    assert 0 < lists.value([1, 1]) < 1


def runner(models: dict[Trial, mfrank.Recommender], seconds: float | None = None) -> Runner:
    clock = Budget(seconds, lambda: 0.0)
    return Runner(Setting(Facts.of(JUDGE.train), 6, 0, 1), JUDGE, clock, dict(models))


def outcome(trial: Trial, model: mfrank.Recommender, refit: float = 1.0) -> Outcome:
    score = JUDGE.score(model)
    return Outcome(trial, score.value, score.standard_error, 3, refit, refit, 0.01)


def test_a_part_that_tells_nothing_is_left_out() -> None:
    rng = np.random.default_rng(0)
    store = ALS.store
    noise = replace(store, user_factors=rng.normal(size=store.user_factors.shape).astype("f4"))
    models = {
        Trial("IALS", (0.5,) * 3, 0): ALS,
        Trial("SampledSoftmax", (0.5,) * 2, 0): mfrank.Recommender.of(noise),
    }
    parts, score = mixed(runner(models), [outcome(*each) for each in models.items()])
    assert [part.outcome.trial.family for part in parts] == ["IALS"]
    assert score is None


def test_a_blend_is_no_worse_than_its_best_part_and_has_factors() -> None:
    trials = [
        Trial("IALS", (0.5,) * 3, 0),
        Trial("RG2", (0.5,) * 3, 0),
        Trial("ItemFilter", (0.5,) * 2, 0),
        Trial("EASE", (0.5,) * 3, 0),
    ]
    models = dict(zip(trials, MODELS, strict=True))
    outcomes = [outcome(*each) for each in models.items()]
    parts, score = mixed(runner(models), outcomes)
    best = max(one.value or 0.0 for one in outcomes)
    if score is not None:
        assert score.value > best - 1e-3
    assert parts[0].weight == 1.0
    only_items = {trial: models[trial] for trial in trials[2:]}
    alone, score = mixed(runner(only_items), [outcome(*each) for each in only_items.items()])
    assert (len(alone), score) == (1, None)  # a blend needs factors


def test_no_part_is_taken_that_could_not_be_fitted_again_in_time() -> None:
    models = {Trial("IALS", (0.5,) * 3, 0): ALS, Trial("EASE", (0.5,) * 3, 0): EASE}
    outcomes = [outcome(trial, model, 100.0) for trial, model in models.items()]
    parts, _ = mixed(runner(models, seconds=250.0), outcomes)
    assert len(parts) == 1


@pytest.mark.parametrize("listed", [2, 3])
def test_models_for_which_it_is_too_late_are_not_listed(listed: int) -> None:
    asked = iter([*[False] * (listed - 2), *[True] * len(MODELS)])
    lists = Shortlists.of(MODELS, JUDGE, lambda: next(asked))
    alone = Shortlists.of(MODELS[:listed], JUDGE)
    np.testing.assert_array_equal(lists.items, alone.items)
    assert len(lists.scores) == listed
    weights = range(1, listed + 1)
    assert lists.value(weights) == alone.value(weights)


def test_candidates_are_listed_early_in_the_time_before_the_refit() -> None:
    now = [0.0]
    slow = replace(runner({}), budget=Budget(100.0, lambda: now[0]))
    is_late = _late(slow, outcome(Trial("IALS", (0.5,) * 3, 0), ALS, 20 / CAUTION))
    late = {}
    for now[0] in (0.0, 31.0, 33.0, 90.0):  # 80 seconds before a refit of 20
        late[now[0]] = is_late()
    assert late == {0.0: False, 31.0: False, 33.0: True, 90.0: True}
    assert not _late(runner({}), outcome(Trial("IALS", (0.5,) * 3, 0), ALS))()
