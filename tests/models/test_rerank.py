"""What the second stage is told, what it learns, and what its lists promise."""

from __future__ import annotations

import inspect
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, equal
from rerankers import CATBOOST, N_ITEMS, N_USERS, fitted, random_split, small, store_of

import mfrank
from mfrank.models import (
    FEATURES,
    FirstLists,
    HeldOutOfUsers,
    ListedUsers,
    Reranker,
    in_rows_of,
    pair_features,
)
from mfrank.models.reranker import pairs
from mfrank.models.reranker import reranker as reranker_module
from mfrank.retrieval import Recommender
from tests.support.errors import refuses


@pytest.mark.parametrize("has_prior", [False, True])
def test_features_are_what_they_say_pair_by_pair(has_prior: bool) -> None:
    rng = np.random.default_rng(0)
    more = {"item_biases": rng.normal(size=6)}
    if has_prior:
        more["item_prior"] = rng.random(6)
    store = store_of(rng, 4, 6, **more)
    rows = np.array([[5, 0, 2], [1, 4, -1], [3, -1, -1], [-1, -1, -1]])
    scores = np.where(rows >= 0, -np.sort(rng.normal(size=(4, 3))), np.nan)
    asking = ListedUsers(store.user_factors, store.counts.users)
    features = pair_features(store, asking, FirstLists(rows, scores))
    assert features.dtype == np.float32
    expected = []
    for u in range(4):
        listed = [s for s in scores[u] if not math.isnan(s)]
        for place, item in enumerate(rows[u]):
            if item < 0:
                continue
            p, q = store.user_factors[u], store.item_factors[item]
            lengths = math.hypot(*p) * math.hypot(*q)
            spread = np.std(listed)
            share = store.counts.items[item] / store.counts.items.sum()
            expected.append(
                {
                    "score": scores[u, place],
                    "rank": place,
                    "score_in_list": (scores[u, place] - np.mean(listed)) / spread if spread else 0,
                    "user_count": math.log(1 + store.counts.users[u]),
                    "item_count": math.log(1 + store.counts.items[item]),
                    "prior": more["item_prior"][item] if has_prior else share,
                    "cosine": p @ q / lengths if lengths else 0,
                    "user_norm": math.hypot(*p),
                    "item_norm": math.hypot(*q),
                }
            )
    table = [[row[name] for name in FEATURES] for row in expected]
    np.testing.assert_allclose(features, table, rtol=1e-5, atol=1e-7)


def test_features_do_not_see_a_rotation_of_the_factors() -> None:
    """So trees serve another fit of the same scores."""
    rng = np.random.default_rng(1)
    store = store_of(rng, 5, 8)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = replace(
        store, user_factors=store.user_factors @ turn, item_factors=store.item_factors @ turn
    )
    rows = np.argsort(rng.random((5, 8)))[:, :4]
    lists = FirstLists(rows, rng.normal(size=(5, 4)))
    seen = [
        pair_features(s, ListedUsers(s.user_factors, s.counts.users), lists)
        for s in (store, turned)
    ]
    np.testing.assert_allclose(*seen, rtol=1e-5, atol=1e-6)


def test_held_out_items_are_found_by_id_whatever_the_order_of_rows() -> None:
    model = als().fit(random_split().train)
    train = mfrank.Interactions.from_arrays(["u3", "u3", "u7"], ["i1", "i2", "i1"])
    users = ["u7", "u3", "u3", "u3", "stranger", "stranger", "u1", "u7", "u9"]
    items = ["i2", "i2", "i5", "new", "i1", "new", "i9", "i4", "new"]
    valid = mfrank.Interactions.from_arrays(users, items, [1, 1, 1, 1, 1, 1, 1, -1, 1])
    held = HeldOutOfUsers.of(valid, in_rows_of(model.store, train, "train"), model.store)
    of = {"u1": {"i9"}, "u3": {"i5"}, "u7": {"i2"}}
    # i2 of u3 is in train, i4 of u7 is disliked, u9 has no more
    for row, user in enumerate(model.user_ids.raw(held.users)):
        found = held.relevant[[row]].indices
        assert set(model.item_ids.raw(found)) == of.pop(user)
    assert not of
    assert held.unknown == 1  # "new" of u3


