"""Lists that are steered: each lever against its equation, written out for one user at a time."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import mfrank
from mfrank.data import Counts
from mfrank.retrieval import steered
from mfrank.steering import ALPHA, Divergence, levers
from tests.support.errors import refuses


def model(
    seed: int, n_users: int = 5, n_items: int = 12, *, dtype: Any = np.float64, **more: Any
) -> mfrank.Recommender:
    """A model of random factors, whose users have some of the items."""
    rng = np.random.default_rng(seed)
    seen = sp.csr_array(rng.random((n_users, n_items)) < 0.2)
    store = mfrank.FactorStore(
        rng.normal(size=(n_users, 3)).astype(dtype),
        rng.normal(size=(n_items, 3)).astype(dtype),
        counts=Counts(np.diff(seen.indptr).astype(np.int64), rng.integers(0, 50, n_items)),
        **more,
    )
    found = mfrank.Recommender.of(store)
    found._hold(store, seen)
    return found


def all_scores(of: mfrank.Recommender) -> NDArray[Any]:
    """Scores of all pairs, in float64."""
    store = of.store
    wide = store.user_factors.astype(np.float64) @ store.item_factors.T.astype(np.float64)
    wide += 0 if store.item_biases is None else store.item_biases
    return np.asarray(wide + (0 if store.user_biases is None else store.user_biases[:, None]))


def written_out(of: mfrank.Recommender, steer: mfrank.Steering, n: int) -> list[list[int]]:
    """The lists, by the equations in the docstring of Steering."""
    store, seen, scores = of.store, of.seen.matrix.toarray(), all_scores(of)
    spread = scores.std(axis=1, keepdims=True)
    logs = np.log1p(store.counts.items)
    for item, boost in steer.boosts.items():
        scores[:, item] += spread[:, 0] * boost
    scores -= spread * steer.popularity_penalty * (logs - logs.mean()) / logs.std()
    directions = store.item_factors / np.linalg.norm(store.item_factors, axis=1, keepdims=True)
    weighs = steer.diversity > 0 or steer.calibration > 0
    lists = []
    for user in range(store.n_users):
        order = [i for i in np.argsort(-scores[user], kind="stable") if not seen[user, i]]
        size = len(order)
        if weighs:
            size = max(n, max(100, 10 * n) if steer.pool is None else steer.pool)
        while True:
            listed = one_list(order[:size], user, scores, directions, seen, steer, n)
            if len(listed) == n or size >= len(order):
                break
            size *= 2
        lists.append(listed)
    return lists


def categories_of(steer: mfrank.Steering, item: int) -> list[Hashable]:
    found = (steer.categories or {}).get(item, [])
    return list(dict.fromkeys(found)) if isinstance(found, list) else [found]


def one_list(
    pool: list[int], user: int, scores: Any, directions: Any, seen: Any, steer: Any, n: int
) -> list[int]:
    own = scores[user, pool]
    span = (own.max() - own.min() or 1) if len(pool) else 1
    relevance = {i: (scores[user, i] - own.min()) / span for i in pool}
    listed: list[int] = []
    for _ in range(n):
        best, highest = None, -math.inf
        for item in pool:
            if item in listed or full(item, listed, steer):
                continue
            nearest = max((float(directions[item] @ directions[j]) for j in listed), default=0.0)
            worth = (1 - steer.diversity) * relevance[item] - steer.diversity * nearest
            if steer.calibration:
                distance = divergence(np.flatnonzero(seen[user]), [*listed, item], steer)
                worth = (1 - steer.calibration) * worth - steer.calibration * distance
            if worth > highest + 1e-12:
                best, highest = item, worth
        if best is None:
            break
        listed.append(best)
    return listed


def full(item: int, listed: list[int], steer: mfrank.Steering) -> bool:
    for label in categories_of(steer, item):
        cap = steer.at_most.get(label) if isinstance(steer.at_most, dict) else steer.at_most
        if cap is not None and sum(label in categories_of(steer, j) for j in listed) >= cap:
            return True
    return False


def divergence(own: Any, listed: list[int], steer: mfrank.Steering) -> float:
    p, q = (shares([categories_of(steer, i) for i in items]) for items in (own, listed))
    total = 0.0
    for label, share in p.items():
        total += share * math.log(share / ((1 - ALPHA) * q.get(label, 0) + ALPHA * share))
    return total


def shares(labels: list[list[Hashable]]) -> dict[Hashable, float]:
    found: dict[Hashable, float] = {}
    for own in labels:
        for label in own or [("none",)]:
            found[label] = found.get(label, 0) + 1 / max(len(own), 1) / len(labels)
    return found


def rows(ids: Any) -> list[list[int]]:
    return [[i for i in row if i >= 0] for row in np.atleast_2d(ids).tolist()]


weights = st.sampled_from([0.0, 0.2, 0.5, 0.9])
labels = st.sampled_from(["a", "b", "c", 1])


@st.composite
def steerings(draw: st.DrawFn, n_items: int = 12) -> mfrank.Steering:
    items = st.integers(0, n_items - 1)
    categories = draw(st.dictionaries(items, labels | st.lists(labels, max_size=3)))
    there = {
        x for each in categories.values() for x in (each if isinstance(each, list) else [each])
    }
    caps: Any = st.none() | st.integers(0, 3)
    if there:
        caps |= st.dictionaries(st.sampled_from(sorted(there, key=str)), st.integers(0, 2))
    at_most, diversity, calibration = draw(caps), draw(weights), draw(weights)
    chooses = at_most is not None or diversity > 0 or calibration > 0
    return mfrank.Steering(
        boosts=draw(st.dictionaries(items, st.sampled_from([-2.0, -0.3, 0.3, 2.0]))),
        popularity_penalty=draw(weights),
        categories=None if at_most is None and not calibration else categories,
        at_most=at_most,
        diversity=diversity,
        calibration=calibration,
        pool=draw(st.sampled_from([None, 2, 5])) if chooses else None,
    )


@settings(max_examples=40, deadline=None)
@given(steer=steerings(), seed=st.integers(0, 50), n=st.integers(1, 13), biases=st.booleans())
def test_lists_are_those_of_the_equations(
    steer: mfrank.Steering, seed: int, n: int, biases: bool
) -> None:
    rng = np.random.default_rng(seed)
    more = {"item_biases": rng.normal(size=12), "user_biases": rng.normal(size=5)} if biases else {}
    of = model(seed, **more)
    ids, scores = of.recommend(np.arange(5), N=n, steer=steer)
    assert rows(ids) == written_out(of, steer, n)
    assert (np.isnan(scores) == (ids < 0)).all()
    one = of.recommend(3, N=n, steer=steer)
    np.testing.assert_array_equal(one.ids, ids[3])


@given(seed=st.integers(0, 50), dtype=st.sampled_from([np.float32, np.float64]))
@settings(max_examples=20, deadline=None)
def test_without_a_weight_lists_are_the_plain_ones_bit_by_bit(seed: int, dtype: Any) -> None:
    of = model(seed, dtype=dtype)
    plain = of.recommend(np.arange(5), N=6)
    free = mfrank.Steering(categories=dict.fromkeys(range(12), "a"), at_most=6)
    for steer in (None, mfrank.Steering(), free):
        got = of.recommend(np.arange(5), N=6, steer=steer)
        for one, other in zip(plain, got, strict=True):
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()


def test_scores_are_the_steered_sums() -> None:
    of = model(0)
    steer = mfrank.Steering(boosts={3: 0.5, 4: -1.0}, popularity_penalty=0.3)
    ids, scores = of.recommend(np.arange(5), N=12, steer=steer, filter_already_liked_items=False)
    plain, logs = all_scores(of), np.log1p(of.store.counts.items)
    added = np.zeros(12) - 0.3 * (logs - logs.mean()) / logs.std()
    added[3] += 0.5
    added[4] -= 1.0
    expected = plain + plain.std(axis=1, keepdims=True) * added
    np.testing.assert_allclose(scores, np.take_along_axis(expected, ids, axis=1), rtol=1e-12)
    assert (np.diff(scores) <= 0).all()


@given(scale=st.sampled_from([1e-6, 1e6]), seed=st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_a_weight_means_the_same_whatever_the_scale_of_the_scores(scale: float, seed: int) -> None:
    steer = mfrank.Steering(
        boosts={1: 1.0}, popularity_penalty=0.5, diversity=0.4, categories={2: "a"}, calibration=0.2
    )
    of = model(seed)
    store = of.store
    large = model(seed)
    changed = mfrank.FactorStore(
        store.user_factors * scale, store.item_factors, counts=store.counts
    )
    large._hold(changed, of.seen.matrix)
    np.testing.assert_array_equal(
        of.recommend(np.arange(5), N=6, steer=steer).ids,
        large.recommend(np.arange(5), N=6, steer=steer).ids,
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(1, 4), data=st.data())
def test_no_list_within_the_caps_has_a_higher_sum(seed: int, n: int, data: st.DataObject) -> None:
    """The items within caps of disjoint categories are a matroid, where greedy is optimal."""
    of = model(seed, n_users=1, n_items=7)
    categories = {i: data.draw(st.sampled_from("abc")) for i in range(7)}
    caps = {label: data.draw(st.integers(0, 2)) for label in set(categories.values())}
    steer = mfrank.Steering(categories=categories, at_most=caps)
    ids, _ = of.recommend(0, N=n, steer=steer, filter_already_liked_items=False)
    got = ids[ids >= 0].tolist()
    scores = all_scores(of)[0]

    def within(items: tuple[int, ...]) -> bool:
        own = [categories[i] for i in items]
        return all(own.count(label) <= cap for label, cap in caps.items())

    feasible = [
        items
        for size in range(n + 1)
        for items in itertools.combinations(range(7), size)
        if within(items)
    ]
    longest = max(map(len, feasible))
    assert len(got) == longest
    assert within(tuple(got))
    best = max(scores[list(items)].sum() for items in feasible if len(items) == longest)
    assert scores[got].sum() == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(("n", "size"), [(2, 100), (11, 110)])
def test_lists_are_chosen_from_100_items_or_10_for_each_place(n: int, size: int) -> None:
    for place in (size - 1, size):
        items = np.zeros((200, 2))
        items[:, 0], items[place, 1] = np.arange(200, 0, -1), 1000  # unlike all others
        found = mfrank.Recommender.of(mfrank.FactorStore([[1.0, 0.0]], items))
        steer = mfrank.Steering(diversity=0.9)
        listed = found.recommend(0, filter_already_liked_items=False, N=n, steer=steer).ids
        assert (place in listed) == (place < size)


def test_categories_of_a_catalog_are_not_printed() -> None:
    assert "drink" not in repr(mfrank.Steering(categories={"tea": "drink"}, at_most=1))


def test_a_pool_grows_until_caps_are_filled() -> None:
    n_items = 3000  # of which the best 2,990 are of one category
    store = mfrank.FactorStore(np.ones((2, 1)), np.arange(n_items, 0.0, -1.0)[:, None])
    of = mfrank.Recommender.of(store)
    steer = mfrank.Steering(categories=dict.fromkeys(range(2990), "film"), at_most=2)
    for more in ({}, {"diversity": 0.1}):
        asked = mfrank.Steering(steer.boosts, 0.0, steer.categories, 2, **more)
        ids, _ = of.recommend([0, 1], N=5, filter_already_liked_items=False, steer=asked)
        assert ids.tolist() == [[0, 1, 2990, 2991, 2992]] * 2


def test_a_calibrated_list_has_the_shares_of_what_the_user_has() -> None:
    rng = np.random.default_rng(0)
    items = rng.random((40, 1)) + 1
    items[20:] -= 0.9  # all of the second genre are less relevant
    genres = {i: "drama" if i < 20 else "horror" for i in range(40)}
    seen = sp.csr_array(([True] * 10, ([0] * 10, [*range(7), 20, 21, 22])), (1, 40))
    of = mfrank.Recommender.of(mfrank.FactorStore(np.ones((1, 1)), items))
    of._hold(of.store, seen)
    steer = mfrank.Steering(categories=genres, calibration=0.99)
    ids = of.recommend(0, N=10, steer=steer).ids
    assert sum(genres[i] == "horror" for i in ids.tolist()) == 3
    assert all(genres[i] == "drama" for i in of.recommend(0, N=10).ids.tolist())
    given = sp.csr_array(([1.0], ([0], [30])), (1, 40))  # another history of the same user
    ids = of.recommend(0, given, 10, steer=steer).ids
    assert all(genres[i] == "horror" for i in ids.tolist())


def test_diversity_lists_no_copy_of_an_item_before_the_others() -> None:
    q = np.array([[2.0, 0.0], [1.9, 0.0], [1.8, 0.0], [0.0, 1.7], [-1.0, 0.2]])
    of = mfrank.Recommender.of(mfrank.FactorStore(np.array([[1.0, 0.9]]), q))
    asked: dict[str, Any] = {"filter_already_liked_items": False, "N": 3}
    assert of.recommend(0, **asked).ids.tolist() == [0, 1, 2]
    steer = mfrank.Steering(diversity=0.3)
    assert of.recommend(0, **asked, steer=steer).ids.tolist()[:2] == [0, 3]
    last = mfrank.Steering(diversity=1.0)
    assert of.recommend(0, **asked, steer=last).ids.tolist() == [0, 4, 3]


@pytest.mark.parametrize("many", [False, True])
def test_filters_hold(many: bool) -> None:
    of = model(1)
    steer = mfrank.Steering(boosts={0: 900.0}, diversity=0.5)
    users = np.arange(5) if many else 2
    per_user = [[0, 1], [0], [0, 5], [0], [0, 2]]
    blocked: Any = per_user if many else [0]
    ids = of.recommend(users, N=12, filter_items=blocked, items=[0, 1, 2, 5], steer=steer).ids
    seen = of.seen.matrix.toarray()
    for user, own in zip(np.atleast_1d(users), rows(ids), strict=True):
        not_these = set(np.flatnonzero(seen[user])) | set(per_user[user] if many else [0])
        assert set(own) == {0, 1, 2, 5} - not_these


def test_filters_by_user_hold_where_only_some_pools_grow() -> None:
    of = model(2, n_users=6, n_items=400)
    films = mfrank.Steering(
        categories=dict.fromkeys(range(0, 400, 2), "even"), at_most=1, diversity=0.1, pool=4
    )
    only = [list(range(user, 400, 7)) for user in range(6)]
    ids = of.recommend(np.arange(6), N=4, items=only, steer=films).ids
    assert rows(ids) == [
        one[0]
        for one in (
            [rows(of.recommend(u, N=4, items=only[u], steer=films).ids)[0]] for u in range(6)
        )
    ]
    for user, own in enumerate(rows(ids)):
        assert len(own) == 4
        assert set(own) <= set(only[user])
        assert sum(i % 2 == 0 for i in own) <= 1


def test_filters_by_user_hold_for_models_without_factors() -> None:
    of = mfrank.EASE(5.0).fit(mfrank.synthetic(30, 300, 3000, random_state=0))
    free = range(0, 300, 37)
    kinds = {i: "many" for i in range(300) if i not in free}
    asked: dict[str, Any] = {"N": 4, "filter_already_liked_items": False}
    asked["steer"] = mfrank.Steering(categories=kinds, at_most=1, pool=4)
    only = [list(range(user, 300)) for user in range(5)]
    only.append(list(free))  # whose first pool is enough
    ids = of.recommend(np.arange(6), items=only, **asked).ids
    for user, allowed in enumerate(only):
        assert set(rows(ids)[user]) <= set(allowed)
        np.testing.assert_array_equal(ids[user], of.recommend(user, items=allowed, **asked).ids)


def test_models_without_factors_calibrate_to_what_each_user_has() -> None:
    data = mfrank.synthetic(60, 30, 500, random_state=0)
    of = mfrank.EASE(5.0).fit(data)
    steer = mfrank.Steering(categories={i: i % 3 for i in range(30)}, calibration=0.95)

    def distance(options: dict[str, Any]) -> float:
        ids = of.recommend(np.arange(60), N=6, **options).ids
        listed = np.stack([(ids % 3 == kind).mean(axis=1) for kind in range(3)])
        had = np.stack([data.user_items.toarray()[:, kind::3].sum(axis=1) for kind in range(3)])
        return float(np.abs(listed - had / had.sum(axis=0)).sum(axis=0).mean())

    assert distance({"steer": steer}) < 0.6 * distance({})


def test_a_bias_of_the_user_is_part_of_steered_scores() -> None:
    rng = np.random.default_rng(0)
    p, q, biases = rng.normal(size=(3, 2)), rng.normal(size=(9, 2)), np.array([5.0, -3.0, 0.5])
    asked: dict[str, Any] = {"N": 9, "steer": mfrank.Steering(boosts={4: 1.5})}
    asked["filter_already_liked_items"] = False
    plain, biased = (
        mfrank.Recommender.of(mfrank.FactorStore(p, q, user_biases=given)).recommend(
            np.arange(3), **asked
        )
        for given in (None, biases)
    )
    np.testing.assert_array_equal(biased.ids, plain.ids)
    np.testing.assert_allclose(biased.scores, plain.scores + biases[:, None])


def labeled(**options: Any) -> Any:
    data = mfrank.Interactions.from_arrays(
        [f"u{n % 7}" for n in range(40)], [f"i{n % 9}" for n in range(0, 120, 3)]
    )
    return mfrank.ALS(factors=3, iterations=2, random_state=0, **options).fit(data)


def test_ids_are_those_of_the_call() -> None:
    of = labeled()
    steer = mfrank.Steering(
        boosts={"i3": 5.0}, categories={"i6": "a", "unknown": "b"}, at_most={"b": 1, "a": 0}
    )
    named = of.recommend(["u0", "u1"], N=3, filter_already_liked_items=False, steer=steer)
    by_row = of.recommend(
        of.user_ids.rows(["u0", "u1"]),
        N=3,
        filter_already_liked_items=False,
        steer=steer.in_rows(of.item_ids),
        by_row=True,
    )
    assert named.ids.tolist() == of.item_ids.raw(by_row.ids).tolist()
    assert (named.ids[:, 0] == "i3").all()
    assert "i6" not in named.ids


@pytest.mark.parametrize("missing", [None, math.nan, "", np.float32("nan"), [], [None]])
def test_a_missing_label_is_no_category(missing: Any) -> None:
    of = labeled()
    known = {"i0": "a", "i1": "a"}
    plain, given = (
        mfrank.Steering(categories=categories, at_most=1)
        for categories in (known, known | {f"i{n}": missing for n in range(2, 9)})
    )
    lists = [
        of.recommend("u0", N=9, filter_already_liked_items=False, steer=steer).ids.tolist()
        for steer in (plain, given)
    ]
    assert lists[0] == lists[1]


def test_categories_of_no_item_are_told(caplog: pytest.LogCaptureFixture) -> None:
    of = labeled()
    of.recommend("u0", steer=mfrank.Steering(categories={"i0": "a", "old": "b"}, at_most=1))
    assert not caplog.records
    of.recommend("u0", steer=mfrank.Steering(categories={"old": "b", 0: "a"}, at_most=1))
    assert "none of the items" in caplog.text


@pytest.mark.parametrize("mark", ["|", ", ", ";", " / ", "\n"])
def test_labels_that_are_lists_in_one_text_are_told(
    mark: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is one category: a cap on dramas would not hold for dramas that are comedies."""
    joined = {"i0": f"drama{mark}comedy", "i1": "comedy", "i2": "drama", "i3": ["war"]}
    for _ in range(2):  # as requests of a service make them
        steer = mfrank.Steering(categories=joined, at_most=1)
        labeled().recommend("u0", steer=steer)
    assert caplog.text.count("each is one category") == 1
    caplog.clear()
    apart = {"i0": ["drama", "comedy"], "i1": "Rock, Paper", "i2": "R&B/Soul", "i3": 7, "i4": None}
    mfrank.Steering(categories=apart, at_most=1)
    assert not caplog.records


