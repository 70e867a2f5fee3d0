"""Neighbors are the nearest by cosine, and lists the sums of their cosines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import toy

import mfrank
from mfrank import Interactions, ItemKNN
from mfrank.models import nearest_items
from tests.support.errors import refuses

N_USERS, N_ITEMS = 25, 12


def data_of(seed: int = 0, density: float = 0.3) -> Interactions:
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 3, (N_USERS, N_ITEMS)) * (rng.random((N_USERS, N_ITEMS)) < density)
    users, items = np.nonzero(values)
    return Interactions.from_arrays(
        users,
        items,
        values[users, items],
        shape=(N_USERS, N_ITEMS),
        user_ids=[f"u{row}" for row in range(N_USERS)],
        item_ids=[f"i{row}" for row in range(N_ITEMS)],
    )


def cosines_of(data: Interactions) -> np.ndarray[Any, Any]:
    columns = data.user_items.toarray().astype(np.float64)
    lengths = np.linalg.norm(columns, axis=0)
    cosines = (
        columns.T @ columns / np.where(lengths, lengths, 1) / np.where(lengths, lengths, 1)[:, None]
    )
    np.fill_diagonal(cosines, 0)
    return cosines


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 6), st.sampled_from([-2, 1, 1, 3])), max_size=30
    ),
    st.integers(1, 8),
)
def test_neighbors_are_the_nearest(rows, k):
    users, items, values = np.array(rows, dtype=int).reshape(-1, 3).T
    data = Interactions.from_arrays(users, items, values, shape=(6, 7), duplicates="max")
    cosines, near = cosines_of(data), nearest_items(data.user_items, k)
    assert near.has_canonical_format
    found = near.toarray()
    for item in range(7):
        chosen = found[item] > 0
        np.testing.assert_allclose(found[item, chosen], cosines[item, chosen], rtol=1e-12)
        positive = np.count_nonzero(cosines[item] > 1e-9)
        assert np.count_nonzero(chosen) == min(k, positive)
        left = cosines[item, ~chosen]
        assert not chosen.any() or left.max(initial=0) <= found[item, chosen].min() + 1e-12


@pytest.mark.parametrize("power", [-200, -30, 30, 200])
def test_cosines_are_those_of_values_of_any_size(power: int) -> None:
    """Squares of the values would be infinite, or 0."""
    matrix = data_of().user_items.astype(np.float64)
    scaled = sp.csr_array(matrix * 10.0**power)
    np.testing.assert_allclose(
        nearest_items(scaled, 5).toarray(), nearest_items(matrix, 5).toarray(), rtol=1e-12
    )


def test_values_that_cancel_make_no_neighbors() -> None:
    """And items at the end that nobody has are nobody's."""
    near = nearest_items(sp.csr_array([[1.0, 1.0, 2.0, 0.0], [1.0, -1.0, 0.0, 0.0]]), 3)
    assert near.shape == (4, 4)
    assert near.nnz == 4
    assert (near.data > 0).all()


def test_among_equals_the_lower_rows_are_near():
    near = nearest_items(sp.csr_array(np.ones((3, 6))), 2)
    assert near.indices.reshape(6, 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]


