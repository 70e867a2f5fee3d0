"""Who has nothing to go by has an empty list or popular items, from every model and every call.

Items that nobody met are in no list.
"""

from __future__ import annotations

import csv
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from emulated_gpu import DeviceArray, EmulatedGPU
from rerankers import fitted as fitted_reranker
from strangers import COLD_ITEMS, EVERY, N_ITEMS, N_USERS, WITH, WITHOUT, model, popular, train

import mfrank
from mfrank.retrieval import RowScorer, recommend
from tests.support.errors import refuses

COLD = ["u00", "u13", "u29"]
UNMET = {f"i{row:02}" for row in COLD_ITEMS}
MET = {f"i{row:02}" for row in range(N_ITEMS)} - UNMET


def is_empty(lists: Any) -> bool:
    ids, scores = lists
    return bool(np.isin(ids, [None, -1]).all() and np.isnan(scores).all())


def had(user: str) -> set[str]:
    row = int(user[1:])
    return {f"i{item:02}" for item in train().user_items[[row]].indices}


@pytest.mark.parametrize("name", WITHOUT)
def test_who_has_nothing_has_no_list(name: str) -> None:
    asked = ["u05", *COLD, "u06"]
    lists = model(name).recommend(asked, N=6)
    assert is_empty([part[1:4] for part in lists])
    assert is_empty(model(name).recommend("u00", N=3, items=["i01", "i00"]))
    for place, user in ((0, "u05"), (4, "u06")):  # the others are as they would be alone
        alone = model(name).recommend(user, N=6)
        np.testing.assert_array_equal(lists.ids[place], alone.ids)
        np.testing.assert_array_equal(lists.scores[place], alone.scores)


@pytest.mark.parametrize("name", WITH)
def test_who_has_nothing_is_ranked_by_what_a_model_knows_all_the_same(name: str) -> None:
    ids, scores = model(name).recommend(COLD, N=N_ITEMS)
    assert {*ids[0]} - {None} == MET
    listed = scores[0, : len(MET)]
    assert len(np.unique(listed)) > len(MET) // 2
    np.testing.assert_array_equal(
        model(name).recommend(COLD, N=N_ITEMS, fallback="popularity").ids, ids
    )


@pytest.mark.parametrize("name", EVERY)
def test_items_of_nobody_are_in_no_list(name: str) -> None:
    everyone = train().user_ids.labels
    for options in (
        {"filter_already_liked_items": False},
        {"filter_items": ["i03"], "fallback": "popularity"},
        {"items": [*UNMET, "i05", "i06"]},
        {"steer": mfrank.Steering(boosts={"i00": 50.0, "i19": 50.0})},
    ):
        ids, scores = model(name).recommend(everyone, N=N_ITEMS, **options)
        assert not UNMET & set(ids.ravel())
        np.testing.assert_array_equal(np.equal(ids, None), np.isnan(scores))
    ids, _ = model(name).recommend("u05", N=N_ITEMS)
    assert set(ids) - {None} == MET - had("u05")


@pytest.mark.parametrize("name", EVERY)
def test_what_is_left_are_the_lists_of_all_items(name: str) -> None:
    """Bit by bit, by a kernel that knows of no unmet items."""
    of = model(name)
    if isinstance(of, RowScorer):
        return
    store, rows = of.store, np.setdiff1d(np.arange(N_USERS), [int(user[1:]) for user in COLD])
    plain = recommend(
        store.user_factors[rows], store.item_factors, n=N_ITEMS, item_bias=store.item_biases
    )
    got = of.recommend(rows, N=N_ITEMS, filter_already_liked_items=False, by_row=True)
    for ids, scores, all_ids, all_scores in zip(*got, *plain, strict=True):
        kept = ~np.isin(all_ids, COLD_ITEMS)
        assert ids[: kept.sum()].tolist() == all_ids[kept].tolist()
        if store.user_biases is None:
            np.testing.assert_array_equal(scores[: kept.sum()], all_scores[kept])


def test_popular_is_what_many_users_like_however_much() -> None:
    """The last item is only seen."""
    rows = [("a", "x", 0.5), ("a", "y", 2), ("b", "x", 0.5), ("b", "z", 0), ("c", "x", 3)]
    users, items, values = zip(*rows, ("d", "z", 0), strict=True)
    data = mfrank.Interactions.from_arrays(users, items, values)
    of = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1).fit(data)
    ids, scores = of.recommend("d", N=3, fallback="popularity")
    assert (ids.tolist(), scores[:2].tolist()) == (["x", "y", None], [3, 1])


