"""Users and items that are removed: nothing of them is left, and all else is as it was."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import ITEMS, USERS, als, labeled
from problems import toy

import mfrank
from mfrank.store import check_features
from tests.support.errors import refuses

SECRET = "someone@example.org"


def with_secret() -> mfrank.Interactions:
    """The toy data with a user of whom id, factors and items are unlike those of all others."""
    names = [SECRET if user == "u8" else user for user in USERS]
    return mfrank.Interactions.from_sparse(toy(), user_ids=names, item_ids=ITEMS)


def holding(folder: Path, *wanted: bytes) -> list[str]:
    """Files of a folder, hidden ones too, that contain any of the bytes."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return [file.name for file in files if any(each in file.read_bytes() for each in wanted)]


@pytest.mark.parametrize("mapped", [False, True])
def test_no_file_holds_who_was_removed(tmp_path: Path, mapped: bool) -> None:
    model, options = als().fit(with_secret()), {"mmap": mapped}
    row = model.user_ids.rows([SECRET])[0]
    traces = SECRET.encode(), model.user_factors[row].tobytes()
    seen = model.seen.matrix[[row]].indices.astype(np.int32).tobytes()
    model.save(tmp_path / "model")
    assert len(holding(tmp_path, *traces)) == 2  # the id and the factors: they can be found
    assert holding(tmp_path, seen)
    model = mfrank.load(tmp_path / "model", **options)
    assert model.remove(users=SECRET) is model
    model.save(tmp_path / "model")
    assert not holding(tmp_path, *traces)
    left = np.delete(toy().toarray(), row, axis=0)
    again = mfrank.load(tmp_path / "model")
    np.testing.assert_array_equal(again.seen.matrix.toarray(), left != 0)
    np.testing.assert_array_equal(again.store.counts.users, (left != 0).sum(1))
    np.testing.assert_array_equal(again.store.counts.items, (left != 0).sum(0))


def test_no_object_of_the_model_holds_who_was_removed() -> None:
    model = als(track_objective=True).fit(with_secret())
    model.recommend(SECRET, with_secret(), recalculate_user=True)  # which caches a fold-in
    before = model.store
    model.remove(users=[SECRET, SECRET])
    reached, todo = set[int](), [vars(model)]
    while todo:
        one = todo.pop()
        if id(one) in reached:
            continue
        reached.add(id(one))
        assert one is not before
        assert one is not before.user_factors
        assert not (isinstance(one, str) and one == SECRET)
        if isinstance(one, np.ndarray):
            todo.extend([one.base] if one.base is not None else [])
            todo.extend(one.ravel().tolist() if one.dtype == object else [])
        elif isinstance(one, dict):
            todo.extend([*one.keys(), *one.values()])
        elif isinstance(one, list | tuple):
            todo.extend(one)
        elif hasattr(one, "__dict__"):
            todo.append(vars(one))
    assert all(record["objective"] is None for record in model.store.history)
    assert [record["epoch"] for record in model.store.history] == [1, 2, 3]


def test_a_history_keeps_what_is_of_nobody() -> None:
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    model = mfrank.ALS(factors=2, iterations=1, track_objective=True).fit(data)
    model.partial_fit(data, batch="monday")
    before = model.store.history
    kept = ("epoch", "seconds", "batch", "content")
    model.remove(users=[0])
    after = model.store.history
    assert [{name: one.get(name) for name in kept} for one in after] == [
        {name: one.get(name) for name in kept} for one in before
    ]
    assert before[0]["objective"]
    assert all(one.get("objective") is None for one in after)
    assert after[-1]["content"]


@pytest.mark.parametrize("fit", [als, lambda: mfrank.Descent(factors=3, iterations=1)])
def test_all_others_stay_as_they_are(fit: Any) -> None:
    model = fit().fit(labeled())
    others, items = ["u0", "u5", "u8"], ["i0", "i4", "i6"]
    users = model.recommend(others, N=7, filter_items=["i1", "i2"])
    pairs = model.score(others, items)
    model.remove(users=["u1", "u4"], items=["i2", "i1"])
    assert model.user_ids.labels.tolist() == ["u0", "u2", "u3", "u5", "u6", "u7", "u8"]
    assert model.item_ids.labels.tolist() == ["i0", "i3", "i4", "i5", "i6"]
    np.testing.assert_array_equal(model.score(others, items), pairs)
    ids, scores = model.recommend(others, N=7)
    np.testing.assert_array_equal(ids, users.ids)
    np.testing.assert_allclose(scores, users.scores, rtol=1e-6)
    with refuses(mfrank.UnknownIdError, "userid"):
        model.recommend("u4")