def test_a_first_stage_without_factors_is_reranked_by_its_own_scores() -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    knn = mfrank.ItemKNN().fit(split.train)
    seen = in_rows_of(knn.store, split.train, "train")
    held = HeldOutOfUsers.of(split.valid, seen, knn.store)
    given = pairs.GivenFeatures.of(None, None, knn.store)
    features = pairs.training_pairs(knn, 12, seen, held, given, n_threads=1)
    users = knn.user_ids.raw(np.unique(features.users))
    _, scores = knn.recommend(users, N=12)
    np.testing.assert_allclose(features.features[:, 0], scores.ravel(), rtol=1e-6)
    model = small(knn).fit(split.train, split.valid)
    ids, _ = model.recommend(users, N=12)
    first, _ = knn.recommend(users, N=12)
    np.testing.assert_array_equal(np.sort(ids, axis=1), np.sort(first, axis=1))
    rows = split.train
    equal(
        model.recommend(users, rows, 12, recalculate_user=True),
        (ids, model.recommend(users, N=12)[1]),
    )


@pytest.mark.parametrize("at_once", [1, 30, 1 << 18])
def test_training_pairs_are_the_candidates_of_users_with_an_order(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(pairs, "_PAIRS_AT_ONCE", at_once)
    split = random_split()
    model, likes = als().fit(split.train), split.valid.user_items > 0
    seen = in_rows_of(model.store, split.train, "train")
    held = HeldOutOfUsers.of(split.valid, seen, model.store)
    numbers = np.arange(N_USERS)[:, None], np.arange(N_ITEMS)[:, None]
    given = pairs.GivenFeatures.of(*numbers, model.store)
    got = pairs.training_pairs(model, 3, seen, held, given, n_threads=1)
    expected, users_with_likes, found = [], 0, 0
    for user in range(N_USERS):
        ids, _ = model.recommend(user, N=3, by_row=True)
        marks = [bool(likes[user, item]) for item in ids]
        users_with_likes += likes[[user]].nnz > 0
        found += sum(marks)
        if any(marks) and not all(marks):
            expected += [(user, item, mark) for item, mark in zip(ids, marks, strict=True)]
    assert len(expected) > 30
    assert 0 < len({e[0] for e in expected}) < users_with_likes  # some are left out
    assert list(zip(got.users, got.features[:, -1], got.relevant, strict=True)) == expected
    np.testing.assert_array_equal(got.features[:, -2], got.users)
    counted = (users_with_likes, len({e[0] for e in expected}), likes.nnz, found)
    assert got.found == counted


def test_what_only_item_features_tell_is_learned_for_users_never_trained_on() -> None:
    """Interactions of the fit are noise; held-out ones are with six items that a feature marks."""
    pytest.importorskip("catboost", reason=CATBOOST)
    rng = np.random.default_rng(0)
    n_users, n_items = 150, 60
    good = np.zeros(n_items, bool)
    good[rng.permutation(n_items)[:6]] = True
    train = sp.csr_array((rng.random((n_users, n_items)) < 0.2).astype(float))
    later = sp.csr_array((good & (train.toarray() == 0)).astype(float))
    mine, others = np.arange(n_users) < 100, np.arange(n_users) >= 100
    valid, test = (sp.csr_array(later.toarray() * who[:, None]) for who in (mine, others))
    first = als(mfrank.RG2()).fit(train)
    features = np.column_stack([rng.random(n_items), good])
    reranker = small(first, candidates=n_items, iterations=10)
    reranker.fit(train, valid, item_features=features)
    before, after = (
        mfrank.evaluate(model, test, train=train)[mfrank.NDCG @ 10].value
        for model in (first, reranker)
    )
    assert before < 0.35
    assert after > 0.95


def test_lists_hold_the_first_stage_s_candidates_in_the_order_of_the_trees() -> None:
    reranker, split = fitted()
    ids, scores = reranker.recommend(split.train.user_ids.labels, N=12)
    first, _ = reranker.model.recommend(split.train.user_ids.labels, N=12)
    assert scores.shape == (N_USERS, 12)
    np.testing.assert_array_equal(np.sort(ids), np.sort(first))
    assert (np.diff(scores) <= 0).all()
    assert (ids != first).any()
    for row in range(N_USERS):  # ties in the first stage's order
        place = {item: k for k, item in enumerate(first[row])}
        keys = [(-s, place[i]) for i, s in zip(ids[row], scores[row], strict=True)]
        assert keys == sorted(keys)
    shorter = reranker.recommend(split.train.user_ids.labels, N=5)
    equal(shorter, (ids[:, :5], scores[:, :5]))


def test_one_user_rows_and_blocks_get_the_same_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker, _ = fitted()
    many = reranker.recommend(["u4", "u40", "u4"])
    one = reranker.recommend("u40")
    assert one[0].shape == (10,)
    equal(one, (many[0][1], many[1][1]))
    rows, scores = reranker.recommend([4, 40, 4], by_row=True)
    equal((reranker.model.item_ids.raw(rows), scores), many)
    monkeypatch.setattr(pairs, "_PAIRS_AT_ONCE", 1)
    equal(reranker.recommend(["u4", "u40", "u4"]), many)
    nobody = reranker.recommend([])
    assert nobody[0].shape == nobody[1].shape == (0, 10)


def test_filters_and_short_lists_are_those_of_the_first_stage() -> None:
    reranker, split = fitted()
    ids, scores = reranker.recommend("u1", items=["i1", "i2", "i3"], N=5)
    assert set(ids) - {None} <= {"i1", "i2", "i3"} - set(
        split.train.item_ids.raw(split.train.user_items[[1]].indices)
    )
    ended = np.array([i is None for i in ids])
    np.testing.assert_array_equal(ended, np.isnan(scores))
    assert ended[-2:].all()
    everything, _ = reranker.recommend(
        ["u1"], items=["i1", "i2"], N=2, filter_already_liked_items=False
    )
    assert set(everything[0]) == {"i1", "i2"}
    ids, _ = reranker.recommend("u1", filter_items=ids[:1])
    assert len(set(ids)) == 10


@pytest.mark.parametrize("first", [0, 3, -1])
def test_padding_is_that_of_the_first_stage(first: int) -> None:
    """Of row numbers, of other numbers, and of numbers among which is -1."""
    pytest.importorskip("catboost", reason=CATBOOST)
    matrix = random_split(names=False).train.user_items
    ids = np.arange(N_ITEMS) + first
    data = mfrank.Interactions.from_sparse(matrix, item_ids=ids)
    split = mfrank.by_ratio(data, train=0.6, valid=0.4, test=0.0, random_state=0)
    reranker = small(als().fit(split.train)).fit(split.train, split.valid)
    found, scores = reranker.recommend([0, 1], items=ids[[1, 2]], N=3)
    expected, _ = reranker.model.recommend([0, 1], items=ids[[1, 2]], N=3)
    assert found.dtype == expected.dtype == (object if first < 0 else expected.dtype)
    assert [set(row) for row in found.tolist()] == [set(row) for row in expected.tolist()]
    padding = None if first < 0 else -1
    np.testing.assert_array_equal(found == padding, np.isnan(scores))
    assert (found[:, -1] == padding).all()


def test_evaluate_asks_for_rows_even_where_ids_are_other_numbers() -> None:
    """Ids that are whole numbers in another order would else be taken for rows, silently."""
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split(names=False)
    reranker = small(als().fit(split.train)).fit(split.train, split.valid)

    def renamed(data: mfrank.Interactions) -> mfrank.Interactions:
        ids = {"user_ids": np.arange(N_USERS)[::-1], "item_ids": np.arange(N_ITEMS)[::-1]}
        return mfrank.Interactions.from_sparse(data.user_items, **ids)

    train, valid, test = map(renamed, (split.train, split.valid, split.test))
    other = small(als().fit(train)).fit(train, valid)
    assert other.found == reranker.found
    told = [
        mfrank.evaluate(reranker, split.test, train=split.train),
        mfrank.evaluate(other, test, train=train),
        mfrank.evaluate(reranker.model, split.test, train=split.train),
    ]
    values = [result[mfrank.NDCG @ 10].value for result in told]
    assert values[0] == values[1] != values[2]


def test_recommend_is_asked_as_any_model() -> None:
    assert inspect.signature(Reranker.recommend) == inspect.signature(Recommender.recommend)


def test_it_cannot_be_steered() -> None:
    reranker = Reranker(mfrank.ALS(factors=2))
    with refuses(ValueError, "steer"):
        reranker.recommend([0], steer=mfrank.Steering(diversity=0.5))


def test_users_folded_in_are_described_by_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker, split = fitted()
    row = sp.csr_array(split.train.user_items[[7]])
    row.data[:] = 1
    told: list[Any] = []

    def look(trees: Any, features: Any, n_threads: int) -> Any:
        told.append(features)
        return np.arange(len(features), dtype=float)

    monkeypatch.setattr(reranker_module.trees, "scores", look)
    folded = reranker.recommend("u7", split.train, N=12, recalculate_user=True)
    new = reranker.recommend(["somebody"], row, N=12, recalculate_user=True)
    equal((new[0][0], new[1][0]), folded)
    first, _ = reranker.model.recommend("u7", split.train, N=12, recalculate_user=True)
    listed = [item for item in first if item is not None]
    np.testing.assert_array_equal([i for i in folded[0] if i is not None], listed[::-1])
    factors = reranker.model.recalculate_user("u7", split.train)
    for features in told:
        assert len(features) == len(listed)
        columns = dict(zip(FEATURES, features.T, strict=True))
        np.testing.assert_allclose(columns["user_count"], np.log1p(row.nnz), rtol=1e-6)
        np.testing.assert_allclose(columns["user_norm"], np.linalg.norm(factors), rtol=1e-6)


def test_features_of_new_users_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    reranker = small(als().fit(split.train))
    reranker.fit(split.train, split.valid, user_features=np.arange(N_USERS)[:, None])
    told: list[Any] = []

    def look(trees: Any, features: Any, n_threads: int) -> Any:
        told.append(features[:, len(FEATURES)])
        return np.arange(len(features), dtype=float)

    monkeypatch.setattr(reranker_module.trees, "scores", look)
    row = split.train.user_items[[7]]
    reranker.recommend("u7", split.train, recalculate_user=True)
    one = reranker.recommend(["somebody"], row, recalculate_user=True)
    other = reranker.recommend_from_items(split.train.item_ids.raw(row.indices))
    equal((one[0][0], one[1][0]), other)
    assert (told[0] == 7).all()
    assert np.isnan(told[1:]).all()


def test_unknown_users_are_refused_as_by_any_model() -> None:
    reranker, _ = fitted()
    for who in ("stranger", ["u1", "stranger"]):
        messages = []
        for model in (reranker, reranker.model):
            with refuses(ValueError, "userid") as caught:
                model.recommend(who)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_without_catboost_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    split = random_split()
    reranker = small(als().fit(split.train))
    with pytest.raises(ModuleNotFoundError, match=r"pip install mfrank\[rerank\]"):
        reranker.fit(split.train, split.valid)


@pytest.mark.parametrize("loss", ["StochasticRank:metric=NDCG;top=20", "YetiRank", "QueryRMSE"])
def test_the_same_seed_gives_the_same_lists_on_any_number_of_threads(loss: str) -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    model = als().fit(split.train)
    lists = []
    for threads in (1, 2, 3):
        reranker = small(model, loss=loss, n_threads=threads).fit(split.train, split.valid)
        lists.append(reranker.recommend(["u1", "u2"], N=12, n_threads=threads))
    for other in lists[1:]:
        equal(other, lists[0])


def test_the_trees_serve_a_refitted_first_stage() -> None:
    reranker, split = fitted()
    again = als(random_state=5).fit(split.train)
    moved = reranker.over(again)
    assert moved.model is again
    assert reranker.model is not again
    ids, _ = moved.recommend(split.train.user_ids.labels, N=12)
    np.testing.assert_array_equal(
        np.sort(ids), np.sort(again.recommend(split.train.user_ids.labels, N=12)[0])
    )
    described = small(reranker.model).fit(
        split.train, split.valid, item_features=np.ones((N_ITEMS, 1))
    )
    described.over(again)
    other = als().fit(random_split(names=False).train)
    with refuses(ValueError, "model", remedy="fit again"):
        described.over(other)
    described.model = other
    with refuses(ValueError, "model", remedy="fit again"):
        described.recommend(0)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"candidates": 1}, "candidates"),
        ({"candidates": 2.5}, "candidates"),
        ({"iterations": 0}, "iterations"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"depth": 0}, "depth"),
        ({"loss": None}, "loss"),
        ({"random_state": -1}, "random_state"),
        ({"n_threads": -1}, "n_threads"),
        ({"model": "als"}, "model"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], argument: str) -> None:
    model = mfrank.ALS()
    with refuses((TypeError, ValueError), argument):
        small(**({"model": model} | options))
    reranker = small(model)
    with refuses((TypeError, ValueError), argument):
        reranker.set_params(**options)