def test_unknown_boosts_are_an_error_or_left_out() -> None:
    of, steer = labeled(), mfrank.Steering(boosts={"old": 3.0})
    with refuses(mfrank.UnknownIdError, "steer.boosts"):
        of.recommend("u0", steer=steer)
    got = of.recommend("u0", steer=steer, on_unknown="skip")
    assert got.ids.tolist() == of.recommend("u0").ids.tolist()


def test_somebody_new_is_steered_too() -> None:
    of = labeled()
    steer = mfrank.Steering(
        boosts={"i6": 50.0}, diversity=0.2, calibration=0.2, categories={"i0": "a", "i3": "b"}
    )
    row = sp.csr_array(([1.0], ([0], of.item_ids.rows(["i0"]))), (1, len(of.item_ids)))
    new = of.recommend_from_items(["i0"], N=3, steer=steer)
    same = of.recommend(["new"], row, 3, recalculate_user=True, steer=steer)
    assert new.ids.tolist() == same.ids[0].tolist()
    np.testing.assert_allclose(new.scores, same.scores[0], rtol=1e-5)


def test_models_without_factors_take_all_levers_but_diversity() -> None:
    data = mfrank.synthetic(40, 30, 300, random_state=0)
    of = mfrank.ItemKNN(neighbors=20).fit(data)
    users = np.arange(40)
    assert (of.recommend(users, steer=mfrank.Steering(boosts={7: 999.0})).ids == 7).any(
        1
    ).sum() > 20
    steer = mfrank.Steering(categories={i: i % 3 for i in range(30)}, at_most=2, calibration=0.5)
    ids = of.recommend(users, N=6, steer=steer).ids
    assert (np.sort(ids % 3, axis=1) == [0, 0, 1, 1, 2, 2]).all()
    with refuses(TypeError, "diversity"):
        of.recommend(0, steer=mfrank.Steering(diversity=0.1))