def test_row_numbers_stay_the_ids_of_others() -> None:
    model = als().fit(toy())
    listed = model.recommend(8, N=7, filter_items=[1]).ids.tolist()
    model.remove(users=3, items=1)
    assert model.user_ids.labels.tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert model.recommend(8, N=7).ids.tolist() == listed
    model.remove(users=[0, 3], items=[0], by_row=True)  # users 0 and 4, item 0
    assert model.user_ids.labels.tolist() == [1, 2, 5, 6, 7, 8]
    assert model.item_ids.labels.tolist() == [2, 3, 4, 5, 6]


def test_the_model_goes_on_learning() -> None:
    model = als(mfrank.WRMF()).fit(labeled()).remove(users="u4", items="i2")
    score, parts, _ = model.explain("u8", None, "i0")
    assert score == pytest.approx(model.score(["u8"], ["i0"])[0], rel=1e-4)
    assert {name for name, _ in parts} <= set(ITEMS) - {"i2"}
    data = labeled()
    model.partial_fit_users(["u4"], data.take(data.user_items.indices != 2))
    assert model.user_ids.labels[-1] == "u4"


FITS = [als, mfrank.EASE, mfrank.ItemFilter, mfrank.ItemKNN, mfrank.Popularity]


@pytest.mark.parametrize("fit", FITS)
def test_everybody_can_leave(fit: Any) -> None:
    model = fit().fit(labeled()).remove(users=USERS)
    assert model.store.n_users == 0
    assert model.store.counts.items.tolist() == [0] * 7
    model = fit().fit(labeled()).remove(items=ITEMS)
    assert model.store.n_items == 0
    assert model.store.counts.users.tolist() == [0] * 9


@pytest.mark.parametrize("fit", FITS[1:])
def test_no_file_of_item_models_holds_who_was_removed(fit: Any, tmp_path: Path) -> None:
    model = fit().fit(with_secret())
    model.save(tmp_path / "model")
    assert holding(tmp_path, SECRET.encode())
    model = mfrank.load(tmp_path / "model").remove(users=SECRET, items=["i2"])
    model.save(tmp_path / "model")
    assert not holding(tmp_path, SECRET.encode())
    again = mfrank.load(tmp_path / "model")
    left = np.delete(np.delete(toy().toarray(), 8, axis=0), 2, axis=1)
    np.testing.assert_array_equal(again.seen.matrix.toarray(), left != 0)
    with refuses(mfrank.UnknownIdError, "userid"):
        again.recommend(SECRET)


def test_a_window_keeps_what_is_left_of_it() -> None:
    times = [1, 5, 6, 7, 9]
    users, items = ["a", "b", "c", "a", "d"], ["x", "x", "y", "z", "z"]
    data = mfrank.Interactions.from_arrays(users, items, timestamps=times)
    model = mfrank.Popularity(window=4).fit(data)
    model.remove(users="c", items="x")
    assert model.store.item_factors[:, 0].tolist() == [0, 2]
    late = mfrank.Interactions.from_arrays(["b"], ["y"], timestamps=[12])
    model.partial_fit(late)
    assert model.item_ids.labels.tolist() == ["y", "z"]
    assert model.store.item_factors[:, 0].tolist() == [1, 1]


def test_calls_under_way_end_with_the_model_as_it_was() -> None:
    """Whatever the moment, a list is of one store and its own seen items."""
    data = mfrank.synthetic(300, 60, 3000, names=True)
    model = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(data)
    asked = data.user_ids.labels[250:].tolist()
    own = {
        user: set(data.item_ids.raw(data.user_items[[row]].indices))
        for row, user in enumerate(data.user_ids.labels)
    }
    wrong, done = list[Any](), threading.Event()

    def serve() -> None:
        while not done.is_set():
            try:
                lists = model.recommend(asked, N=60).ids
                wrong.extend(
                    user for user, ids in zip(asked, lists, strict=True) if own[user] & set(ids)
                )
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=serve) for _ in range(2)]
    for reader in readers:
        reader.start()
    for user in data.user_ids.labels[:60].tolist():
        model.remove(users=user)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[:3]


