"""What a fitted model promises of its lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKEND, BACKENDS, als, equal, labeled
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import mfrank
from mfrank.data import Counts, Ids
from mfrank.retrieval import scored_lists
from mfrank.store import FactorStore
from tests.support.errors import refuses


def served(
    users: NDArray[Any],
    items: NDArray[Any],
    names: bool = False,
    seen: sp.csr_array | None = None,
    **biases: Any,
) -> mfrank.Recommender:
    """A model of the given factors."""
    counts = Counts(np.zeros(len(users), np.int64), np.zeros(len(items), np.int64))
    ids = [
        Ids.of([f"{letter}{r}" for r in range(len(side))]) if names else Ids.numbered(len(side))
        for letter, side in (("u", users), ("i", items))
    ]
    model = mfrank.Recommender.of(FactorStore(users, items, *ids, counts=counts, **biases))
    model.backend = BACKEND
    model._hold(model.store, seen)
    return model


def whole_numbers(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Factors of small whole numbers: scores are exact, and often tie."""
    return rng.integers(-2, 3, size=shape).astype(np.float64)


def brute_force(
    scores: NDArray[Any], allowed: NDArray[np.bool_], n: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every allowed item of each row of scores, best first, ties by lower row; padded."""
    ids, values = np.full((len(scores), n), -1), np.full((len(scores), n), np.nan)
    for r, row in enumerate(scores):
        order = sorted(np.flatnonzero(allowed[r]), key=lambda y, row=row: (-row[y], y))[:n]
        ids[r, : len(order)], values[r, : len(order)] = order, row[order]
    return ids, values


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_lists_are_those_of_brute_force(backend: str, data: st.DataObject) -> None:
    draw = data.draw
    shape = draw(st.integers(1, 8)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    p, q = whole_numbers(rng, (shape[0], 3)), whole_numbers(rng, (shape[1], 3))
    seen = sp.csr_array((rng.random(shape) < 0.3).astype(np.float32))
    model = served(p, q, seen=seen)
    model.backend = backend
    asked = rng.integers(0, shape[0], size=draw(st.integers(0, 6)))
    n = draw(st.integers(1, 12))
    allowed = p[asked].any(axis=1)[:, None] & q.any(axis=1)  # nothing is known of others
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        allowed &= seen.toarray()[asked] == 0
    else:
        options["filter_already_liked_items"] = False
    for name, keeps in (("filter_items", False), ("items", True)):
        how = draw(st.sampled_from(["none", "global", "matrix", "lists", "whole"]))
        if how == "none":
            continue
        rows = 1 if how == "global" else shape[0] if how == "whole" else len(asked)
        listed = rng.random((rows, shape[1])) < 0.5
        own = listed[asked] if how == "whole" else listed
        if how == "global":
            options[name] = np.flatnonzero(listed[0])
        elif how == "lists":
            options[name] = [np.flatnonzero(row).tolist() for row in listed]
        else:
            options[name] = sp.csr_array(listed)
            if rows == len(asked):  # a row for each, whatever else it may be
                own = listed
        allowed &= own if keeps else ~own
    equal(model.recommend(asked, N=n, **options), brute_force(p[asked] @ q.T, allowed, n))


def test_ties_go_to_the_lower_row() -> None:
    model = served(np.ones((2, 2)), np.ones((50, 2)))
    ids, _ = model.recommend([0, 1], N=50, filter_already_liked_items=False)
    np.testing.assert_array_equal(ids, [range(50)] * 2)


def test_one_id_stands_for_a_list_of_it_and_rows_of_an_array_for_users() -> None:
    model = als().fit(labeled())
    for one, listed in (("i5", ["i5"]), (["i5"], np.array(["i5"]))):
        equal(model.recommend("u4", items=one), model.recommend("u4", items=listed))
    each = np.array([["i5", "i0"], ["i1", "i1"]])
    equal(
        model.recommend(["u4", "u0"], filter_items=each, N=7),
        model.recommend(["u4", "u0"], filter_items=each.tolist(), N=7),
    )


def test_biases_are_part_of_the_score() -> None:
    rng = np.random.default_rng(0)
    p, q = whole_numbers(rng, (4, 2)), whole_numbers(rng, (6, 2))
    of_users, of_items = np.array([7.0, -2.0, 0.0, 4.0]), np.array([3.0, 9.0, -1.0, 0.0, 5.0, 2.0])
    model = served(p, q, user_biases=of_users, item_biases=of_items)
    scores = p @ q.T + of_users[:, None] + of_items
    everything = np.ones((4, 6), dtype=bool)
    got = model.recommend(range(4), N=6, filter_already_liked_items=False)
    equal(got, brute_force(scores, everything, 6))
    equal(
        model.recommend([3, 1], N=6, filter_already_liked_items=False),
        [part[[3, 1]] for part in got],
    )
    got = model.recommend_users(range(6), N=4, filter_already_liked_users=False)
    equal(got, brute_force(scores.T, everything.T, 4))
    np.testing.assert_array_equal(model.score([3, 0], [1, 5]), scores[[3, 0], [1, 5]])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 10), seen_too=st.booleans())
def test_users_for_items_are_recommend_with_the_sides_swapped(
    seed: int, n: int, seen_too: bool
) -> None:
    rng = np.random.default_rng(seed)
    p, q = whole_numbers(rng, (7, 3)), whole_numbers(rng, (5, 3))
    seen = sp.csr_array((rng.random((7, 5)) < 0.4).astype(np.float32))
    model = served(p, q, seen=seen)
    allowed = seen.toarray().T == 0 if seen_too else np.ones((5, 7), dtype=bool)
    allowed &= q.any(axis=1)[:, None] & p.any(axis=1)
    options: dict[str, Any] = {"N": n, "filter_already_liked_users": seen_too}
    equal(model.recommend_users(range(5), **options), brute_force(q @ p.T, allowed, n))
    equal(model.recommend_users(range(5), seen.T, **options), brute_force(q @ p.T, allowed, n))
    allowed[:, [2, 4]] = False
    options["filter_users"] = [2, 4]
    equal(model.recommend_users(range(5), **options), brute_force(q @ p.T, allowed, n))


@pytest.mark.parametrize("side", ["item", "user"])
def test_similar_rows_have_the_highest_cosines(side: str) -> None:
    rng = np.random.default_rng(1)
    p, q = rng.standard_normal((8, 3)), rng.standard_normal((6, 3))
    own, model = (q, served(p, q)) if side == "item" else (p, served(p, q))
    ask: Callable[..., Any] = getattr(model, f"similar_{side}s")
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    cosines = unit @ unit.T
    ids, scores = ask(range(len(own)), N=4)
    expected = np.argsort(-cosines, axis=1)[:, :4]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(cosines, expected, 1), atol=1e-12)
    assert ids[:, 0].tolist() == list(range(len(own)))
    without, _ = ask(0, N=4, **{f"filter_{side}s": [0]})
    assert without.tolist() == np.argsort(-cosines[0], kind="stable")[1:5].tolist()
    only, padding = ask(0, N=4, **{f"{side}s": [3, 1]})
    assert set(only[:2]) == {3, 1}
    assert only[2:].tolist() == [-1, -1]
    assert np.isnan(padding[2:]).all()


@pytest.mark.parametrize("kind", [mfrank.Recommender, mfrank.ALS, mfrank.Descent])
def test_a_recommender_is_of_a_store(kind: type[mfrank.Recommender]) -> None:
    for other in (None, 5, mfrank.ALS(), np.eye(3)):
        with refuses(TypeError, "store"):
            kind.of(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["factors", "weights between items"])
def test_lists_have_ten_places_by_default(kind: str) -> None:
    data = mfrank.synthetic(30, 40, 400, random_state=0)
    if kind == "factors":
        model: Any = mfrank.ALS(factors=3, iterations=1, random_state=0).fit(data)
        assert model.similar_users(0).ids.shape == (10,)
        assert model.recommend_users(0).ids.shape == (10,)
        assert model.recommend_from_items([3]).ids.shape == (10,)
    else:
        model = mfrank.ItemKNN().fit(data)
    assert model.recommend(0).ids.shape == model.similar_items(0).ids.shape == (10,)
    assert model.recommend([0, 1]).ids.shape == (2, 10)


def test_pairs_are_scored_block_by_block_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    model = mfrank.EASE(2.0).fit(data)
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 90), rng.integers(0, 20, 90)
    whole = model.score(np.repeat(np.arange(30), 20), np.tile(np.arange(20), 30)).reshape(30, 20)
    monkeypatch.setattr(scored_lists, "_CELLS_AT_ONCE", 7 * 20)  # blocks of seven users
    np.testing.assert_array_equal(model.score(users, items), whole[users, items])
    with refuses(ValueError, "on_unknown"):
        model.score([0], [0], on_unknown="never")
    got = model.score([0, 99, 1], [0, 0, 99], on_unknown="skip")
    assert np.isnan(got).tolist() == [False, True, True]


def test_items_that_nobody_met_have_no_users_and_are_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    model = mfrank.Recommender.of(FactorStore(np.ones((2, 2)), items))
    lists = model.recommend_users([0, 1, 3], N=2, filter_already_liked_users=False)
    assert lists.ids.tolist() == [[0, 1], [-1, -1], [-1, -1]]
    (line,) = caplog.messages
    assert line.startswith("2 of 3 items")
    assert line.endswith("so their lists are empty")
    assert "fallback" not in line


@pytest.mark.parametrize("make", [mfrank.ItemKNN, mfrank.EASE])
def test_models_of_items_speak_rows_where_they_are_asked_to(make: Any) -> None:
    """Labels that are numbers, but not the row numbers."""
    rng = np.random.default_rng(0)
    users, items = 5 + rng.integers(0, 9, 60), 3 + rng.integers(0, 12, 60)
    model = make().fit(mfrank.Interactions.from_arrays(users, items))
    rows = model.user_ids.rows(users), model.item_ids.rows(items)
    by_row = model.score(*rows, by_row=True)
    np.testing.assert_array_equal(by_row, model.score(users, items))
    labels, numbers = model.item_ids.labels, np.arange(len(model.item_ids))
    near, by_row = model.similar_items(labels, N=3), model.similar_items(numbers, N=3, by_row=True)
    np.testing.assert_array_equal(model.item_ids.rows(near.ids[:, 0]), numbers)
    np.testing.assert_array_equal(by_row.ids[:, 0], numbers)
    np.testing.assert_array_equal(by_row.scores, near.scores)
    known = by_row.ids >= 0
    np.testing.assert_array_equal(labels[by_row.ids[known]], near.ids[known])


def test_what_models_of_items_cannot_do_is_refused() -> None:
    model = mfrank.ItemKNN().fit(mfrank.synthetic(30, 20, 200, random_state=0))
    with refuses(ValueError, remedy="pass one item"):
        model.score([0, 1], [0])
    with refuses(TypeError, remedy="use similar_items"):
        model.similar_users(0)
    with refuses(TypeError, remedy="use recommend"):
        model.recommend_users(0)
    with refuses(TypeError, "recalculate_item", remedy="recalculate_item=False"):
        model.similar_items(0, recalculate_item=True)
    with refuses(ValueError, "recalculate_user"):
        model.recommend(0, recalculate_user=True)


def test_an_item_leads_its_list_though_another_is_the_same() -> None:
    cells = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
    model = mfrank.ItemKNN().fit(mfrank.Interactions.from_sparse(sp.csr_array(cells)))
    assert model.similar_items([0, 1, 2], N=2).ids[:, 0].tolist() == [0, 1, 2]


def test_what_is_only_seen_makes_no_item_popular() -> None:
    pairs = [
        ("a", "x", 5),
        ("b", "x", 5),
        ("a", "y", 5),
        ("b", "y", 1),
        ("c", "y", 1),
        ("c", "z", 5),
    ]
    users, items, values = zip(*pairs, strict=True)
    data = mfrank.Interactions.from_arrays(users, items, values, user_ids=["a", "b", "c", "new"])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data.at_least(4))
    got = model.recommend("new", N=3, fallback="popularity")
    assert got.ids[0] == "x"
    assert sorted(got.scores.tolist(), reverse=True) == [2.0, 1.0, 1.0]
