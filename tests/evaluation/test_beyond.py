"""Novelty, intra-list similarity, serendipity and miscalibration, as their equations have them."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import Dense, Factors, problem

import mfrank
from mfrank import Groups, IntraListSimilarity, Miscalibration, Novelty, Serendipity
from mfrank.evaluation import evaluate as anywhere
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")
K = 3
BEYOND = (Novelty @ K, IntraListSimilarity @ K, Serendipity @ K, Miscalibration @ K)


def listed(model: Factors, seen: Dense, user: int, k: int) -> list[int]:
    order = np.argsort(-model.scores[user], kind="stable")
    return [int(item) for item in order if not seen[user, item]][:k]


def novelty(items: list[int], train: Dense) -> float:
    n = train.any(axis=1).sum()
    return float(np.mean([-math.log2(max(train[:, i].sum(), 1) / max(n, 1)) for i in items]))


def similarity(items: list[int], train: Dense) -> float:
    cosines = []
    for i, j in combinations(items, 2):
        norms = np.linalg.norm(train[:, i]) * np.linalg.norm(train[:, j])
        cosines.append(float(train[:, i] @ train[:, j]) / norms if norms else 0.0)
    return float(np.mean(cosines)) if cosines else 0.0


def serendipity(items: list[int], train: Dense, user: int, relevant: Dense, k: int) -> float:
    popular = np.argsort(-train.sum(axis=0), kind="stable")
    primitive = [item for item in popular if not train[user, item]][:k]
    return sum(relevant[user, i] > 0 and i not in primitive for i in items) / k


def divergence(items: list[int], train: Dense, user: int, groups: Groups) -> float | None:
    def shares(rows: Any) -> Dense | None:
        own = [groups.of_rows[i] for i in rows if groups.of_rows[i] >= 0]
        return np.bincount(own, minlength=len(groups.names)) / len(own) if own else None

    p, q = shares(np.flatnonzero(train[user])), shares(items)
    if p is None or q is None:
        return None
    return sum(a * math.log(a / (0.99 * b + 0.01 * a)) for a, b in zip(p, q, strict=True) if a > 0)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from([None, 1, 3]),
)
def test_by_the_equations(
    seed: int, n_users: int, n_items: int, k: int, batch_size: int | None
) -> None:
    model, train, test = problem(seed, n_users, n_items)
    groups = Groups.of(["a", None, *"bcabcabcabc"][:n_items])
    metrics = (Novelty @ k, IntraListSimilarity @ k, Serendipity @ k, Miscalibration @ k)
    result = evaluate(
        model, test, train=train, metrics=metrics, item_groups=groups, batch_size=batch_size
    )
    had, wanted = train.toarray(), test.toarray()
    for place, user in enumerate(result.users):
        items = listed(model, had, user, k)
        found = [result[metric].per_user[place] for metric in metrics]
        assert found[0] == pytest.approx(novelty(items, had), abs=1e-12)
        assert found[1] == pytest.approx(similarity(items, had), abs=1e-6)
        assert result[metrics[1]].weights[place] == (len(items) > 1)
        assert found[2] == pytest.approx(serendipity(items, had, user, wanted, k))
        kl = divergence(items, had, user, groups)
        assert found[3] == pytest.approx(kl or 0.0, abs=1e-12)
        assert result[metrics[3]].weights[place] == (kl is not None)


def test_lists_are_scored_alike_however_they_are_portioned(monkeypatch: pytest.MonkeyPatch) -> None:
    model, train, test = problem(1, 60, 40)
    options: dict[str, Any] = {"train": train, "metrics": [*BEYOND, "auc", "novelty@9"]}
    whole = evaluate(model, test, **options)
    monkeypatch.setattr("mfrank.evaluation.inputs._ENTRIES_AT_ONCE", 20)
    monkeypatch.setattr("mfrank.evaluation.inputs._CELLS_AT_ONCE", 100)
    monkeypatch.setattr("mfrank.evaluation.tally._CELLS_AT_ONCE", 40)
    monkeypatch.setattr("mfrank.evaluation.inputs._TEST_ENTRIES_AT_ONCE", 30)
    for batch_size in (None, 7):
        parts = evaluate(model, test, batch_size=batch_size, **options)
        for metric, score in whole.scores.items():
            np.testing.assert_allclose(parts[metric].per_user, score.per_user, atol=1e-7)


def test_lists_that_end_early_are_scored_alike_beside_longer_ones() -> None:
    """A function may return lists only as wide as it must, which differ between calls."""
    _, train, test = problem(1, 30, 12)
    rng = np.random.default_rng(0)
    ids = rng.permuted(np.tile(np.arange(12), (30, 1)), axis=1)
    ids[np.arange(12) >= rng.integers(1, 7, 30)[:, None]] = -1

    def padded(users: Any, user_items: Any, N: int) -> Any:
        return ids[users, :N], np.zeros((len(users), N))

    def narrow(users: Any, user_items: Any, N: int) -> Any:
        width = (ids[users, :N] >= 0).any(axis=0).sum()
        return ids[users, :width], np.zeros((len(users), width))

    metrics = [type(metric)() @ 8 for metric in BEYOND]
    options: dict[str, Any] = {"train": train, "metrics": metrics}
    whole = evaluate(padded, test, **options)
    for function, size in ((padded, 1), (narrow, 1), (narrow, 4)):
        found = evaluate(function, test, batch_size=size, **options)
        for metric, score in whole.scores.items():
            np.testing.assert_allclose(found[metric].per_user, score.per_user, atol=1e-7)
            np.testing.assert_array_equal(found[metric].weights, score.weights)


def world(lists: list[list[int]], test: list[int], train: Dense) -> tuple[Any, Any, Any]:
    """A model with these lists, a test item for each user, and training data."""

    def recommend(users: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        ids = np.array([lists[user][:N] for user in users])
        return ids, np.zeros(ids.shape)

    wanted = sp.csr_array((np.ones(len(test)), (np.arange(len(test)), test)), shape=train.shape)
    return recommend, wanted, sp.csr_array(train)


def test_what_everybody_had_is_no_surprise_and_what_one_of_eight_had_is_three_bits() -> None:
    train = np.zeros((9, 4))
    train[:8, 0] = 1
    train[0, 1] = 1
    recommend, test, seen = world([[1, 2, 3]] * 8 + [[0, 1, 2]], [3] * 9, train)
    found = evaluate(recommend, test, train=seen, metrics=Novelty @ 1)[Novelty @ 1].per_user
    np.testing.assert_allclose(found, [3.0] * 8 + [0.0])


def test_items_of_the_same_users_are_alike_and_of_others_are_not() -> None:
    train = np.zeros((6, 5))
    train[:3, [0, 1]] = 1
    train[3:5, 2] = 1
    lists = [[3, 4, 2]] * 5 + [[0, 1, 2]]
    recommend, test, seen = world(lists, [3] * 6, train)
    both, three = IntraListSimilarity @ 2, IntraListSimilarity @ 3
    found = evaluate(recommend, test, train=seen, metrics=[both, three])
    assert found[both].per_user[5] == pytest.approx(1)
    assert found[three].per_user[5] == pytest.approx(1 / 3)
    assert found[both].per_user[0] == 0  # nobody had items 3 and 4


def test_the_most_popular_items_are_never_serendipitous() -> None:
    data = mfrank.by_ratio(mfrank.synthetic(80, 40, 900, random_state=0))
    model = mfrank.Popularity().fit(data.train)
    found = evaluate(model, data.test, metrics=["serendipity@5", "precision@5"])
    assert found["serendipity@5"].value == 0
    assert found["precision@5"].value > 0
    best = evaluate(mfrank.ALS(factors=8, random_state=0).fit(data.train), data.test,
                    metrics=["serendipity@5", "precision@5"])  # fmt: skip
    assert (best["serendipity@5"].per_user <= best["precision@5"].per_user).all()


def test_a_list_like_the_history_is_calibrated_and_one_without_its_genre_is_not() -> None:
    train = np.zeros((3, 8))
    train[:, [0, 4]] = 1
    genres = Groups.of(["war", "war", "war", "war", "love", "love", "love", "love"])
    recommend, test, seen = world([[1, 5], [1, 2], [5, 1]], [3] * 3, train)
    metric = Miscalibration @ 2
    found = evaluate(recommend, test, train=seen, metrics=metric, item_groups=genres)[metric]
    alike, one_sided, other_order = found.per_user
    assert alike == other_order == pytest.approx(0)
    # p = (1/2, 1/2), q = (1, 0)
    assert one_sided == pytest.approx(0.5 * math.log(0.5 / 0.995) + 0.5 * math.log(0.5 / 0.005))


def test_without_exclusion_the_models_own_data_tell_what_is_known() -> None:
    data = mfrank.by_ratio(mfrank.synthetic(60, 30, 600, random_state=0))
    model = mfrank.ALS(factors=4, random_state=0).fit(data.train)
    whole = evaluate(model, data.test, metrics=BEYOND, filter_already_liked_items=False)
    popular = np.argsort(-data.train.counts.items, kind="stable")[:K]
    factors = Factors(model.user_factors, model.item_factors)
    lists = [listed(factors, np.zeros((60, 30)), user, K) for user in whole.users]
    wanted = data.test.user_items.toarray()
    expected = [
        sum(wanted[user, i] > 0 and i not in popular for i in items) / K
        for user, items in zip(whole.users, lists, strict=True)
    ]
    np.testing.assert_allclose(whole[Serendipity @ K].per_user, expected)
    with refuses(ValueError, "filter_already_liked_items", remedy="pass train"):
        evaluate(model.store, data.test, metrics=Novelty @ 3, filter_already_liked_items=False)


def test_groups_are_thirds_by_popularity_unless_given() -> None:
    model, train, test = problem(5, 60, 30)
    own, thirds, fourths = (
        evaluate(model, test, train=train, metrics="miscalibration@5", item_groups=groups)
        for groups in (None, mfrank.by_popularity(train), mfrank.by_popularity(train, 4))
    )
    metric = Miscalibration @ 5
    np.testing.assert_array_equal(own[metric].per_user, thirds[metric].per_user)
    assert (own[metric].per_user != fourths[metric].per_user).any()


def test_rows_of_other_data_than_the_fit_s_are_refused() -> None:
    _, train, test = problem()
    model = mfrank.ALS(factors=2, iterations=1).fit(train)
    with refuses(ValueError, "test"):
        evaluate(model, test[:5], metrics=BEYOND, filter_already_liked_items=False)


@pytest.mark.parametrize("metric", BEYOND, ids=str)
def test_each_needs_a_cutoff(metric: Any) -> None:
    model, train, test = problem()
    with refuses(ValueError, remedy=f"write {metric.name} @ 10"):
        evaluate(model, test, train=train, metrics=type(metric)())


def test_names_may_have_underscores() -> None:
    model, train, test = problem()
    names = ["intra_list_similarity@3", "Novelty@3", "serendipity@3", "miscalibration@3"]
    found = evaluate(model, test, train=train, metrics=names)
    assert [str(metric) for metric in found.scores] == [
        "IntraListSimilarity@3", "Novelty@3", "Serendipity@3", "Miscalibration@3",
    ]  # fmt: skip


def test_nobody_to_evaluate_is_no_number() -> None:
    model, train, test = problem()
    found = evaluate(model, sp.csr_array(test.shape), train=train, metrics=BEYOND)
    assert all(math.isnan(score.value) for score in found.scores.values())


def test_models_are_compared_by_them() -> None:
    model, train, test = problem(2, 40, 20)
    other = problem(3, 40, 20)[0]
    pair = {"a": evaluate(model, test, train=train, metrics=BEYOND)}
    pair["b"] = evaluate(other, test, train=train, metrics=BEYOND)
    for metric in BEYOND:
        assert mfrank.paired_differences(pair, metric, samples=100)["b"].n_users > 30
