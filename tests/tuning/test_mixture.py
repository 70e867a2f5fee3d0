"""Blends take what helps, in any units, as far as there is time; the best of each family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.models import spread
from mfrank.tuning import (
    CAUTION,
    BlendPart,
    Budget,
    Facts,
    Outcome,
    Runner,
    Setting,
    Shortlists,
    Space,
    Trial,
    TrialJudge,
    _late,
    finalists,
    mixed,
)
from mfrank.tuning import mixture as module
from mfrank.tuning import named as family

DATA = mfrank.synthetic(300, 80, 6000, random_state=0)
JUDGE = TrialJudge.of(DATA, mfrank.NDCG @ 5, 0, 1)
ALS = mfrank.ALS(factors=6, iterations=3, random_state=0).fit(JUDGE.train)
RG2 = mfrank.ALS(mfrank.RG2(), factors=6, iterations=3, random_state=0).fit(JUDGE.train)
FILTER, EASE = (model.fit(JUDGE.train) for model in (mfrank.ItemFilter(), mfrank.EASE(50.0)))
MODELS = [ALS, RG2, FILTER, EASE]


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
        Trial("EASE", (0.5,) * 4, 0),
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


def halves(unit: float = 1.0) -> dict[Trial, mfrank.Recommender]:
    """Two models that know half of the users each, the second with scores in another unit."""
    rng = np.random.default_rng(0)
    liked = JUDGE.valid.user_items.toarray() > 0
    found = {}
    for half, (kind, number) in enumerate((("IALS", 3), ("SampledSoftmax", 2))):
        knows = (np.arange(len(liked)) % 2 == half)[:, None] & liked
        scores = rng.random(liked.shape) + np.where(knows, 3.0, 0.0)
        store = replace(
            ALS.store,
            user_factors=(scores * (unit if half else 1.0)).astype("f4"),
            item_factors=np.eye(liked.shape[1], dtype="f4"),
        )
        found[Trial(kind, (0.5,) * number, 0)] = mfrank.ALS._from_store(store)
    return found


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_models_that_know_other_users_are_blended_in_any_units(unit: float) -> None:
    models = halves(unit)
    outcomes = [outcome(*each) for each in models.items()]
    best = max(one.value or 0.0 for one in outcomes)
    parts, score = mixed(runner(models), outcomes)
    assert [part.weight for part in parts] == [1.0, 1.0]
    assert score is not None
    assert best < 0.7
    assert score.value > 0.95
    assert {part.outcome.trial for part in parts} == set(models)


def test_one_candidate_is_not_even_fitted() -> None:
    alone = runner({})
    (only,) = [outcome(Trial("IALS", (0.5,) * 3, 0), ALS)]
    assert mixed(alone, [only]) == ([BlendPart(only)], None)
    assert not alone.kept


def test_no_part_is_taken_that_could_not_be_fitted_again_in_time() -> None:
    models = {Trial("IALS", (0.5,) * 3, 0): ALS, Trial("EASE", (0.5,) * 4, 0): EASE}
    outcomes = [outcome(trial, model, 100.0) for trial, model in models.items()]
    parts, _ = mixed(runner(models, seconds=250.0), outcomes)
    assert len(parts) == 1


@pytest.mark.parametrize(("left", "number"), [(35.1, 2), (35.0, 1), (34.9, 1)])
def test_parts_join_while_there_is_time_to_fit_all_of_them_again(
    left: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two refits of 16 seconds, and one and a half times the judgments of two parts."""
    now, real = [0.0], Shortlists.of

    class Listed:
        @staticmethod
        def of(*given: Any) -> Shortlists:
            lists = real(*given)
            now[0] = 1000.0 - left
            return lists

    monkeypatch.setattr(module, "Shortlists", Listed)
    models = halves()
    outcomes = [replace(outcome(*one), fit_seconds=10, judge_seconds=1) for one in models.items()]
    late = replace(runner(models), budget=Budget(1000.0, lambda: now[0]))
    assert len(mixed(late, outcomes)[0]) == number


def test_it_is_late_for_candidates_by_the_refit_of_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, real = [0.0], Shortlists.of
    late = dict[float, bool]()

    class Listed:
        @staticmethod
        def of(models: Any, judge: TrialJudge, is_late: Any) -> Shortlists:
            for now[0] in (30.0, 39.0, 41.0):
                late[now[0]] = is_late()
            return real(models, judge)

    monkeypatch.setattr(module, "Shortlists", Listed)
    models = halves()
    first, second = sorted((outcome(*one) for one in models.items()), key=lambda one: one.value)
    outcomes = [replace(first, fit_seconds=50.0), replace(second, fit_seconds=0.0)]
    mixed(replace(runner(models), budget=Budget(100.0, lambda: now[0])), outcomes)
    assert late == {30.0: False, 39.0: False, 41.0: True}