@pytest.mark.filterwarnings("ignore:Method expects CSR")  # implicit's of its own matrices
def test_neighbors_are_those_of_implicit():
    theirs = pytest.importorskip("implicit.nearest_neighbours", reason="implicit is not installed")
    data = data_of(1, 0.5)
    other = theirs.CosineRecommender(K=5, num_threads=1)  # an item is the first of its neighbors
    other.fit(data.to_scipy(), show_progress=False)
    expected = other.similarity.toarray()
    np.fill_diagonal(expected, 0)
    similarity = ItemKNN(neighbors=4).fit(data).similarity.toarray()
    np.testing.assert_allclose(similarity, expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_neighbors_do_not_depend_on_the_scale_of_values(scale):
    data = data_of(2)
    scaled = sp.csr_array(data.user_items.astype(np.float64) * scale**5)
    np.testing.assert_allclose(
        nearest_items(scaled, 3).toarray(), nearest_items(data.user_items, 3).toarray(), rtol=1e-6
    )


@pytest.mark.parametrize("n", [1, 5, 20])
def test_lists_are_sums_of_cosines(n):
    data = data_of(3)
    model = ItemKNN(neighbors=3).fit(data)
    rows = data.user_items.toarray().astype(np.float64)
    scores = rows @ model.similarity.toarray()
    ids, listed = model.recommend(data.user_ids.labels, N=n)
    for user in range(N_USERS):
        left = [item for item in range(N_ITEMS) if not rows[user, item] and scores[user, item]]
        best = sorted(left, key=lambda item: (-round(scores[user, item], 12), item))[:n]
        assert ids[user].tolist() == [f"i{i}" for i in best] + [None] * (n - len(best))
        np.testing.assert_allclose(listed[user, : len(best)], scores[user, best], atol=1e-12)
    users = np.repeat(data.user_ids.labels[:3], N_ITEMS)
    pairs = model.score(users, np.tile(data.item_ids.labels, 3))
    np.testing.assert_allclose(pairs.reshape(3, -1), scores[:3], atol=1e-12)


def test_filters_are_kept():
    data = data_of(4)
    model = ItemKNN().fit(data)
    ids, _ = model.recommend("u3", N=12, filter_items=["i1", "i5"])
    assert {"i1", "i5"}.isdisjoint(ids.tolist())
    ids, _ = model.recommend(
        ["u3", "u0"], N=3, items=["i2", "i4"], filter_already_liked_items=False
    )
    assert [set(row) for row in ids.tolist()] == [{"i2", "i4", None}] * 2
    with pytest.raises(mfrank.UnknownIdError):
        model.recommend("nobody")


def test_rows_that_are_given_are_scored_as_those_of_the_fit():
    data = data_of(5)
    model = ItemKNN().fit(data)
    known = model.recommend(["u4", "u9"], N=4)
    again = model.recommend(["u4", "u9"], data, N=4, recalculate_user=True)
    stranger = model.recommend(["x", "y"], data.to_scipy()[[4, 9]], N=4, recalculate_user=True)
    for other in (again, stranger):
        np.testing.assert_array_equal(other[0], known[0])
        np.testing.assert_array_equal(other[1], known[1])
    with refuses(ValueError, "user_items"):
        model.recommend("x", data.to_scipy()[[4]] * np.nan, recalculate_user=True)
    with refuses(ValueError, "recalculate_user"):
        model.recommend("x", recalculate_user=True)


def test_similar_items_are_the_neighbors():
    data = data_of(6)
    model = ItemKNN(neighbors=3).fit(data)
    ids, scores = model.similar_items(["i2", "i7"], N=6)
    for row, item in enumerate((2, 7)):
        near = model.similarity[[item]]
        order = np.argsort(-near.data, kind="stable")
        expected = [f"i{item}", *(f"i{i}" for i in near.indices[order])]
        assert ids[row].tolist() == expected + [None] * (6 - len(expected))
        assert scores[row, : len(expected)].tolist() == [1, *near.data[order]]
    assert "i2" not in model.similar_items("i2", N=3, filter_items=["i2"])[0].tolist()


def test_what_there_is_not_is_refused():
    with pytest.raises(mfrank.NotFittedError):
        ItemKNN().similarity  # noqa: B018
    with pytest.raises(mfrank.NotFittedError):
        ItemKNN().recommend(0)
    model = ItemKNN().fit(toy())
    with refuses(TypeError, remedy="use recommend"):
        model.recommend_users(0)
    with refuses(TypeError, remedy="use similar_items"):
        model.similar_users(0)
    with refuses(ValueError, "neighbors"):
        ItemKNN(neighbors=0)
    with refuses(TypeError, "callback"):
        model.fit(toy(), callback=3)


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_loaded_answers_alike(tmp_path: Path, mmap: bool):
    model = ItemKNN(neighbors=4).fit(data_of(7))
    model.save(tmp_path / "model")
    for loaded in (mfrank.load(tmp_path / "model", mmap=mmap), ItemKNN.load(tmp_path / "model")):
        assert isinstance(loaded, ItemKNN)
        assert loaded.get_params() == {"neighbors": 4, "own_items": 0.0}
        for mine, theirs in zip(loaded.recommend(["u0"]), model.recommend(["u0"]), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert (loaded.similarity != model.similarity).nnz == 0
        loaded.save(tmp_path / "again")


@pytest.mark.parametrize("name", ["neighbors", "neighbors_indices", "values_indptr", "values"])
def test_a_damaged_model_is_refused(tmp_path: Path, name: str):
    store = ItemKNN().fit(data_of(8)).store
    for extras in (
        {key: array for key, array in store.extras.items() if key != name},
        {**store.extras, name: store.extras[name][1:].copy()},
        {**store.extras, name: np.full_like(store.extras[name], -7)},
    ):
        if name in ("neighbors", "values") and name in extras and (extras[name] == -7).all():
            continue  # any finite value is a value
        replace(store, extras=extras).save(tmp_path / "bad")
        with refuses(ValueError, None, place="the neighbors saved with the store"):
            mfrank.load(tmp_path / "bad")


def test_blocks_change_nothing(monkeypatch):
    data = data_of(9)
    model = ItemKNN(neighbors=5).fit(data)
    whole = model.recommend(data.user_ids.labels)
    monkeypatch.setattr("mfrank.retrieval.scored_lists._CELLS_AT_ONCE", 3 * N_ITEMS)
    monkeypatch.setattr("mfrank.models.item_links._CELLS_AT_ONCE", 2 * N_ITEMS)
    again = ItemKNN(neighbors=5).fit(data)
    assert (again.similarity != model.similarity).nnz == 0
    for mine, theirs in zip(again.recommend(data.user_ids.labels), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_planted_neighborhood_is_found_and_weights_are_data():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 5, 200)
    likes = rng.random((200, 40)) < np.where(groups[:, None] == np.arange(40) % 5, 0.5, 0.05)
    split = mfrank.by_ratio(sp.csr_array(likes.astype(float)), train=0.8, test=0.2)
    popular = mfrank.evaluate(mfrank.Popularity().fit(split.train), split.test)["ndcg@10"].value
    for train in (split.train, mfrank.bm25_weight(split.train), mfrank.tfidf_weight(split.train)):
        model = ItemKNN(neighbors=7).fit(train)
        assert mfrank.evaluate(model, split.test)["ndcg@10"].value > 1.5 * popular
    table = mfrank.compare(split, models={"kNN": ItemKNN()}, repeats=1, peak_memory=False)
    assert table["kNN"].library.startswith("mfrank")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 30.0]))