@pytest.mark.parametrize(
    ("arguments", "error", "argument"),
    [
        ({}, ValueError, "users"),
        ({"users": ["u1", "nobody"]}, mfrank.UnknownIdError, "users"),
        ({"items": 99, "by_row": True}, mfrank.UnknownIdError, "items"),
    ],
)
@pytest.mark.parametrize("fit", [als, mfrank.EASE, mfrank.ItemFilter, mfrank.Popularity])
def test_what_cannot_be_removed_is_refused(
    fit: Any, arguments: dict[str, Any], error: type[Exception], argument: str
) -> None:
    model = fit().fit(labeled())
    before = model.store
    with refuses(error, argument):
        model.remove(**arguments)
    assert model.store is before


def test_models_that_cannot_remove_say_so(tmp_path: Path) -> None:
    with refuses(TypeError, remedy="fit it anew"):
        mfrank.SupervisedPageRank().remove(users="u1")
    for model in (als(), mfrank.EASE(), mfrank.ItemKNN(), mfrank.Popularity()):
        model.fit(labeled()).save(tmp_path, with_seen=False)
        with refuses(ValueError, "with_seen", remedy="with_seen=True"):
            mfrank.load(tmp_path).remove(users="u1")


def test_counts_are_of_entries_whatever_their_values() -> None:
    """Of values that are no ones, and of one below 0, which is an entry, too."""
    values = toy().toarray() * np.arange(2, 9)
    values[0, np.flatnonzero(values[0])[0]] *= -1
    model = als(mfrank.WRMF()).fit(mfrank.Interactions.from_sparse(sp.csr_array(values)))
    model.remove(users=[4, 0], items=[3], by_row=True)
    left = np.delete(np.delete(values, [0, 4], axis=0), 3, axis=1)
    np.testing.assert_array_equal(model.store.counts.users, (left != 0).sum(1))
    np.testing.assert_array_equal(model.store.counts.items, (left != 0).sum(0))


def test_the_prior_of_others_stays_theirs(tmp_path: Path) -> None:
    store = als().fit(labeled()).store
    prior = np.arange(1.0, len(ITEMS) + 1)
    model = mfrank.Recommender.of(replace(store, item_prior=prior, counts=None))
    model.remove(items=["i5", "i0"], users="u1")
    kept = [1, 2, 3, 4, 6]
    np.testing.assert_array_equal(model.store.item_prior, prior[kept])
    assert model.item_ids.labels.tolist() == [f"i{row}" for row in kept]
    again = mfrank.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.store.item_prior, prior[kept])


@pytest.mark.parametrize("sides", [("user",), ("item",), ("user", "item")])
def test_features_of_others_stay_theirs(sides: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    data = labeled()
    sizes = {"user": len(data.user_ids), "item": len(data.item_ids)}
    model = als().fit(data, **{f"{side}_features": rng.random((sizes[side], 2)) for side in sides})
    before = model.store
    model.remove(users=USERS[2], items=ITEMS[1])
    kept = {"user": np.arange(sizes["user"]) != 2, "item": np.arange(sizes["item"]) != 1}
    assert set(model.store.extras) == set(before.extras)
    for side in sides:
        weights, means = f"{side}_feature_weights", f"{side}_feature_means"
        np.testing.assert_array_equal(model.store.extras[weights], before.extras[weights])
        np.testing.assert_array_equal(model.store.extras[means], before.extras[means][kept[side]])
    check_features(model.store)


def test_a_store_without_counts_has_none_afterwards() -> None:
    store = replace(als().fit(labeled()).store, counts=None)
    left = mfrank.Recommender.of(store).remove(users=USERS[0]).store
    assert left.counts is None
    np.testing.assert_array_equal(left.user_factors, store.user_factors[1:])


def test_nor_has_one_that_was_saved_with_what_was_seen(tmp_path: Path) -> None:
    als().fit(labeled()).save(tmp_path / "m")
    store = replace(mfrank.FactorStore.load(tmp_path / "m"), counts=None)
    model = mfrank.Recommender.of(store).remove(users=USERS[0])
    assert model.store.counts is None
    assert model.seen is not None


def test_extras_of_which_nothing_is_known_are_refused() -> None:
    store = replace(als().fit(labeled()).store, counts=None, extras={"shares": np.ones(3)})
    with refuses(TypeError, remedy="fit anew without them"):
        mfrank.Recommender.of(store).remove(users=USERS[0])