@pytest.mark.parametrize(
    "options", [{"loss": "NoSuchRank"}, {"loss": "StochasticRank:metric=Beauty"}, {"depth": 40}]
)
def test_what_catboost_refuses_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    reranker = small(als().fit(split.train), **options)
    monkeypatch.setattr(Recommender, "recommend", None)
    with refuses(ValueError, "loss"):
        reranker.fit(split.train, split.valid)


def test_data_that_do_not_belong_to_the_model_are_refused() -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split, foreign = random_split(), random_split(names=False)
    unfitted = small(mfrank.ALS())
    with pytest.raises(mfrank.NotFittedError, match="ALS is not fitted"):
        unfitted.fit(split.train, split.valid)
    reranker = small(als().fit(split.train))
    with pytest.raises(mfrank.NotFittedError, match="Reranker is not fitted"):
        reranker.recommend("u1")
    for train, valid, fault in (
        (foreign.train, split.valid, {"argument": "train"}),
        (split.train, foreign.valid, {"argument": "valid", "remedy": "pass interactions"}),
        (split.train, split.train, {"argument": "valid", "remedy": "pass interactions"}),
        (
            split.train,
            split.valid.user_items[:5],
            {"argument": "valid", "remedy": "pass Interactions"},
        ),
        (np.ones((2, 2)), split.valid, {"argument": "train", "remedy": "convert a dense array"}),
    ):
        with refuses((TypeError, ValueError), **fault):
            reranker.fit(train, valid)
    for features in (
        np.ones((3, 2)),
        np.ones(N_ITEMS),
        np.full((N_ITEMS, 1), 1e300),
        np.full((N_ITEMS, 1), "drama"),
    ):
        with refuses((TypeError, ValueError), "item_features"):
            reranker.fit(split.train, split.valid, item_features=features)