@pytest.mark.parametrize("name", WITHOUT)
def test_popular_items_on_request(name: str) -> None:
    of, counts = model(name), np.diff(train().item_users.indptr)
    ids, scores = of.recommend(["u05", "u00", "u13"], N=N_ITEMS, fallback="popularity")
    expected = popular()
    for place in (1, 2):
        assert [each for each in ids[place] if each is not None] == expected
        assert scores[place, : len(expected)].tolist() == sorted(counts[counts > 0])[::-1]
        assert np.isnan(scores[place, len(expected) :]).all()
    np.testing.assert_array_equal(ids[0], of.recommend("u05", N=N_ITEMS).ids)
    few = of.recommend("u00", N=3, filter_items=expected[:2], fallback="popularity").ids
    assert few.tolist() == expected[2:5]
    each = of.recommend(
        ["u00", "u05", "u29"],
        N=2,
        filter_items=[expected[:1], [], expected[:3]],
        items=[expected, expected, expected[2:5]],
        fallback="popularity",
    ).ids
    assert each[0].tolist() == expected[1:3]
    assert each[2].tolist() == expected[3:5]
    capped = mfrank.Steering(categories=dict.fromkeys(expected[:4], "one"), at_most=1)
    steered = of.recommend("u00", N=3, fallback="popularity", steer=capped).ids
    assert steered.tolist() == [expected[0], *expected[4:6]]
    boosted = mfrank.Steering(boosts={expected[-1]: 50.0})
    assert of.recommend("u00", N=1, fallback="popularity", steer=boosted).ids == [expected[-1]]


@pytest.mark.parametrize("name", EVERY)
def test_unknown_users_get_the_fallback_too(name: str) -> None:
    of, expected = model(name), popular()
    how: dict[str, Any] = {"N": 4, "on_unknown": "skip"}
    assert is_empty(of.recommend(["zoe", "yan"], **how))
    for asked in (["zoe"], ["u05", "zoe"], ["u00", "zoe"]):
        got = of.recommend(asked, fallback="popularity", **how)
        assert got.ids[-1].tolist() == expected[:4]  # also what the stand-in u05 has
    own = sp.csr_array((np.ones(1), ([1], [int(expected[0][1:])])), shape=(2, N_ITEMS))
    got = of.recommend(["u05", "zoe"], own, fallback="popularity", **how)
    assert got.ids[1].tolist() == expected[1:5]
    got = of.recommend(["yan", "zoe"], own, fallback="popularity", **how)
    assert got.ids.tolist() == [expected[:4], expected[1:5]]
    with pytest.raises(mfrank.UnknownIdError):
        of.recommend(["u05", "zoe"], fallback="popularity")


FOLDING = ["IALS", "WRMF", "EALS", "RG2", "RGX", "RG2Sampled", "EASE", "ItemKNN", "ItemFilter"]


@pytest.mark.parametrize("name", FOLDING)
def test_a_row_that_is_empty_or_says_nothing_is_nobodys(name: str) -> None:
    rows = np.zeros((3, N_ITEMS))
    rows[1, 5] = 1
    rows[2, COLD_ITEMS[1]] = 1  # an item of which the model knows nothing
    how: dict[str, Any] = {"N": 4, "recalculate_user": True}
    asked = ["new", "u05", "u00"]
    lists = model(name).recommend(asked, sp.csr_array(rows), **how)
    assert is_empty([part[0] for part in lists])
    assert not np.isnan(lists.scores[1]).any()
    filled = model(name).recommend(asked, sp.csr_array(rows), fallback="popularity", **how)
    assert filled.ids[0].tolist() == popular()[:4]
    np.testing.assert_array_equal(filled.ids[1], lists.ids[1])
    if isinstance(model(name), RowScorer):
        assert is_empty([part[2] for part in lists])
        assert filled.ids[2].tolist() == popular()[:4]