def test_lists_of_all_users_are_steered(tmp_path: Any) -> None:
    pd = pytest.importorskip("pandas", reason="it reads the files")
    of = labeled()
    steer = mfrank.Steering(boosts={"i3": 2.0}, diversity=0.3)
    folder = of.recommend_all(tmp_path / "lists", N=3, format="csv", steer=steer)
    table = pd.read_csv(folder / "part-00000.csv")
    ids = of.recommend(of.user_ids.labels, N=3, steer=steer).ids
    assert table["item"].tolist() == [i for row in ids.tolist() for i in row if i is not None]
    of.recommend_all(folder, N=3, format="csv", steer=steer)  # the same again
    with refuses(ValueError, place="lists", remedy="resume it"):
        of.recommend_all(folder, N=3, format="csv", steer=mfrank.Steering(diversity=0.4))


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"boosts": [1]}, TypeError, "boosts"),
        ({"boosts": None}, TypeError, "boosts"),
        ({"boosts": {1: np.nan}}, ValueError, "boosts"),
        ({"boosts": {1: 1e9}}, ValueError, "boosts"),
        ({"popularity_penalty": -1}, ValueError, "popularity_penalty"),
        ({"diversity": 1.1}, ValueError, "diversity"),
        ({"calibration": "x", "categories": {}}, ValueError, "calibration"),
        ({"calibration": 0.1}, ValueError, "calibration"),
        ({"at_most": 1}, ValueError, "at_most"),
        ({"at_most": {"b": 1}, "categories": {1: "a"}}, ValueError, "at_most"),
        ({"at_most": {"a": -1}, "categories": {1: "a"}}, ValueError, "at_most"),
        ({"popularity_penalty": 1000.5}, ValueError, "popularity_penalty"),
        ({"calibration": 1.5, "categories": {}}, ValueError, "calibration"),
        ({"pool": 2**31}, ValueError, "pool"),
        ({"at_most": -1, "categories": {1: "a"}}, ValueError, "at_most"),
        ({"categories": {1: [[]]}}, TypeError, "categories"),
        ({"categories": ["a"]}, TypeError, "categories"),
        ({"pool": 0}, ValueError, "pool"),
    ],
)
def test_bad_levers_are_refused(options: Any, error: Any, argument: str) -> None:
    with refuses(error, argument):
        mfrank.Steering(**options)


