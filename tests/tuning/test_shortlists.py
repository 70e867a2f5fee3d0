"""Shortlists: blends are weighed on them as on the whole catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.arrays import CSR, OutOfTimeError, time_limit
from mfrank.evaluation import ListMetric, Metric
from mfrank.models import spread
from mfrank.tuning import Shortlists, TrialJudge
from mfrank.tuning import mixture as module

DATA = mfrank.synthetic(300, 80, 6000, random_state=0)
JUDGE = TrialJudge.of(DATA, mfrank.NDCG @ 5, 0, 1)
MODELS = [
    model.fit(JUDGE.train)
    for model in (
        mfrank.ALS(factors=6, iterations=3, random_state=0),
        mfrank.ALS(mfrank.RG2(), factors=6, iterations=3, random_state=0),
        mfrank.ItemFilter(),
        mfrank.EASE(50.0),
    )
]
ALS, _, FILTER, _ = MODELS


@pytest.mark.parametrize(
    "metric", [mfrank.NDCG @ 5, mfrank.Recall(micro=True) @ 20, mfrank.MRR @ 10]
)
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
        models, shares = zip(*used, strict=True)
        together = mfrank.Blend.from_models(models, shares)
    assert value == pytest.approx(judge.score(together).value, abs=1e-3)


@pytest.mark.parametrize("metric", [mfrank.AUC, mfrank.NDCG])
def test_metrics_of_whole_rankings_have_a_stand_in(metric: Metric) -> None:
    chosen = metric() if isinstance(metric, type) else metric
    lists = Shortlists.of([ALS, FILTER], replace(JUDGE, metric=chosen))
    assert lists.metric == mfrank.NDCG @ 20
    assert 0 < lists.value([1, 1]) < 1


@pytest.mark.parametrize(
    ("metric", "own"), [(mfrank.Recall @ 100, True), (mfrank.Recall @ 101, False)]
)
def test_metrics_of_long_lists_have_one_too(metric: ListMetric, own: bool) -> None:
    lists = Shortlists.of([ALS, FILTER], replace(JUDGE, metric=metric))
    assert lists.metric == (metric if own else mfrank.NDCG @ 20)


def test_what_is_known_of_the_held_out_part_is_not_judged() -> None:
    both = DATA.user_items
    judge = replace(JUDGE, valid=mfrank.Interactions.from_sparse(both))
    lists = Shortlists.of([ALS], judge)
    assert lists.value([1.0]) == pytest.approx(judge.score(ALS).value, abs=1e-3)
    held_out = JUDGE.valid.user_items[JUDGE.users]
    np.testing.assert_array_equal(lists.relevant.indptr, held_out.indptr)


def test_a_shortlist_has_the_best_items_of_all_models_with_all_their_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depth = 5 * 5  # five times what the metric reads
    whole = Shortlists.of(MODELS, JUDGE)
    monkeypatch.setattr(module, "_USERS_AT_ONCE", 7)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 7)
    lists = Shortlists.of(MODELS, JUDGE)
    np.testing.assert_array_equal(lists.items, whole.items)
    np.testing.assert_array_equal(lists.scores, whole.scores)
    users = JUDGE.users
    best = [
        model.recommend(users, JUDGE.train.user_items[users], N=depth, by_row=True).ids
        for model in MODELS
    ]
    for row, items in enumerate(lists.items):
        assert sorted(set(items) - {-1}) == sorted({*np.hstack([ids[row] for ids in best])} - {-1})
        there = items >= 0
        for model, scores in zip(MODELS, lists.scores, strict=True):
            own = model.score(np.full(there.sum(), users[row]), items[there], by_row=True)
            np.testing.assert_allclose(scores[row, there], own, rtol=1e-6)
            assert (scores[row, ~there] == -np.inf).all()


def test_a_shortlist_of_one_user_has_every_item() -> None:
    for user in JUDGE.users[:20]:
        lists = Shortlists.of(MODELS, replace(JUDGE, users=np.array([user])))
        many = Shortlists.of(MODELS, replace(JUDGE, users=np.array([user, *JUDGE.users[20:40]])))
        assert sorted(set(lists.items[0])) == sorted({*many.items[0]} - {-1})


def test_shortlists_take_rows_whatever_their_ids() -> None:
    data = mfrank.synthetic(60, 30, 700, names=True, random_state=0)
    judge = TrialJudge.of(data, mfrank.NDCG @ 5, 0, 1)
    plain = TrialJudge.of(
        mfrank.Interactions.from_sparse(judge.train.user_items),
        mfrank.NDCG @ 5,
        0,
        1,
        mfrank.Interactions.from_sparse(judge.valid.user_items),
    )
    of_each = [Shortlists.of([mfrank.ItemKNN().fit(one.train)], one) for one in (judge, plain)]
    np.testing.assert_array_equal(of_each[0].items, of_each[1].items)
    np.testing.assert_array_equal(of_each[0].scores, of_each[1].scores)


def by_hand(items: list[list[int]], scores: list[Any], relevant: list[int], k: int) -> Shortlists:
    """Of users who have one relevant item each."""
    n_items = 1 + max(map(max, items))
    held_out = sp.csr_array(
        (np.ones(len(items)), (np.arange(len(items)), relevant)), (len(items), n_items)
    )
    tables = [np.asarray(table, dtype=np.float32) for table in scores]
    return Shortlists(
        np.array(items, dtype=np.int32),
        tables,
        CSR.from_scipy(held_out, np.float64),
        mfrank.NDCG @ k,
    )


def test_lists_are_those_of_the_highest_weighted_sums() -> None:
    rng = np.random.default_rng(0)
    n_users, n_items, k = 60, 400, 7
    one, other = rng.normal(size=(2, n_users, n_items)).astype(np.float32)
    total = one + np.float32(0.5) * other
    ranked = np.argsort(-total, axis=1)
    places = np.arange(n_users) % 10  # the first seven are listed
    relevant = ranked[np.arange(n_users), places].tolist()
    lists = by_hand([[*range(n_items)]] * n_users, [one, other], relevant, k)
    gains = np.where(places < k, 1 / np.log2(places + 2), 0.0)
    assert lists.value([1.0, 0.5]) == pytest.approx(gains.mean())


def test_items_that_no_model_links_to_a_user_are_in_no_list() -> None:
    scores = [[[0.0, 1.0, -np.inf]], [[0.0, 0.0, -np.inf]]]
    for item, value in ((0, 0.0), (1, 1.0)):
        lists = by_hand([[0, 1, -1]], scores, [item], 2)
        assert lists.value([1.0, 1.0]) == value
        assert lists.value([0.0, 1.0]) == 0.0  # the second alone has neither


class Late:
    """A model in whose lists, or scores, the time runs out."""

    def __init__(self, now: list[float], of: str) -> None:
        self.now, self.of, self.scored = now, of, 0

    def recommend(self, *given: Any, **options: Any) -> Any:
        self.now[0] += 10.0 * (self.of == "lists")
        return ALS.recommend(*given, **options)

    def score(self, *given: Any, **options: Any) -> Any:
        self.now[0] += 10.0 * (self.of == "scores")
        self.scored += 1
        return ALS.score(*given, **options)


@pytest.mark.parametrize("of", ["lists", "scores"])
def test_shortlists_are_given_up_as_soon_as_the_time_is_over(of: str) -> None:
    now = [0.0]
    model: Any = Late(now, of)
    with time_limit(5.0, lambda: now[0]), pytest.raises(OutOfTimeError):
        Shortlists.of([model], JUDGE)
    assert model.scored == (of == "scores")
    lists = Shortlists.of([ALS], JUDGE)
    with time_limit(0.0), pytest.raises(OutOfTimeError):
        lists.value([1.0])


@pytest.mark.parametrize("listed", [2, 3])
def test_models_for_which_it_is_too_late_are_not_listed(listed: int) -> None:
    asked = iter([*[False] * (listed - 2), *[True] * len(MODELS)])
    lists = Shortlists.of(MODELS, JUDGE, lambda: next(asked))
    alone = Shortlists.of(MODELS[:listed], JUDGE)
    np.testing.assert_array_equal(lists.items, alone.items)
    assert len(lists.scores) == listed
    weights = range(1, listed + 1)
    assert lists.value(weights) == alone.value(weights)