@pytest.mark.parametrize("name", ["IALS", "WRMF", "EALS", "RG2", "RGX", "RG2Sampled"])
def test_somebody_new_without_known_items(name: str) -> None:
    of = model(name)
    for items in ([], ["pie", "jam"]):
        assert is_empty(of.recommend_from_items(items, N=3, on_unknown="skip"))
        got = of.recommend_from_items(items, N=3, on_unknown="skip", fallback="popularity")
        assert got.ids.tolist() == popular()[:3]
    known = of.recommend_from_items(["i05"], N=3, fallback="popularity")
    np.testing.assert_array_equal(known.ids, of.recommend_from_items(["i05"], N=3).ids)


@pytest.mark.parametrize("kind", [mfrank.EASE, mfrank.ItemKNN, mfrank.ItemFilter])
def test_items_without_neighbors_say_nothing(kind: Any) -> None:
    """u2 has an item that is nobody else's, so nothing leads on from it."""
    data = mfrank.Interactions.from_arrays(
        ["u0", "u0", "u1", "u1", "u2"], ["b", "c", "b", "c", "a"], item_ids=["a", "b", "c", "d"]
    )
    of = kind().fit(data)
    assert is_empty(of.recommend("u2", N=3))
    assert of.recommend("u2", N=3, fallback="popularity").ids.tolist() == ["b", "c", None]
    assert of.similar_items("a", N=3).ids.tolist() == ["a", None, None]


@pytest.mark.parametrize("name", EVERY)
def test_what_nobody_met_is_near_to_nothing(name: str) -> None:
    of, everything = model(name), train().item_ids.labels
    if name == "user features":  # means of features
        everything = [*COLD_ITEMS]
        everything = [f"i{row:02}" for row in everything]
    ids, scores = of.similar_items(everything, N=N_ITEMS)
    for item, row, values in zip(everything, ids, scores, strict=True):
        assert row[0] == item
        if item in UNMET:
            assert is_empty((row[1:], values[1:]))
        else:
            assert not UNMET & set(row)
    assert of.similar_items("i00", N=2, filter_items=["i00"]).ids.tolist() == [None, None]


def test_a_count_of_users_makes_no_neighbors(tmp_path: Path) -> None:
    """All items have one direction, so that neighbors would be the first ids."""
    model("Popularity").save(tmp_path / "popularity")
    for of in (model("Popularity"), mfrank.load(tmp_path / "popularity")):
        ids, scores = of.similar_items(["i00", "i01"], N=3)
        assert ids[:, 0].tolist() == ["i00", "i01"]
        assert is_empty((ids[:, 1:], scores[:, 1:]))
        assert of.similar_items("i00", N=2, filter_items=["i00"]).ids.tolist() == [None, None]
        assert of.similar_users("u01", N=3).ids.tolist() == ["u01", None, None]
        with refuses(TypeError, remedy="use recommend"):
            of.recommend_users("i00")


@pytest.mark.parametrize("name", ["IALS", "RG2", "BPR", "distance", "blend", "biases"])
def test_nobody_is_told_about_an_item_of_nobody(name: str) -> None:
    lists = model(name).recommend_users(["i05", "i00", "i19"], N=N_USERS)
    assert is_empty([part[1:] for part in lists])
    assert "u05" in set(lists.ids[0]) | {f"u{row:02}" for row in train().item_users[[5]].indices}
    if name != "biases":
        assert not set(COLD) & set(lists.ids[0])


def test_similar_users_have_a_direction() -> None:
    ids, _ = model("RG2").similar_users(["u05", "u00"], N=N_USERS)
    assert not set(COLD) & set(ids[0])
    assert ids[1].tolist() == ["u00"] + [None] * (N_USERS - 1)


def test_items_with_features_are_known() -> None:
    features = np.random.default_rng(0).random((N_ITEMS, 3)) + 0.1
    featured = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(
        train(), item_features=features
    )
    assert set(featured.recommend("u05", N=N_ITEMS).ids) >= UNMET
    both = mfrank.blend(featured.store, model("IALS").store, 0.5)
    ids, _ = mfrank.Recommender.of(both).recommend(
        "u05", N=N_ITEMS, filter_already_liked_items=False
    )
    assert set(ids) >= UNMET