def test_levers_at_their_ends_are_taken() -> None:
    everything = {"categories": {0: "a"}, "at_most": 1, "boosts": {0: -1000.0, 1: 1000.0}}
    for options in ({"popularity_penalty": 1000.0}, {"diversity": 1.0}, {"calibration": 1.0}):
        assert mfrank.Steering(**everything, **options).categories == {0: "a"}
    assert mfrank.Steering(diversity=0.1, pool=2**31 - 1).pool == 2**31 - 1
    assert mfrank.Steering(pool=1, at_most=0, categories={0: "a"}).at_most == 0


@pytest.mark.parametrize("user", [1.0, 1e154])
def test_relevance_is_that_of_every_scale(user: float) -> None:
    """The first and the last score may differ by more than the largest float."""
    of = falling([1e154, 0.5e154, -1e154], user=user)
    steer = mfrank.Steering(diversity=0.2)
    got = of.recommend(0, N=3, filter_already_liked_items=False, steer=steer)
    assert got.ids.tolist() == [0, 1, 2]


def test_levers_are_set_once_for_all_calls_on_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    boosts_of = levers.boosts_of
    monkeypatch.setattr(levers, "boosts_of", lambda *given: asked.append(1) or boosts_of(*given))
    of, steer = model(0), mfrank.Steering(boosts={3: 0.5})
    lists = [of.recommend(user, steer=steer).ids.tolist() for user in (0, 0, 1)]
    assert lists[0] == lists[1]
    assert asked == [1]