def test_where_no_candidate_is_relevant_there_is_nothing_to_learn() -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    model = als().fit(split.train)
    last = model.recommend("u0", N=N_ITEMS)[0]
    never = [item for item in last if item is not None][-1]
    valid = mfrank.Interactions.from_arrays(["u0"], [never])
    with refuses(ValueError, "candidates"):
        small(model, candidates=2).fit(split.train, valid)


@pytest.mark.parametrize("first_weight", [0.0, 0.5])
def test_behind_the_candidates_lists_go_on_as_the_first_stage_does(first_weight: float) -> None:
    reranker, split = fitted(candidates=5, first_weight=first_weight)
    users = split.train.user_ids.labels
    short, long = (reranker.recommend(users, N=n) for n in (5, N_ITEMS))
    first = reranker.model.recommend(users, N=N_ITEMS)
    np.testing.assert_array_equal(long.ids[:, :5], short.ids)
    np.testing.assert_array_equal(long.ids[:, 5:], first.ids[:, 5:])
    np.testing.assert_array_equal(long.scores[:, :5], short.scores)
    steps = np.diff(long.scores[:, 4:], axis=1)
    assert (steps[~np.isnan(steps)] <= 0).all()
    np.testing.assert_allclose(steps, np.diff(first.scores[:, 4:], axis=1), atol=1e-6)
    alone = reranker.recommend(users[3], N=N_ITEMS)
    equal(alone, (long.ids[3], long.scores[3]))
    few = reranker.recommend(users, N=9, items=first.ids[0, :7].tolist())
    assert (~np.isnan(few.scores)).sum(axis=1).max() == 7
    with refuses(ValueError, "N"):
        reranker.recommend("u1", N=0)