def test_own_items_are_given_their_mean_values(seed, own_items):
    """After a fit, an update and a removal alike; others have the scores of without."""
    data = data_of(seed)
    plain, model = (ItemKNN(4, each).fit(data) for each in (0.0, own_items))
    values = data.user_items.toarray().astype(np.float64)
    users = (values > 0).sum(axis=0)
    means = (values.sum(axis=0) + 2 * values[values > 0].mean()) / (users + 2)
    scores = values @ plain.similarity.toarray() + own_items * values * means
    rows, columns = np.divmod(np.arange(values.size), N_ITEMS)
    found = model.score(rows, columns, by_row=True).reshape(values.shape)
    np.testing.assert_allclose(found, scores, rtol=1e-6)
    np.testing.assert_array_equal(
        *(each.similar_items("i3", N=4).ids.tolist() for each in (plain, model))
    )
    user = int(np.argmax((values > 0).sum(axis=1)))  # another may have none, and then no list
    listed = model.recommend(f"u{user}", N=3, filter_already_liked_items=False)
    best = np.argsort(-scores[user], kind="stable")[:3]
    assert listed.ids.tolist() == [f"i{row}" for row in best]
    part = np.arange(data.nnz) % 3 > 0
    updated = ItemKNN(4, own_items).fit(data.take(part)).partial_fit(data.take(~part))
    np.testing.assert_allclose(
        updated.similarity.toarray(), model.similarity.toarray(), rtol=0, atol=1e-6
    )
    left = data.take(data.entry_users != 2)
    np.testing.assert_allclose(
        model.remove(users="u2").similarity.toarray(),
        ItemKNN(4, own_items).fit(left).similarity.toarray(),
        rtol=0,
        atol=1e-6,
    )


def test_own_items_are_not_below_zero():
    with refuses(ValueError, "own_items"):
        ItemKNN(own_items=-1)