def test_what_a_call_lacks_is_said() -> None:
    bare = mfrank.Recommender.of(mfrank.FactorStore(np.ones((1, 1)), np.ones((2, 1))))
    with refuses(TypeError, "steer"):
        bare.recommend(0, steer={"diversity": 1})
    asked: dict[str, Any] = {"filter_already_liked_items": False}
    with refuses(ValueError, remedy=r"pass FactorStore\("):
        bare.recommend(0, **asked, steer=mfrank.Steering(popularity_penalty=1))
    with refuses(ValueError, "user_items"):
        bare.recommend(0, **asked, steer=mfrank.Steering(categories={0: "a"}, calibration=0.1))


def test_levers_are_set_anew_for_another_model() -> None:
    steer = mfrank.Steering(boosts={1: 0.3}, popularity_penalty=0.4)
    one, other = model(0), model(1)
    first = one.recommend(0, steer=steer).ids.tolist()
    assert other.recommend(0, steer=steer).ids.tolist() == rows_of(other, steer)
    assert one.recommend(0, steer=steer).ids.tolist() == first == rows_of(one, steer)


def rows_of(of: mfrank.Recommender, steer: mfrank.Steering) -> list[int]:
    listed = written_out(of, steer, 10)[0]
    return listed + [-1] * (10 - len(listed))


