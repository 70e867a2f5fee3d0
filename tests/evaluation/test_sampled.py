"""The sampled protocol: what is drawn, how it is ranked, and that its bias is named."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import EVERYTHING, Factors, problem

import mfrank
from mfrank import MAP, MRR, NDCG, Recall
from mfrank.arrays import CSR
from mfrank.evaluation import ListMetric, SampledLists
from mfrank.evaluation import evaluate as anywhere
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")
METRICS = (NDCG @ 3, Recall @ 2, MRR, MAP @ 5)


class Scores:
    """A ranker by a matrix of scores."""

    def __init__(self, scores: Any) -> None:
        self.scores = scores

    def of_items(self, users: Any, items: Any) -> Any:
        return np.take_along_axis(self.scores[users], items.astype(np.int64), axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 10), st.integers(1, 14), st.integers(1, 20))
def test_all_relevant_items_are_ranked_and_distinct_others(
    seed: int, n_users: int, n_items: int, negatives: int
) -> None:
    model, train, test = problem(seed, n_users, n_items)
    had, wanted = train.toarray() > 0, test.toarray() > 0
    users = np.flatnonzero(wanted.any(axis=1))
    if not len(users):
        return
    draw = SampledLists(
        Scores(model.scores),  # type: ignore[arg-type]
        CSR.from_scipy(train, None),
        negatives,
        np.random.default_rng(seed),
    )
    lists = draw(users, test[users], n_items)
    for user, ids in zip(users, lists, strict=True):
        ranked = ids[ids >= 0]
        assert (ids[len(ranked) :] == -1).all()
        assert len(set(ranked)) == len(ranked)
        assert set(np.flatnonzero(wanted[user])) <= set(ranked)
        assert not had[user, ranked].any()
        free = n_items - had[user].sum() - wanted[user].sum()
        assert len(ranked) - wanted[user].sum() == min(negatives, free)
        order = sorted(ranked, key=lambda item: (-model.scores[user, item], item))
        assert list(ranked) == order


def test_each_other_item_is_drawn_equally_often() -> None:
    n_users, n_items, negatives = 4000, 12, 4
    had, relevant = np.zeros((2, n_users, n_items))
    had[:, [0, 5]] = relevant[:, [1, 11]] = 1
    train, test = sp.csr_array(had), sp.csr_array(relevant)
    draw = SampledLists(
        Scores(np.zeros((n_users, n_items))),  # type: ignore[arg-type]
        CSR.from_scipy(train, None),
        negatives,
        np.random.default_rng(0),
    )
    lists = draw(np.arange(n_users), test, n_items)
    found = np.bincount(lists[lists >= 0], minlength=n_items)
    others = [2, 3, 4, 6, 7, 8, 9, 10]
    assert found[[0, 5]].sum() == 0
    assert (found[[1, 11]] == n_users).all()
    np.testing.assert_allclose(found[others], n_users / 2, atol=5 * np.sqrt(n_users / 4))
    pairs = np.zeros((n_items, n_items))
    for ids in lists:
        pairs[np.ix_(ids[ids >= 0], ids[ids >= 0])] += 1
    of_two = pairs[np.ix_(others, others)][~np.eye(8, dtype=bool)]
    np.testing.assert_allclose(of_two, n_users * 4 / 8 * 3 / 7, atol=6 * np.sqrt(n_users * 0.17))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
def test_with_all_items_drawn_it_is_the_full_ranking(seed: int, n: int, as_function: bool) -> None:
    model, train, test = problem(seed, n)
    given_: Any = model
    if as_function:

        def given_(users: Any, user_items: Any, N: int) -> Any:
            scores = np.where(user_items.toarray() > 0, -np.inf, model.scores[users])
            ids = np.argsort(-scores, axis=1, kind="stable")[:, :N]
            listed = np.take_along_axis(scores, ids, axis=1)
            return np.where(np.isfinite(listed), ids, -1), listed

    whole = evaluate(given_, test, train=train, metrics=METRICS)
    sampled = evaluate(given_, test, train=train, metrics=METRICS, negatives=9)
    for metric in METRICS:
        np.testing.assert_array_equal(sampled[metric].per_user, whole[metric].per_user)


def test_a_sample_makes_values_higher() -> None:
    data = mfrank.by_ratio(mfrank.synthetic(200, 300, 4000, random_state=0))
    model = mfrank.ALS(factors=8, random_state=0).fit(data.train)
    whole = evaluate(model, data.test)
    sampled = evaluate(model, data.test, negatives=20)
    for metric, score in whole.scores.items():
        assert (sampled[metric].per_user >= score.per_user - 1e-12).all()
        assert sampled[metric].value > 1.5 * score.value


def test_two_models_that_the_sample_puts_in_the_wrong_order() -> None:
    """Krichene & Rendle (2020): A is first for half of the users, B is 40th of 1000 for all."""
    n_users, n_items = 300, 1000
    test = sp.csr_array((np.ones(n_users), (range(n_users), [999] * n_users)))
    test.resize((n_users, n_items))
    train = sp.csr_array((n_users, n_items))

    def ranks(places: Any) -> Factors:
        scores = np.tile(-np.arange(n_items, dtype=float), (n_users, 1))
        scores[:, 999] = 0.5 - np.asarray(places)
        return SimpleNamespace(user_factors=scores, item_factors=np.eye(n_items))  # type: ignore[return-value]

    a, b = ranks(np.where(np.arange(n_users) % 2, 0, 900)), ranks([39] * n_users)
    full = [evaluate(m, test, train=train, metrics=MRR)[MRR].value for m in (a, b)]
    hit = Recall @ 10
    drawn = [evaluate(m, test, train=train, metrics=hit, negatives=99)[hit].value for m in (a, b)]
    assert full[0] > 0.5 > full[1]
    assert drawn[0] < 0.6 < drawn[1]


def test_the_draw_is_the_same_for_all_models_and_blocks() -> None:
    data = mfrank.by_ratio(mfrank.synthetic(200, 300, 4000, random_state=0))
    model = mfrank.ALS(factors=8, random_state=0).fit(data.train)
    by = {
        (size, seed): evaluate(
            model, data.test, negatives=20, batch_size=size, random_state=seed, metrics=METRICS
        )
        for size, seed in [(None, 0), (7, 0), (None, 1)]
    }
    for metric in METRICS:
        first, blocks, other = (each[metric].per_user for each in by.values())
        np.testing.assert_array_equal(first, blocks)
        assert (first != other).any()


def test_the_result_names_the_protocol_and_is_not_compared_with_another() -> None:
    model, train, test = problem(0, 30)
    whole = evaluate(model, test, train=train)
    sampled = evaluate(model, test, train=train, negatives=2, random_state=4)
    assert sampled.protocol == "sampled: 2 negatives, random_state=4"
    assert "may order models otherwise (Krichene & Rendle 2020)" in str(sampled)
    assert "Krichene" in sampled._repr_html_()
    assert sampled.to_dict()["protocol"] == sampled.protocol
    assert "Krichene" not in str(whole)
    with refuses(ValueError, remedy="in the same way"):
        whole.compare(sampled, "ndcg@10")
    with refuses(ValueError, remedy="in the same way"):
        mfrank.paired_differences({"a": whole, "b": sampled}, "ndcg@10")


@pytest.mark.parametrize("negatives", [None, 3])
def test_lists_with_seen_items_are_named_and_not_compared_with_lists_without(
    negatives: int | None,
) -> None:
    """A model that may list what users have had another task than one that may not."""
    model, train, test = problem(0, 30)
    options = {"negatives": negatives}
    without = evaluate(model, test, train=train, **options)
    among = evaluate(model, test, filter_already_liked_items=False, **options)
    assert among.protocol == f"{without.protocol}, seen items among the others"
    assert among.protocol in str(among)
    with refuses(ValueError, remedy="in the same way"):
        without.compare(among, "ndcg@10")
    with refuses(ValueError, remedy="in the same way"):
        mfrank.paired_differences({"a": among, "b": without}, "ndcg@10")
    assert among.compare(among, "ndcg@10").mean == 0


@pytest.mark.parametrize(
    "metric",
    [m for m in EVERYTHING if not isinstance(m, ListMetric) or m.name == "LimitedAUC"]
    + [mfrank.Novelty @ 3],
    ids=str,
)
def test_other_metrics_are_refused(metric: Any) -> None:
    model, train, test = problem()
    with refuses(ValueError, "negatives"):
        evaluate(model, test, train=train, metrics=[NDCG @ 3, metric], negatives=5)


def test_no_negatives_and_too_many_are_refused() -> None:
    model, train, test = problem()
    with refuses(ValueError, "negatives"):
        evaluate(model, test, train=train, negatives=0)
    with refuses(ValueError, "negatives"):
        evaluate(model, test, train=train, negatives=10_001)
    assert evaluate(model, test, train=train, negatives=10_000).n_users > 0
