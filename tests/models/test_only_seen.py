"""What a threshold drops is known to the user: no list of any model has it, by whatever door."""

from __future__ import annotations

import csv
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.data import from_npz
from mfrank.pages.site import Site, blended
from mfrank.serving.answers import recommendations

N_USERS, N_ITEMS = 24, 18

Lists = Mapping[Any, set[Any]]
"""The items of each user's list."""


def ratings(seed: int = 0, *, names: bool = True) -> mfrank.Interactions:
    """Half of all cells, with ratings 1 to 5 and times; every item has a rating of 5."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random((N_USERS, N_ITEMS)) < 0.5)
    cells = np.unique(np.vstack([cells, [(0, item) for item in range(N_ITEMS - 3)]]), axis=0)
    values = rng.integers(1, 6, len(cells))
    values[cells[:, 0] == 0] = 5
    users, items = (
        np.array([f"{k}{n:02}" for n in side]) for k, side in zip("ui", cells.T, strict=True)
    )
    given = (users, items) if names else tuple(cells.T)
    return mfrank.Interactions.from_arrays(*given, values, rng.integers(0, 1000, len(cells)))


def rated(raw: mfrank.Interactions) -> Lists:
    found: dict[Any, set[Any]] = {user: set() for user in raw.user_ids.labels.tolist()}
    users, items = raw.user_ids.raw(raw.entry_users), raw.item_ids.raw(raw.user_items.indices)
    for user, item in zip(users.tolist(), items.tolist(), strict=True):
        found[user].add(item)
    return found


MODELS: Mapping[str, Callable[[], Any]] = {
    "wrmf": lambda: mfrank.ALS(mfrank.WRMF(), factors=3, iterations=2, random_state=0),
    "ials biases": lambda: mfrank.ALS(factors=3, iterations=2, random_state=0, biases=True),
    "rg2 on reference": lambda: mfrank.ALS(
        mfrank.RG2(), factors=3, iterations=1, random_state=0, backend="reference"
    ),
    "descent": lambda: mfrank.Descent(mfrank.BPR(), factors=3, iterations=1, random_state=0),
    "popularity": mfrank.Popularity,
    "popular of late": lambda: mfrank.Popularity(window=500),
    "item-knn": mfrank.ItemKNN,
    "ease": mfrank.EASE,
    "item-filter": mfrank.ItemFilter,
    "walk": lambda: mfrank.SupervisedPageRank(method=None),
}


def by_user(users: Any, ids: Any) -> Lists:
    nobody = None, -1
    return {
        user: {item for item in row if item not in nobody}
        for user, row in zip(users, np.asarray(ids).tolist(), strict=True)
    }


def recommend(model: Any, data: Any, _: Path, **options: Any) -> Lists:
    users = data.user_ids.labels.tolist()
    return by_user(users, model.recommend(users, N=N_ITEMS, **options).ids)


def each_alone(model: Any, data: Any, _: Path) -> Lists:
    users = data.user_ids.labels.tolist()
    return {user: by_user([user], [model.recommend(user, N=5).ids])[user] for user in users}


def by_row(model: Any, data: Any, _: Path) -> Lists:
    ids = model.recommend(np.arange(data.n_users), N=N_ITEMS, by_row=True).ids
    return by_user(data.user_ids.labels.tolist(), data.item_ids.raw(ids))


def given_anew(model: Any, data: Any, _: Path) -> Lists:
    users = data.user_ids.labels.tolist()
    return by_user(users, model.recommend(users, data, N_ITEMS).ids)


def folded_in(model: Any, data: Any, _: Path) -> Lists:
    users = data.user_ids.labels.tolist()
    return by_user(users, model.recommend(users, data, N_ITEMS, recalculate_user=True).ids)


def in_files(model: Any, data: Any, folder: Path) -> Lists:
    model.recommend_all(folder / "lists", N=N_ITEMS, format="csv")
    found: dict[Any, set[Any]] = {user: set() for user in data.user_ids.labels.tolist()}
    for part in (folder / "lists").glob("part-*.csv"):
        for row in csv.DictReader(part.read_text().splitlines()):
            found[row["user"]].add(row["item"])
    return found


def users_of_items(model: Any, data: Any, _: Path) -> Lists:
    if not hasattr(model, "recommend_users") or isinstance(model, mfrank.SupervisedPageRank):
        pytest.skip("ranks no users")
    items = data.item_ids.labels.tolist()
    try:
        listed = by_user(items, model.recommend_users(items, N=N_USERS).ids)
    except TypeError:
        pytest.skip("ranks no users")
    users = data.user_ids.labels.tolist()
    return {user: {item for item in items if user in listed[item]} for user in users}


def steered(model: Any, data: Any, folder: Path) -> Lists:
    levers = mfrank.Steering(boosts={"i03": 100.0}, popularity_penalty=0.5)
    return recommend(model, data, folder, steer=levers)


def saved(model: Any, data: Any, folder: Path) -> Lists:
    return recommend(mfrank.load(model.save(folder / "m")), data, folder)


def mapped(model: Any, data: Any, folder: Path) -> Lists:
    return recommend(mfrank.load(model.save(folder / "m"), mmap=True), data, folder)


def saved_twice(model: Any, data: Any, folder: Path) -> Lists:
    again = mfrank.load(mfrank.load(model.save(folder / "m")).save(folder / "n"))
    return recommend(again, data, folder)


def pickled(model: Any, data: Any, folder: Path) -> Lists:
    return recommend(pickle.loads(pickle.dumps(model)), data, folder)


def served(model: Any, data: Any, _: Path) -> Lists:
    users = data.user_ids.labels.tolist()
    listed = recommendations(model, users, N_ITEMS, include_seen=False)
    return {user: {each["id"] for each in row} for user, row in zip(users, listed, strict=True)}


def explored(model: Any, data: Any, _: Path) -> Lists:
    site = Site({"it": model}, data, None)
    users = data.user_ids.labels.tolist()
    return {user: {each["id"] for each in site.recommend(0, user, N_ITEMS)} for user in users}


def by_faiss(model: Any, data: Any, folder: Path) -> Lists:
    pytest.importorskip("faiss", reason="the package faiss is optional")
    if not isinstance(model, mfrank.ALS | mfrank.Descent):
        pytest.skip("has no factors")
    users = data.user_ids.labels.tolist()
    if model.store.user_biases is not None:
        pytest.skip("has biases")
    index = mfrank.to_faiss(model.store, folder / "items.faiss")
    return by_user(users, mfrank.FaissLists(model, index).recommend(users, N_ITEMS).ids)


DOORS: Mapping[str, Callable[[Any, Any, Path], Lists]] = {
    door.__name__: door
    for door in (
        recommend,
        each_alone,
        by_row,
        given_anew,
        folded_in,
        in_files,
        users_of_items,
        steered,
        saved,
        mapped,
        saved_twice,
        pickled,
        served,
        explored,
        by_faiss,
    )
}


@pytest.fixture(scope="module")
def fits() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", MODELS)
def test_no_list_has_what_the_user_rated(
    fits: dict[str, Any], tmp_path: Path, name: str, door: str
) -> None:
    raw = ratings()
    data = raw.at_least(4)
    if name not in fits:
        fits[name] = MODELS[name]().fit(data)
    lists, known = DOORS[door](fits[name], data, tmp_path), rated(raw)
    assert lists.keys() == known.keys()
    assert sum(map(len, lists.values()))
    for user, items in lists.items():
        assert not items & known[user]


def test_a_blend_leaves_out_what_the_user_rated() -> None:
    raw = ratings()
    data = raw.at_least(4)
    models = [MODELS[name]().fit(data) for name in ("wrmf", "descent")]
    known, users = rated(raw), data.user_ids.labels.tolist()
    both = mfrank.Recommender.of(mfrank.blend(models[0].store, models[1].store, 0.5))
    lists = by_user(users, both.recommend(users, data, N_ITEMS).ids)
    site = Site({"one": models[0], "two": models[1]}, raw, None)
    for user in users:
        listed = {each["id"] for each in blended(site, user, 0.5, N_ITEMS)}
        assert listed == lists[user]
        assert not listed & known[user]


def test_a_reranker_neither_lists_nor_learns_from_what_the_user_rated() -> None:
    pytest.importorskip("catboost", reason="the extra rerank is not installed")
    raw = ratings()
    split = mfrank.by_ratio(raw.at_least(4), train=0.6, valid=0.4, test=0, random_state=0)
    first = MODELS["wrmf"]().fit(split.train)
    model = mfrank.Reranker(first, candidates=8, iterations=2, random_state=0)
    model.fit(split.train, split.valid)
    dropped, users = rated(split.train.seen_only), raw.user_ids.labels.tolist()
    assert sum(map(len, dropped.values()))
    for user, items in by_user(users, model.recommend(users, N=8)[0]).items():
        assert not items & dropped[user]


def test_a_search_gives_a_model_that_leaves_out_what_the_user_rated() -> None:
    raw = ratings(1)
    found = mfrank.tune(raw.at_least(4), trials=3, factors=4, n_threads=1)
    for user, items in recommend(found.model, raw, Path()).items():
        assert not items & rated(raw)[user]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_the_same_whether_or_not_the_rest_is_seen(name: str) -> None:
    raw = ratings()
    one, other = (MODELS[name]().fit(raw.at_least(4, keep_seen=k)) for k in (True, False))
    ids = [
        model.recommend("u01", N=N_ITEMS, filter_already_liked_items=False)
        for model in (one, other)
    ]
    np.testing.assert_array_equal(ids[0].ids, ids[1].ids)
    np.testing.assert_array_equal(ids[0].scores, ids[1].scores)
    np.testing.assert_array_equal(one.store.counts.items, other.store.counts.items)
    listed = recommend(other, raw, Path())
    assert any(items & rated(raw)[user] for user, items in listed.items())  # they may be said to be


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), threshold=st.integers(1, 5), n=st.integers(1, N_ITEMS))
def test_whatever_is_rated_is_in_no_list(seed: int, threshold: int, n: int) -> None:
    raw = ratings(seed, names=bool(seed % 2))
    model = mfrank.Popularity().fit(raw.at_least(threshold))
    users = raw.user_ids.labels.tolist()
    for user, items in by_user(users, model.recommend(users, N=n).ids).items():
        assert not items & rated(raw)[user]


def test_no_rated_film_is_recommended_on_real_data(data_dir: Path) -> None:
    raw = from_npz(data_dir / "ml-100k")
    data = raw.at_least(4)
    assert (data.nnz, data.seen_only.nnz) == (55_375, 44_625)
    ids = mfrank.Popularity().fit(data).recommend(np.arange(raw.n_users), N=10, by_row=True).ids
    own = np.zeros((raw.n_users, raw.n_items), dtype=bool)
    own[raw.entry_users, raw.user_items.indices] = True
    assert not own[np.arange(len(ids))[:, None], ids].any()


# partial_fit, removal, and what fades


def test_new_low_ratings_are_seen_and_high_ones_are_learned(tmp_path: Path) -> None:
    raw = ratings()
    model = MODELS["wrmf"]().fit(raw.at_least(4))
    free = sorted(set(raw.item_ids.labels) - rated(raw)["u01"])[:2]
    was_low = rated(raw.at_least(4).seen_only)["u01"].copy().pop()
    new = mfrank.Interactions.from_arrays(
        ["u01", "u01", "u01", "new", "new"], [*free, was_low, "i00", "i01"], [2, 5, 5, 1, 4]
    )
    model.partial_fit(new.at_least(4))
    row = model.user_ids.rows(["u01"])[0]
    liked = set(model.item_ids.raw(model.seen.positives[[row]].indices))
    assert {free[1], was_low} <= liked
    assert free[0] not in liked
    for again in (model, mfrank.load(model.save(tmp_path / "m"))):
        listed = recommend(again, again, tmp_path)
        assert not listed["u01"] & {*free, *rated(raw)["u01"]}
        assert not listed["new"] & {"i00", "i01"}
        assert listed["new"]


@pytest.mark.parametrize("loaded", [False, True])
def test_removal_counts_only_what_was_learned(tmp_path: Path, loaded: bool) -> None:
    raw = ratings()
    model = MODELS["ials biases"]().fit(raw.at_least(4))
    if loaded:
        model = mfrank.load(model.save(tmp_path / "m"))
    model.remove(users=["u05"], items=["i04"])
    rest = raw.take((raw.entry_users != 5) & (raw.user_items.indices != 4)).at_least(4)
    kept = np.delete(np.arange(N_USERS), 5), np.delete(np.arange(N_ITEMS), 4)
    np.testing.assert_array_equal(model.store.counts.users, rest.counts.users[kept[0]])
    np.testing.assert_array_equal(model.store.counts.items, rest.counts.items[kept[1]])
    for user, items in recommend(model, model, tmp_path).items():
        assert not items & rated(raw)[user]


@pytest.mark.parametrize("loaded", [False, True])
def test_rows_that_are_solved_anew_keep_what_was_only_seen(tmp_path: Path, loaded: bool) -> None:
    raw = ratings()
    data = raw.at_least(4)
    model = MODELS["ials biases"]().fit(data)
    if loaded:
        model = mfrank.load(model.save(tmp_path / "m"))
    user, item = ["u02", "newcomer"], ["i02", "novelty"]
    low = sorted(rated(data.seen_only)["u02"])[0]
    anew = mfrank.Interactions.from_arrays(
        ["u02", "u02", "newcomer", "newcomer"], [low, "i03", "i05", "i06"], [5, 5, 5, 1]
    )
    model.partial_fit_users(user, anew.at_least(4))
    assert model.store.counts.users[model.user_ids.rows(user)].tolist() == [2, 1]
    listed = recommend(model, model, tmp_path)
    assert not listed["u02"] & {low, "i03", *rated(data.seen_only)["u02"]}
    assert not listed["newcomer"] & {"i05", "i06"}
    back = mfrank.Interactions.from_arrays(["u01", "u03"], ["i02", "novelty"])
    model.partial_fit_items(item, back)
    assert model.store.counts.items[model.item_ids.rows(item)].tolist() == [1, 1]
    listed = recommend(model, model, tmp_path)
    assert all(
        "i02" not in items
        for u, items in listed.items()
        if "i02" in rated(data.seen_only).get(u, ())
    )


@pytest.mark.parametrize("loaded", [False, True])
def test_an_update_beside_given_likes_keeps_what_was_only_seen(
    tmp_path: Path, loaded: bool
) -> None:
    data = ratings().at_least(4)
    model = MODELS["ials biases"]().fit(data)
    if loaded:
        model = mfrank.load(model.save(tmp_path / "m"))
    new = mfrank.Interactions.from_arrays(["newcomer"], ["i05"])
    model.partial_fit(new, user_items=data.user_items)
    listed = recommend(model, model, tmp_path)
    only, liked = rated(data.seen_only), rated(data)
    assert all(
        not items & (only[user] | liked[user]) for user, items in listed.items() if user in only
    )


def test_a_fit_to_what_is_seen_explains_by_what_is_liked() -> None:
    raw = ratings()
    data = raw.at_least(4)
    model = MODELS["wrmf"]().fit(data)
    told = model.explain("u03", None, "i01", N=N_ITEMS)
    assert {item for item, _ in told.contributions} == rated(data)["u03"]
    np.testing.assert_allclose(
        model.recalculate_user("u03", data),
        model.recalculate_user("u03", raw.at_least(4, keep_seen=False)),
    )


@pytest.mark.parametrize("save", [False, True])
def test_values_that_fade_to_nothing_stay_seen(tmp_path: Path, save: bool) -> None:
    """Halved 200 times, a value is 0 in float32: the user still has the item."""
    first = mfrank.Interactions.from_arrays(
        *zip(*[(f"u{u}", f"i{i}") for u in range(8) for i in range(8) if (u + i) % 3], strict=True)
    )
    model = mfrank.ALS(mfrank.WRMF(), factors=2, iterations=2, random_state=0).fit(first)
    today = mfrank.Interactions.from_arrays(["u0"], ["i1"])
    for _ in range(200):
        model.partial_fit(today, alternations=1, decay=0.5)
    assert model.seen.positives.nnz == 1
    assert model.store.counts.users.sum() == 1
    if save:
        model = mfrank.load(model.save(tmp_path / "m"))
    for user, items in by_user(
        first.user_ids.labels, model.recommend(first.user_ids.labels, N=8).ids
    ).items():
        assert not items & rated(first)[user]


@pytest.mark.parametrize("by", ["one weight", "many halvings", "arrays", "matrix"])
def test_weights_that_become_nothing_leave_what_was_seen(by: str) -> None:
    raw = ratings().at_least(1, binary=True)
    data = raw
    tiny = np.where(np.arange(raw.nnz) % 2, 1e-300, 1.0)
    if by == "one weight":
        data = raw.weighted(np.arange(raw.nnz) % 2)
    elif by == "many halvings":
        for _ in range(160):
            data = data.weighted(np.where(np.arange(data.nnz) % 7, 1.0, 0.5))
    elif by == "arrays":
        ids = raw.user_ids.raw(raw.entry_users), raw.item_ids.raw(raw.user_items.indices)
        data = mfrank.Interactions.from_arrays(*ids, tiny)
    else:
        pairs = raw.entry_users, raw.user_items.indices
        matrix = sp.coo_array((tiny.astype(np.longdouble), pairs), raw.user_items.shape)
        ids = {"user_ids": raw.user_ids, "item_ids": raw.item_ids}
        data = mfrank.Interactions.from_sparse(matrix, **ids)
    assert 0 < data.nnz < raw.nnz
    model = mfrank.ItemKNN().fit(data)
    for user, items in recommend(model, raw, Path()).items():
        assert not items & rated(raw)[user]


def test_what_cancels_stays_seen() -> None:
    first = mfrank.Interactions.from_arrays(["a", "a", "b", "b"], ["x", "y", "x", "z"])
    model = mfrank.ALS(mfrank.WRMF(), factors=2, random_state=0).fit(first)
    model.partial_fit(mfrank.Interactions.from_arrays(["a"], ["x"], [-1.0]))
    assert model.seen.positives.nnz == 3
    assert set(model.recommend("a", N=3).ids) - {None} == {"z"}