def test_a_store_of_somebodys_own_arrays_is_taken_at_its_factors() -> None:
    items = np.array([[1.0, 0], [0, 0], [-1, 1]])
    store = mfrank.FactorStore([[0.0, 0], [1, 0]], items)
    of = mfrank.Recommender.of(store)
    lists = of.recommend([0, 1], N=3, filter_already_liked_items=False)
    assert lists.ids.tolist() == [[-1] * 3, [0, 2, -1]]
    biased = mfrank.FactorStore([[0.0, 0], [1, 0]], items, item_biases=[0.0, 1, 2])
    lists = mfrank.Recommender.of(biased).recommend(0, N=3, filter_already_liked_items=False)
    assert lists.ids.tolist() == [2, 1, 0]


# --- a fallback needs something to count


def test_a_model_that_holds_no_interactions_refuses_the_fallback(tmp_path: Path) -> None:
    model("IALS").save(tmp_path / "model", with_seen=False)
    bare = mfrank.load(tmp_path / "model")
    for users in ("u05", "u00"):
        with refuses(ValueError, "fallback", remedy="with_seen=True"):
            bare.recommend(users, train().user_items[[5]], fallback="popularity")
    with refuses(ValueError, "fallback", remedy="with_seen=True"):
        bare.recommend_from_items([], fallback="popularity")
    got = bare.recommend("u00", train(), N=3, fallback="popularity")
    assert got.ids.tolist() == popular()[:3]


@pytest.mark.parametrize("name", EVERY)
def test_there_is_no_third_fallback(name: str) -> None:
    with refuses(ValueError, "fallback"):
        model(name).recommend("u05", fallback="random")


def test_a_loaded_model_counts_as_the_fitted_one(tmp_path: Path) -> None:
    for name in ("IALS", "ItemKNN", "SupervisedPageRank"):
        model(name).save(tmp_path / name)
        for mapped in (False, True):
            loaded = mfrank.load(tmp_path / name, mmap=mapped)
            for fallback in ("none", "popularity"):
                how: dict[str, Any] = {"N": N_ITEMS, "fallback": fallback}
                got, expected = (of.recommend(COLD, **how) for of in (loaded, model(name)))
                np.testing.assert_array_equal(got.ids, expected.ids)
                np.testing.assert_array_equal(got.scores, expected.scores)


def test_dislikes_are_not_popular() -> None:
    data = mfrank.Interactions.from_arrays(
        ["a", "b", "c", "a"], ["bad", "bad", "good", "fine"], [-1, -1, 1, 1], user_ids=[*"abcd"]
    )
    of = mfrank.ItemKNN().fit(data)
    assert "bad" not in of.recommend("d", N=3, fallback="popularity").ids


# --- the second stage


def test_a_second_stage_falls_back_as_the_first() -> None:
    reranker, _ = fitted_reranker()
    lists = reranker.recommend(["u1", "zoe"], N=4, on_unknown="skip", fallback="popularity")
    counts = np.asarray((reranker.model.seen.matrix > 0).sum(axis=0)).ravel()
    order = np.argsort(-counts, kind="stable")[:4]
    assert lists.ids[1].tolist() == reranker.model.item_ids.raw(order).tolist()
    assert lists.scores[1].tolist() == counts[order].tolist()
    np.testing.assert_array_equal(lists.ids[0], reranker.recommend("u1", N=4).ids)


def test_popularity_is_counted_from_the_interactions_of_the_call() -> None:
    """By the ids of the model, from what is liked; items that it does not know do not count."""
    factors = np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 0.0]])
    items = ["a", "b", "c", "d"]
    store = mfrank.FactorStore(
        factors, np.ones((4, 2)), user_ids=["u1", "u2", "u9"], item_ids=items
    )
    pairs = [("u1", "a", 1), ("u2", "a", 1), ("u1", "b", 1), ("u3", "z", 1), ("u4", "z", 1)]
    pairs += [("u1", "c", 1), ("u1", "c", -1), ("u2", "d", -1), ("u9", "y", 1), ("u9", "y", -1)]
    users, liked, values = zip(*pairs, strict=True)
    data = mfrank.Interactions.from_arrays(users, liked, values)
    got = mfrank.Recommender.of(store).recommend("u9", data, N=4, fallback="popularity")
    assert got.ids.tolist() == ["a", "b", None, None]
    assert got.scores[:2].tolist() == [2.0, 1.0]