def candidates(left: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The families that are listed: the best of each ladder, then others."""
    values = {"ItemFilter": 0.2, "RG2": 0.45, "IALS": 0.5, "EASE": 0.0, "SampledSoftmax": 0.3}
    outcomes = [
        Outcome(Trial(family, (0.5,), 0), value, 0.01, 1, 12.0, 10.0, 0.5)
        for family, value in values.items()
    ]
    fitted = list[str]()

    def noted(self: Runner, one: Outcome) -> mfrank.Recommender:
        fitted.append(one.trial.family)
        return ALS

    monkeypatch.setattr(Runner, "fitted", noted)
    mixed(runner({}, seconds=left), outcomes)
    return fitted


def test_the_best_of_each_ladder_is_listed_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert candidates(1e9, monkeypatch) == ["IALS", "SampledSoftmax", "ItemFilter", "EASE", "RG2"]


@pytest.mark.parametrize(
    ("seconds", "number"),
    [(36, 0), (36.1, 2), (54, 2), (54.1, 3), (72, 3), (72.1, 4), (74, 4), (74.1, 5)],
)
def test_as_many_are_listed_as_there_is_time_to_list_and_to_fit_four_again(
    seconds: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each needs 4 judgments of half a second, and each of four parts a refit of 16 seconds."""
    assert len(candidates(seconds, monkeypatch)) == number


@pytest.mark.parametrize("items", [(False, True), (True, False), (True, True)])
def test_a_blend_has_factors_and_may_have_items(
    items: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = halves()
    of_items = [model for model, is_one in zip(models.values(), items, strict=True) if is_one]

    class Kind(type):
        def __instancecheck__(cls, model: object) -> bool:
            return any(model is one for one in of_items)

    monkeypatch.setattr(module, "NeighborRecommender", Kind("OfItems", (), {}))
    parts, _ = mixed(runner(models), [outcome(*each) for each in models.items()])
    assert len(parts) == (1 if all(items) else 2)


def test_a_blend_is_the_weighted_sum_whatever_the_order_of_its_parts() -> None:
    users, items = np.repeat(np.arange(9), 80), np.tile(np.arange(80), 9)
    weights = {FILTER: 1.0, EASE: 2.0, ALS: 0.5}
    wanted = sum(
        weight * model.score(users, items, by_row=True) / spread(model)
        for model, weight in weights.items()
    )
    for models in ([FILTER, EASE, ALS], [ALS, EASE, FILTER]):
        whole = mfrank.Blend.from_models(models, [weights[model] for model in models])
        scores = whole.score(users, items, by_row=True)
        np.testing.assert_allclose(scores / scores.std(), wanted / wanted.std(), rtol=1e-3)


# --- the scale of scores


def scoring(scores: np.ndarray, **ids: Any) -> mfrank.Recommender:
    return mfrank.Recommender.of(mfrank.FactorStore(scores, np.eye(scores.shape[1]), **ids))


def test_a_spread_is_the_mean_deviation_of_the_scores_of_users() -> None:
    scores = np.array([[0.0, 2.0, 0.0, 2.0], [1.0, 1.0, 1.0, 9.0], [3.0, 3.0, 3.0, 3.0]])
    for order in (scores, scores[::-1], scores[:, ::-1]):
        assert spread(scoring(order)) == pytest.approx(scores.std(axis=1).mean())
    assert spread(scoring(np.zeros((3, 4)))) == 1.0  # to divide by
    named = {"user_ids": ["a", "b", "c"], "item_ids": ["w", "x", "y", "z"]}
    assert spread(scoring(scores, **named)) == pytest.approx(scores.std(axis=1).mean())


def test_users_of_a_spread_are_at_equal_distances() -> None:
    """64 of 127 are every second one."""
    scores = np.zeros((127, 2))
    scores[::2, 0] = 2.0
    assert spread(scoring(scores)) == pytest.approx(1.0)
    assert spread(scoring(scores[1:-1])) == pytest.approx(32 / 64, abs=0.1)


# --- who may be in a blend


def good(values: dict[str, tuple[float, ...]]) -> list[Outcome]:
    return [
        Outcome(Trial(family, (0.1 * place, 0.5, 0.5), 0), value)
        for family, some in values.items()
        for place, value in enumerate(some)
    ]


def test_others_of_a_family_have_95_hundredths_of_the_best() -> None:
    two = Space({"ALS": (family("IALS"), family("RG2"))})
    done = good({"IALS": (94.9, 100.0, 95.0), "RG2": (0.0,)})
    assert [one.value for one in finalists(done, two)] == [100.0, 0.0, 95.0]
    one = Space.of_one(family("IALS"))
    assert [each.value for each in finalists(done, one)] == [100.0]
    assert finalists([], two) == []
    many = good({"IALS": (1.0,) * 4, "RG2": (0.5,)})
    assert [each.value for each in finalists(many, two)] == [1.0, 0.5, 1.0, 1.0]
    nothing = good({"IALS": (0.0, 0.5), "RG2": (0.4,)})
    assert [each.value for each in finalists(nothing, two)] == [0.5, 0.4]


def test_candidates_are_listed_early_in_the_time_before_the_refit() -> None:
    now = [0.0]
    slow = replace(runner({}), budget=Budget(100.0, lambda: now[0]))
    is_late = _late(slow, outcome(Trial("IALS", (0.5,) * 3, 0), ALS, 20 / CAUTION))
    late = {}
    for now[0] in (0.0, 31.0, 33.0, 90.0):  # 80 seconds before a refit of 20
        late[now[0]] = is_late()
    assert late == {0.0: False, 31.0: False, 33.0: True, 90.0: True}
    assert not _late(runner({}), outcome(Trial("IALS", (0.5,) * 3, 0), ALS))()