def test_a_steering_that_has_been_used_is_pickled_as_its_options() -> None:
    steer = mfrank.Steering(boosts={1: 0.3}, diversity=0.1)
    model(0).recommend(0, steer=steer)
    copy = pickle.loads(pickle.dumps(steer))
    assert copy == steer
    assert "_levers" not in copy.__dict__


@pytest.mark.parametrize(("n_users", "n_items"), [(0, 3), (2, 0), (0, 0)])
def test_no_users_or_no_items(n_users: int, n_items: int) -> None:
    of = model(0, n_users, n_items)
    steer = mfrank.Steering(
        popularity_penalty=0.1, diversity=0.5, categories={0: "a"}, at_most=1, calibration=0.5
    )
    ids, scores = of.recommend(np.arange(n_users), N=4, steer=steer)
    assert ids.shape == scores.shape == (n_users, 4)
    assert (ids[:, n_items:] == -1).all()


def test_an_evaluation_judges_the_steered_lists() -> None:
    of = labeled()
    test = mfrank.Interactions.from_arrays(["u0", "u1", "u2"], ["i3", "i3", "i6"])
    steer = mfrank.Steering(boosts={"i3": 900.0})
    asked: dict[str, Any] = {"filter_already_liked_items": False, "metrics": ["hitrate@1"]}
    found = mfrank.evaluate(of, test, **asked, steer=steer)
    assert found["hitrate@1"].value == pytest.approx(2 / 3)
    plain = mfrank.evaluate(of, test, **asked)
    same = mfrank.evaluate(of, test, **asked, steer=mfrank.Steering())
    assert plain["hitrate@1"].value == same["hitrate@1"].value
    with refuses(ValueError, "steer", remedy="leave out AUC"):
        mfrank.evaluate(of, test, metrics="auc", steer=steer)
    with refuses(ValueError, "steer", remedy="leave one out"):
        mfrank.evaluate(of, test, negatives=3, steer=steer)
    with refuses(ValueError, "steer", remedy="leave one out"):
        mfrank.evaluate(of, mfrank.held_out_users(test, test=0.2).test, steer=steer)
    with refuses(mfrank.UnknownIdError, "steer.boosts"):
        mfrank.evaluate(of, test, steer=mfrank.Steering(boosts={"old": 1}))
    with refuses(TypeError, "model"):
        mfrank.evaluate(of.store, test, train=test, steer=steer)
    with refuses(TypeError, "steer"):
        mfrank.evaluate(of, test, steer="diverse")  # type: ignore[arg-type]


def test_an_evaluation_of_every_item_calibrates_to_the_fit() -> None:
    of = model(3, n_users=4, n_items=30)
    steer = mfrank.Steering(categories={i: i % 3 for i in range(30)}, calibration=0.9)
    test = sp.csr_array(np.ones((4, 30)))
    lists = of.recommend(np.arange(4), N=5, filter_already_liked_items=False, steer=steer).ids
    asked: dict[str, Any] = {"filter_already_liked_items": False, "metrics": "coverage@5"}
    found = mfrank.evaluate(of, test, **asked, steer=steer)["coverage@5"].value
    assert found == pytest.approx(len(np.unique(lists)) / 30)


@pytest.mark.parametrize("n_users", [300, 3])
def test_boosts_are_exact_over_a_large_catalog(n_users: int) -> None:
    """By the searches for many queries, which prune by lengths, and for few, by a sketch."""
    rng = np.random.default_rng(5)
    q = rng.normal(size=(2100, 64)).astype(np.float32) * rng.random((2100, 1), dtype=np.float32)
    p = rng.normal(size=(n_users, 64)).astype(np.float32)
    of = mfrank.Recommender.of(
        mfrank.FactorStore(p, q, counts=Counts(np.ones(n_users, int), np.arange(2100) ** 2))
    )
    boosts = dict.fromkeys(rng.choice(2100, 40, replace=False).tolist(), 1.5)
    steer = mfrank.Steering(boosts=boosts, popularity_penalty=0.4)
    scores, logs = all_scores(of), np.log1p(np.arange(2100.0) ** 2)
    spread = scores.std(axis=1, keepdims=True)
    scores -= 0.4 * spread * (logs - logs.mean()) / logs.std()
    scores[:, list(boosts)] += 1.5 * spread
    best = -np.sort(-scores, axis=1)[:, :10]
    for _ in range(3):  # the sketch is made at the second call
        got = of.recommend(np.arange(n_users), N=10, filter_already_liked_items=False, steer=steer)
        np.testing.assert_allclose(got.scores, best, rtol=2e-5)
        np.testing.assert_allclose(
            np.take_along_axis(scores, got.ids, axis=1), got.scores, rtol=2e-5
        )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_every_backend_has_the_same_lists(backend: str) -> None:
    of = model(4)
    of.backend = backend
    steer = mfrank.Steering({1: 0.5}, 0.3, {i: i % 4 for i in range(12)}, 2, 0.3, 0.3)
    assert rows(of.recommend(np.arange(5), N=6, steer=steer).ids) == written_out(of, steer, 6)