def test_zeros_among_the_interactions_of_the_call_make_no_item_popular() -> None:
    """What faded to nothing is nobody's liking."""
    store = mfrank.FactorStore(np.zeros((1, 2)), np.ones((3, 2)), item_ids=["a", "b", "c"])
    cells = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([1, 0, 2]), np.array([0, 2, 3])))
    data = mfrank.Interactions.from_sparse(cells, item_ids=["a", "b", "c"])
    got = mfrank.Recommender.of(store).recommend(
        0, data, N=3, filter_already_liked_items=False, fallback="popularity"
    )
    assert got.ids.tolist() == ["b", "c", None]


def test_strangers_get_items_that_they_had_unless_these_are_filtered() -> None:
    of = model("IALS")
    best = of.recommend(["zoe"], N=2, on_unknown="skip", fallback="popularity").ids[0]
    had_best = sp.csr_array(np.isin(of.item_ids.labels, best)[None, :].astype(float))
    for filters in (True, False):
        lists = of.recommend(
            ["zoe"],
            had_best,
            N=2,
            on_unknown="skip",
            fallback="popularity",
            filter_already_liked_items=filters,
        )
        assert np.isin(lists.ids[0], best).all() == (not filters)


# --- it is told, once a call


def test_how_many_they_are_is_told_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    of = model("IALS")
    of.recommend(["u05", "u06"])
    assert not caplog.messages
    of.recommend(["u05", *COLD])
    of.recommend([*COLD, "zoe"], on_unknown="skip", fallback="popularity")
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert caplog.messages[0].startswith("3 of 4 users")
    assert 'fallback="popularity"' in caplog.messages[0]
    assert caplog.messages[1].startswith("3 of 4 users")
    assert caplog.messages[1].endswith("so their lists are of the most popular items")
    caplog.clear()
    of.recommend_all(tmp_path / "lists", format="csv")
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"3 of {N_USERS} users")
    caplog.clear()
    with caplog.at_level(logging.INFO, "mfrank"):
        of.recommend_from_items([])
        of.recommend("u00")
    assert [record.levelno for record in caplog.records] == [logging.INFO] * 2
    caplog.clear()
    mfrank.evaluate(model("EASE"), train(), filter_already_liked_items=False)
    assert not [text for text in caplog.messages if "nothing to go by" in text]


# --- all users, on a cluster too


@pytest.mark.parametrize("name", ["RG2", "EASE", "cosine"])
@pytest.mark.parametrize("fallback", ["none", "popularity"])
def test_lists_of_all_users_are_those_of_recommend(
    name: str, fallback: Any, tmp_path: Path
) -> None:
    model(name).recommend_all(tmp_path / "lists", N=5, format="csv", fallback=fallback)
    with open(tmp_path / "lists" / "part-00000.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    everyone = train().user_ids.labels
    ids, _ = model(name).recommend(everyone, N=5, fallback=fallback)
    for user, expected in zip(everyone, ids, strict=True):
        listed = [row["item"] for row in rows if row["user"] == user]
        assert listed == [each for each in expected if each is not None]


def test_a_run_with_another_fallback_is_another_run(tmp_path: Path) -> None:
    model("RG2").recommend_all(tmp_path, N=5, format="csv")
    with refuses(ValueError, remedy="resume it"):
        model("RG2").recommend_all(tmp_path, N=5, format="csv", fallback="popularity")


# --- on a GPU


@pytest.mark.parametrize("fallback", ["none", "popularity"])
def test_rows_on_a_gpu_are_answered_there(fallback: Any, device: EmulatedGPU) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((6, 3)), rng.standard_normal((9, 3))
    users[[0, 4]], items[[0, 5]] = 0, 0
    seen = sp.csr_array((rng.random((6, 9)) < 0.4).astype(float))

    def serving(place: Any, backend: str) -> mfrank.Recommender:
        of = mfrank.Recommender.of(mfrank.FactorStore(place(users), place(items)))
        of.backend = backend
        of._hold(of.placed, seen)
        return of

    asked = np.array([4, 1, 0, 77, 3])
    how: dict[str, Any] = {"N": 9, "on_unknown": "skip", "fallback": fallback}
    expected = serving(np.asarray, "reference").recommend(asked, **how)
    got = serving(DeviceArray, "cuda").recommend(DeviceArray(asked), **how)
    assert all(isinstance(part, DeviceArray) for part in got)
    np.testing.assert_array_equal(got[0].get(), expected.ids)
    np.testing.assert_allclose(got[1].get(), expected.scores)
