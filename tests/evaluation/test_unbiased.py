"""Recall and NDCG under propensities, as their equations have them, by every door."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import Dense, problem, ranked

import mfrank
from mfrank import NDCG, Groups, Recall, UnbiasedNDCG, UnbiasedRecall
from mfrank.evaluation import evaluate as anywhere
from mfrank.evaluation import metric
from mfrank.tuning import Shortlists, TrialJudge
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")
BOTH = (UnbiasedRecall @ 4, UnbiasedNDCG @ 4)


def reference(items: list[int], relevant: set[int], counts: Dense, e: float) -> tuple[float, float]:
    """Recall and NDCG of a list, by a loop over the items."""

    def weight(item: int) -> float:
        return 1 / max(counts[item], 1) ** e

    def dcg(gains: list[float]) -> float:
        return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))

    hits = [weight(item) if item in relevant else 0.0 for item in items]
    ideal = sorted(map(weight, relevant), reverse=True)[: len(items)]
    return sum(hits) / sum(map(weight, relevant)), dcg(hits) / dcg(ideal)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 14),
    st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0]),
    st.sampled_from([None, 1, 3]),
)
def test_by_the_equations(
    seed: int, n_users: int, n_items: int, k: int, e: float, size: int | None
) -> None:
    model, train, test = problem(seed, n_users, n_items)
    recall, ndcg = UnbiasedRecall(exponent=e) @ k, UnbiasedNDCG(exponent=e) @ k
    whole = UnbiasedNDCG(exponent=e)
    found = evaluate(model, test, train=train, metrics=(recall, ndcg, whole), batch_size=size)
    counts = train.toarray().sum(axis=0)
    for place, user in enumerate(found.users):
        items = ranked(model.scores[user], train.toarray()[user] > 0)
        relevant = {int(i) for i in np.flatnonzero(test.toarray()[user]) if i in items}
        expected = reference(items[:k], relevant, counts, e)
        mean = np.mean([1 / max(counts[item], 1) ** e for item in relevant])
        assert found[recall].weights[place] == pytest.approx(mean)
        # The ideal list is as long as the cutoff, whatever the catalog has.
        assert found[recall].per_user[place] == pytest.approx(expected[0], abs=1e-12)
        if len(items) >= k or len(relevant) <= len(items):
            assert found[ndcg].per_user[place] == pytest.approx(expected[1], abs=1e-12)
        assert found[whole].per_user[place] == pytest.approx(
            reference(items, relevant, counts, e)[1], abs=1e-12
        )


@pytest.mark.parametrize(
    "pair", [(UnbiasedRecall, Recall), (UnbiasedNDCG, NDCG)], ids=lambda pair: pair[1].name
)
def test_exponent_0_is_the_plain_metric_to_the_bit(pair: Any) -> None:
    model, train, test = problem(3, 40, 30)
    unbiased, plain = pair[0](exponent=0) @ 5, pair[1] @ 5
    found = evaluate(model, test, train=train, metrics=[unbiased, plain])
    np.testing.assert_array_equal(found[unbiased].per_user, found[plain].per_user)
    assert found[unbiased].value == found[plain].value


def test_an_item_that_many_have_counts_less() -> None:
    train = np.zeros((5, 3))
    train[1:, 0] = 1  # item 0 has four users, item 1 none
    test = sp.csr_array(([1.0, 1.0], ([0, 0], [0, 1])), shape=train.shape)

    def popular_first(users: Any, user_items: Any, N: int) -> Any:
        return np.tile(np.arange(3)[:N], (len(users), 1)), np.zeros((len(users), min(N, 3)))

    for e, expected in ((0.0, 1 / 2), (0.5, 1 / 3), (1.0, 1 / 5)):
        of = UnbiasedRecall(exponent=e) @ 1
        found = evaluate(popular_first, test, train=sp.csr_array(train), metrics=of)
        assert found[of].value == pytest.approx(expected)


def test_users_of_one_rare_item_count_more() -> None:
    """Where each user has one test item, as in leave one out, the rarity of it weighs users."""
    train = np.zeros((6, 3))
    train[2:, 0] = 1  # item 0 has four users
    train[5, 1] = 1
    test = sp.csr_array(([1.0, 1.0], ([0, 1], [0, 1])), shape=train.shape)

    def popular(users: Any, user_items: Any, N: int) -> Any:
        return np.zeros((len(users), 1), np.int32), np.ones((len(users), 1))

    for of in (UnbiasedRecall @ 1, UnbiasedNDCG @ 1):
        found = evaluate(popular, test, train=sp.csr_array(train), metrics=of)
        assert found[of].value == pytest.approx((1 / 2) / (1 / 2 + 1))
        assert found.to_dict()["metrics"][str(of)]["value"] < 0.5


@pytest.mark.parametrize("one", BOTH, ids=str)
@pytest.mark.parametrize("exponent", [0.5, 1, 0.25, 2.0])
def test_it_is_read_as_it_is_printed(one: Any, exponent: float) -> None:
    of = one(exponent=exponent)
    assert metric(str(of)) == of == metric(str(of).lower().replace("unbiased", "unbiased_"))
    assert ("exponent" in str(of)) == (exponent != 0.5)


@pytest.mark.parametrize("exponent", [-1, 5, math.nan, math.inf, "half", None, True, [1]])
def test_other_exponents_are_refused(exponent: Any) -> None:
    with refuses(ValueError, "exponent"):
        UnbiasedRecall(exponent=exponent)
    with pytest.raises(ValueError, match="exponent"):
        metric(f"unbiased_ndcg(exponent={exponent})@3")


@pytest.fixture(scope="module")
def split() -> mfrank.Split:
    return mfrank.by_ratio(mfrank.synthetic(80, 40, 1600, random_state=0), random_state=0)


@pytest.fixture(scope="module")
def model(split: mfrank.Split) -> Any:
    return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(split.train)


def test_all_forms_of_the_training_data_give_the_same(
    split: Any, model: Any, tmp_path: Any
) -> None:
    """Given, held by a model, saved with it, or beside factors of another library."""
    test = split.test.user_items
    bare = SimpleNamespace(user_factors=model.user_factors, item_factors=model.item_factors)
    model.save(tmp_path / "model")
    found = [
        evaluate(model, split.test, metrics=BOTH),
        evaluate(model, split.test, metrics=BOTH, train=split.train),
        evaluate(bare, test, metrics=BOTH, train=split.train.to_scipy()),
        evaluate(mfrank.load(tmp_path / "model"), split.test, metrics=BOTH),
        evaluate(model, split.test, metrics=BOTH, item_groups=Groups.of(["all"] * 40)),
        evaluate(model, split.test, metrics=BOTH, cluster=2),
        evaluate(model, split.test, metrics=BOTH, steer=mfrank.Steering()),
    ]
    for each in found:
        for of in BOTH:
            np.testing.assert_array_equal(each[of].per_user, found[0][of].per_user)
    by_group = found[4].by_item_group["all"]
    assert by_group[BOTH[0]].value == found[0][BOTH[0]].value
    compared = mfrank.compare(
        split, models={"m": mfrank.Popularity()}, metrics=BOTH, repeats=1, peak_memory=False
    )
    popular = evaluate(mfrank.Popularity().fit(split.train), split.test, metrics=BOTH)
    assert compared["m"].evaluation[BOTH[0]].value == popular[BOTH[0]].value


def test_it_stops_a_fit_and_chooses_a_model(split: Any) -> None:
    fit = mfrank.ALS(factors=4, iterations=4, random_state=0)
    fit.fit(split.train, stopping=mfrank.EarlyStopping(split.valid, "unbiased_recall@5"))
    told = evaluate(fit, split.valid, metrics="unbiased_recall@5", train=split.train)
    values = [epoch["valid"] for epoch in fit.history]
    assert max(values) == pytest.approx(told["unbiased_recall@5"].value)
    found = mfrank.tune(split.train, trials=2, factors=4, metric="unbiased_ndcg@5")
    assert found.leaderboard[0]["metric"] == "UnbiasedNDCG@5"


@pytest.mark.parametrize("of", BOTH, ids=str)
def test_a_blend_is_chosen_by_the_same_numbers(split: Any, of: Any) -> None:
    judge = TrialJudge.of(split.train, of, 0, 1)
    fitted = [mfrank.Popularity().fit(judge.train), mfrank.ItemKNN().fit(judge.train)]
    lists = Shortlists.of(fitted, judge)
    for weights, alone in (([1.0, 0.0], fitted[0]), ([0.0, 1.0], fitted[1])):
        assert lists.value(weights) == pytest.approx(judge.score(alone).value)


def test_folded_in_users_are_weighed_by_the_fit() -> None:
    data = mfrank.synthetic(120, 60, 2400, random_state=0)
    split = mfrank.held_out_users(data, test=30, valid=10, fold_in=0.7)
    model = mfrank.ItemKNN().fit(split.train)
    found = evaluate(model, split.test, metrics=BOTH)
    expected = np.bincount(split.train.user_items.indices, minlength=60)
    np.testing.assert_array_equal(found.item_counts, expected)


def test_without_training_data_it_is_refused_and_so_is_a_comparison_of_others() -> None:
    model, train, test = problem(4)
    options: dict[str, Any] = {"metrics": BOTH, "filter_already_liked_items": False}
    with refuses(ValueError, "train", remedy="without"):
        evaluate(model, test, **options)
    one = evaluate(model, test, train=train, metrics=[*BOTH, "recall@4"])
    more = train.toarray()
    more[:, 0] = np.maximum(more[:, 0], test.toarray()[:, 0] == 0)
    other = evaluate(model, test, train=sp.csr_array(more), metrics=[*BOTH, "recall@4"])
    assert one.compare(other, "recall@4").n_users == one.n_users
    with refuses(ValueError, "metric", remedy="train"):
        one.compare(other, BOTH[0])
    judged = mfrank.Judged(np.ones((4, 1)), [0, 1, 0, 1], [0, 0, 1, 1])
    with refuses(TypeError, "metrics"):
        mfrank.evaluate_queries(judged, np.arange(4.0), BOTH[0])