def test_a_list_that_caps_cannot_fill_is_not_searched_for(monkeypatch: Any) -> None:
    asked: list[int] = []

    def spy(*given: Any, n: int, **more: Any) -> Any:
        asked.append(n)
        return steered_recommend(*given, n=n, **more)

    steered_recommend = steered.recommend
    monkeypatch.setattr(steered, "recommend", spy)
    of = model(0, n_items=2000)
    categories = {i: i % 4 if i < 1990 else "few" for i in range(2000)}
    steer = mfrank.Steering(categories=categories, at_most={0: 1, 1: 1, 2: 1, 3: 2, "few": 0})
    ids = of.recommend(np.arange(5), N=50, steer=steer).ids
    assert ((ids >= 0).sum(1) == 5).all()
    assert asked == [200]
    none = mfrank.Steering(categories=categories, at_most=0)
    assert (of.recommend(np.arange(5), N=50, steer=none).ids == -1).all()
    assert asked == [200]


@pytest.mark.parametrize("first", ["skip", "error"])
def test_levers_that_skipped_an_unknown_item_are_not_those_of_a_call_that_refuses_it(
    first: str,
) -> None:
    """They are kept with the store for later calls."""
    of, steer = model(0), mfrank.Steering(boosts={3: 0.5, 999: 1.0}, popularity_penalty=0.1)
    known = of.recommend(0, steer=mfrank.Steering(boosts={3: 0.5}, popularity_penalty=0.1))
    for on_unknown in (first, "skip", "error", "skip"):
        if on_unknown == "error":
            with refuses(mfrank.UnknownIdError, "steer.boosts"):
                of.recommend(0, steer=steer, on_unknown="error")
        else:
            got = of.recommend(0, steer=steer, on_unknown="skip")
            np.testing.assert_array_equal(got.ids, known.ids)
            np.testing.assert_array_equal(got.scores, known.scores)


def test_where_all_items_are_as_popular_the_penalty_changes_nothing() -> None:
    of = model(0)
    counts = Counts(of.store.counts.users, np.full(12, 7))
    store = mfrank.FactorStore(of.store.user_factors, of.store.item_factors, counts=counts)
    of._hold(store, of.seen.matrix)
    plain = of.recommend(np.arange(5), N=6)
    got = of.recommend(np.arange(5), N=6, steer=mfrank.Steering(popularity_penalty=2.0))
    np.testing.assert_array_equal(got.ids, plain.ids)
    np.testing.assert_allclose(got.scores, plain.scores, rtol=1e-12)


def falling(
    scores: list[float], *, beside: list[float] | None = None, user: float = 1.0
) -> mfrank.Recommender:
    """A model of one user whose items have these scores, and factors beside that do not count."""
    others = np.zeros(len(scores)) if beside is None else np.asarray(beside)
    return mfrank.Recommender.of(
        mfrank.FactorStore(np.array([[user, 0.0]]), np.column_stack([scores, others]))
    )


@pytest.mark.parametrize(
    ("user", "items"), [(1.0, [2.0] * 4), (1e150, [1e100, 1e100, 2e100, 1e100])]
)
def test_where_scores_have_no_spread_a_boost_is_added_as_it_is(
    user: float, items: list[float]
) -> None:
    """All of them are equal, or their standard deviation is beyond the largest float."""
    steer = mfrank.Steering(boosts={1: 0.5, 3: -0.25})
    asked: dict[str, Any] = {"filter_already_liked_items": False, "N": 4}
    got = falling(items, beside=items, user=user).recommend(0, **asked, steer=steer)
    plain = [user * item for item in items]
    added = dict(zip(got.ids.tolist(), got.scores.tolist(), strict=True))
    assert added == {0: plain[0], 1: plain[1] + 0.5, 2: plain[2], 3: plain[3] - 0.25}


def test_calibration_values_are_the_fall_of_the_divergence() -> None:
    """Compared with an item of no category that the user has, whatever is listed already."""
    rng = np.random.default_rng(0)
    n_users, n_places, n_labels = 3, 5, 4  # no item has the last label
    wanted = rng.random((n_users, n_labels)) + 0.1
    wanted /= wanted.sum(axis=1, keepdims=True)
    columns = rng.integers(0, n_labels - 1, (n_users, n_places, 1)).astype(np.int32)
    state = Divergence(wanted, columns, np.ones((n_users, n_places, 1)))
    listed = np.zeros((n_users, n_labels))

    def far(user: int, q: Any) -> float:
        p = wanted[user]
        return float((p * np.log(p / ((1 - ALPHA) * q + ALPHA * p))).sum())

    for length in range(3):
        values = state.values()
        for user in range(n_users):
            none = far(user, listed[user] / (length + 1))
            for place in range(n_places):
                one = listed[user].copy()
                one[columns[user, place, 0]] += 1
                fall = none - far(user, one / (length + 1))
                assert values[user, place] == pytest.approx(fall, rel=1e-12)
        places = rng.integers(0, n_places, n_users)
        state.take(np.arange(n_users), places)
        listed[np.arange(n_users), columns[np.arange(n_users), places, 0]] += 1


def test_a_pool_that_ends_with_the_first_row_grows_as_every_other() -> None:
    of = falling([3.0, 4.0, 2.0, 1.0])
    steer = mfrank.Steering(categories={0: "a", 1: "a"}, at_most=1, diversity=0.1, pool=2)
    got = of.recommend(0, N=2, filter_already_liked_items=False, steer=steer)
    assert got.ids.tolist() == [1, 2]


def test_a_pool_grows_to_twice_its_size_and_not_further_than_needed() -> None:
    of = falling([9.0, 8.0, 7.0, 6.0, 5.0, 4.0], beside=[0, 0, 0, 3, 50, 50])
    steer = mfrank.Steering(categories={0: "a", 1: "a"}, at_most=1, diversity=0.9, pool=2)
    got = of.recommend(0, N=2, filter_already_liked_items=False, steer=steer)
    assert got.ids.tolist() == [0, 3]  # items 4 and 5 are more unlike item 0


@pytest.mark.parametrize(("n", "pool"), [(1, 100), (10, 100), (11, 110), (20, 200)])
def test_a_pool_is_ten_lists_and_at_least_a_hundred_items(n: int, pool: int) -> None:
    """The last item of the pool is most unlike the others; the one after it is not listed."""
    beside = np.zeros(400)
    beside[pool - 1 :] = 1e6
    of = falling(np.linspace(2, 1, 400).tolist(), beside=beside.tolist())
    steer = mfrank.Steering(diversity=0.99)
    got = of.recommend(0, N=n, filter_already_liked_items=False, steer=steer).ids.tolist()
    assert max(got) == (pool - 1 if n > 1 else 0)


def test_what_is_changed_later_does_not_change_the_levers() -> None:
    boosts, categories, caps = {1: 0.5}, {1: "a", 2: "b"}, {"a": 1}
    steer = mfrank.Steering(boosts, categories=categories, at_most=caps)
    for mapping in (boosts, categories, caps):
        mapping.clear()  # type: ignore[attr-defined]
    assert steer == mfrank.Steering({1: 0.5}, categories={1: "a", 2: "b"}, at_most={"a": 1})


def test_levers_by_rows_keep_the_first_row_and_what_nobody_knows() -> None:
    of = labeled()
    first, second, third = of.item_ids.labels[:3].tolist()
    categories = {third: "a", "one": "b", first: "c", "two": "d", second: "e", "three": "f"}
    steer = mfrank.Steering({first: 1.0}, categories=categories, at_most=1).in_rows(of.item_ids)
    assert steer.boosts == {0: 1.0}
    assert {row: label for row, label in steer.categories.items() if row >= 0} == {
        0: "c",
        1: "e",
        2: "a",
    }
    assert sorted(steer.categories.values()) == ["a", "b", "c", "d", "e", "f"]
    with refuses(mfrank.UnknownIdError, "steer.boosts"):
        mfrank.Steering({"nobody": 1.0}).in_rows(of.item_ids)


@pytest.mark.parametrize(
    "changed",
    [
        {"boosts": {1: 0.5, 2: 0.25}},
        {"boosts": {1: 0.5}},
        {"popularity_penalty": 0.2},
        {"categories": {3: "a", 4: "c"}},
        {"at_most": 2},
        {"at_most": {"a": 1}},
        {"diversity": 0.2},
        {"calibration": 0.2},
        {"pool": 51},
    ],
)
def test_the_digest_tells_every_lever(changed: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "boosts": {1: 0.5, 2: 0.5},
        "popularity_penalty": 0.1,
        "categories": {3: "a", 4: "b"},
        "at_most": 1,
        "diversity": 0.1,
        "calibration": 0.1,
        "pool": 50,
    }
    same = mfrank.Steering(**{**options, "boosts": {2: 0.5, 1: 0.5}})
    assert mfrank.Steering(**options).digest == same.digest
    assert mfrank.Steering(**(options | changed)).digest != same.digest


def test_boosts_of_a_model_without_factors_are_in_deviations_of_its_scores() -> None:
    data = mfrank.synthetic(20, 15, 150, random_state=0)
    of = mfrank.EASE(2.0).fit(data)
    plain = of.score(np.repeat(np.arange(20), 15), np.tile(np.arange(15), 20)).reshape(20, 15)
    expected = plain.copy()
    expected[:, 4] += 0.5 * plain.std(axis=1)
    asked: dict[str, Any] = {"N": 15, "filter_already_liked_items": False}
    got = of.recommend(np.arange(20), **asked, steer=mfrank.Steering(boosts={4: 0.5}))
    there = got.ids >= 0
    np.testing.assert_array_equal(there.sum(axis=1), np.count_nonzero(expected, axis=1))
    np.testing.assert_allclose(
        got.scores[there],
        np.take_along_axis(expected, np.where(there, got.ids, 0), axis=1)[there],
        rtol=1e-6,
        atol=1e-9,
    )
    assert not (np.diff(got.scores) > 0).any()


def test_a_column_of_a_filtered_table_has_no_ids_as_its_index() -> None:
    """It has the numbers of its rows, which may be ids of other items."""
    pandas = pytest.importorskip("pandas")
    films = pandas.DataFrame({"item": [1, 2, 3, 4], "boost": [0.0, 1.0, 2.0, 3.0]})
    for rows in (films, films[films["boost"] > 0], films.sort_values("boost", ascending=False)):
        for name in ("boosts", "categories"):
            with refuses(ValueError, name, remedy="set_index|rename_axis"):
                mfrank.Steering(**{name: rows["boost"]})
    own = films.set_index("item")["boost"]
    wanted = dict(zip(films["item"], films["boost"], strict=True))
    unnamed = pandas.Series(wanted)
    for ids in (own, unnamed, own.rename_axis("film"), own.set_axis(list("abcd"))):
        boosts = mfrank.Steering(boosts=ids).boosts
        assert list(boosts.values()) == [0.0, 1.0, 2.0, 3.0]
        assert list(boosts) == ids.index.tolist()
