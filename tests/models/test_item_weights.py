"""Linear item-to-item models solve what their docstrings say, and rank by it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import OutOfTimeError, time_limit
from mfrank.models import ease, item_links, item_regressions
from mfrank.store import pack_neighbors, unpack_neighbors
from tests.support.errors import refuses

MODELS = [mfrank.EASE(3.0, 100, 0.5, 0.5), mfrank.ItemFilter(neighbors=100)]


def likes_of(n_users: int, n_items: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random((n_users, n_items)) < 0.25).astype(float)


def fitted(model: mfrank.Recommender, likes: np.ndarray) -> mfrank.Recommender:
    return model.fit(sp.csr_array(likes))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(2, 30),
    st.floats(0.5, 100.0),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 9),
)
def test_ease_is_stationary(
    n_users: int, n_items: int, ridge: float, user_power: float, item_power: float, seed: int
) -> None:
    """Off the diagonal, the gradient of the loss is 0; so with more items than users as well."""
    likes = likes_of(n_users, n_items, seed)
    likes[0, 0] = 1
    assert_stationary(likes, ridge, user_power, item_power)


@pytest.mark.parametrize("likes", [[[1, 1]], [[1, 1, 0], [0, 0, 0]], [[1, 1, 1, 1], [0, 0, 1, 1]]])
def test_ease_is_stationary_where_all_users_count_less_than_one_item(likes: list[Any]) -> None:
    assert_stationary(np.array(likes, dtype=float), 2.0, 1.0, 1.0)


def assert_stationary(
    likes: np.ndarray, ridge: float, user_power: float, item_power: float
) -> None:
    model = mfrank.EASE(ridge, likes.shape[1], user_power, item_power)
    weights = fitted(model, likes).similarity.toarray()
    of_users = np.maximum(likes.sum(axis=1), 1) ** -user_power
    of_users *= likes.sum() / (of_users @ likes).sum()
    mass = of_users @ likes
    ridges = ridge * np.where(mass > 0, mass / mass.mean(), 1) ** item_power
    gradient = likes.T @ (of_users[:, None] * (likes @ weights - likes)) + ridges[:, None] * weights
    np.fill_diagonal(gradient, 0)
    assert not weights.diagonal().any()
    assert model.similarity.data.all()  # no zero is stored
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


@pytest.mark.parametrize(("ridge", "is_exact"), [(1.0, True), (0.01, True), (1e-6, False)])
def test_ease_inverts_in_float32_where_that_is_exact_enough(
    monkeypatch: pytest.MonkeyPatch, ridge: float, is_exact: bool
) -> None:
    likes = likes_of(120, 40)
    likes[:, 1] = likes[:, 0]  # singular but for the ridge
    model = mfrank.EASE(ridge, 40, 0.5, 0.5)
    double = fitted(model, likes).similarity.toarray()
    monkeypatch.setattr(ease, "_SINGLE_FROM", 1)
    found = fitted(model, likes).similarity.toarray()
    np.testing.assert_allclose(found, double, atol=2e-3 * np.abs(double).max())
    assert np.array_equal(found, double) != is_exact


@pytest.mark.parametrize("user_power", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("item_power", [0.0, 0.5, 1.0])
def test_the_filter_is_the_product_of_normalized_matrices(
    user_power: float, item_power: float
) -> None:
    likes = likes_of(20, 12)
    likes[:, 3] = likes[5] = 0
    likes[2, 3] = 1  # an item of one user, and a user without items
    model = fitted(mfrank.ItemFilter(user_power, item_power, neighbors=12), likes)
    users, items = (np.maximum(likes.sum(axis), 1.0) for axis in (1, 0))
    links = (
        (items**-item_power)[:, None]
        * (likes.T @ (likes * (users**-user_power)[:, None]))
        * items ** (item_power - 1)
    )
    np.fill_diagonal(links, 0)
    np.testing.assert_allclose(model.similarity.toarray(), links, atol=1e-12)


@pytest.mark.parametrize("filtered", [True, False])
def test_lists_of_the_filter_follow_its_formula(filtered: bool) -> None:
    """With the seen-filter they are GF-CF's; without it, an item does not recommend itself."""
    likes = likes_of(20, 12)
    users, items = (np.maximum(likes.sum(axis), 1.0) for axis in (1, 0))
    links = items**-0.5 * (likes.T / users @ likes * (items**-0.5)[:, None])
    whole = likes @ links
    np.fill_diagonal(links, 0)
    scores = likes @ links
    model = fitted(mfrank.ItemFilter(neighbors=12), likes)
    everybody = np.arange(20)
    found = model.recommend(everybody, N=12, filter_already_liked_items=filtered)
    for user, (ids, values) in enumerate(zip(found.ids, found.scores, strict=True)):
        listed = ids[ids >= 0]
        linked = scores[user] != 0
        wanted = linked & (likes[user] == 0) if filtered else linked
        assert set(listed) == set(np.flatnonzero(wanted))
        np.testing.assert_allclose(values[ids >= 0], scores[user, listed], atol=1e-12)
        assert (np.diff(values[ids >= 0]) <= 0).all()
        unseen = listed[likes[user, listed] == 0]
        np.testing.assert_allclose(scores[user, unseen], whole[user, unseen], atol=1e-12)
    np.testing.assert_allclose(
        model.score(np.repeat(everybody, 12), np.tile(np.arange(12), 20)),
        scores.ravel(),
        atol=1e-12,
    )


@pytest.mark.parametrize("model", MODELS, ids=["EASE", "ItemFilter"])
@pytest.mark.parametrize("kept", [1, 4])
def test_the_strongest_weights_are_kept(model: mfrank.Recommender, kept: int) -> None:
    likes = likes_of(20, 12)
    every = fitted(model, likes).similarity.toarray()
    few = fitted(type(model)(**{**vars_of(model), "neighbors": kept}), likes).similarity.toarray()
    for row, all_of_it in zip(few, every, strict=True):
        chosen = row != 0
        assert np.count_nonzero(chosen) == min(kept, np.count_nonzero(all_of_it))
        np.testing.assert_allclose(row[chosen], all_of_it[chosen])
        assert np.abs(row[chosen]).min() >= np.abs(all_of_it[~chosen]).max() - 1e-12


def vars_of(model: mfrank.Recommender) -> dict[str, object]:
    return model.get_params()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12))
def test_blocks_are_as_large_as_their_links_allow(widths: list[int], most: int) -> None:
    ends = item_links._block_ends(np.array(widths, dtype=float), most)
    assert ends[-1:] == [len(widths)][: len(widths)]
    for begin, end in pairwise([0, *ends]):
        assert begin < end
        assert sum(widths[begin:end]) <= most or end == begin + 1
        assert end == len(widths) or sum(widths[begin : end + 1]) > most


@pytest.mark.parametrize("model", MODELS, ids=["EASE", "ItemFilter"])
def test_only_what_is_liked_counts(model: mfrank.Recommender, tmp_path: Path) -> None:
    likes = likes_of(20, 12)
    values = np.where(likes > 0, np.arange(1, 13), 0.0)
    values[likes == 0] = -1.0 * (np.arange((likes == 0).sum()) % 2)
    plain = fitted(model, likes).recommend(np.arange(20), N=5, user_items=sp.csr_array(likes))
    told = fitted(model, values)
    other = told.recommend(np.arange(20), N=5, user_items=sp.csr_array(likes))
    np.testing.assert_array_equal(plain.ids, other.ids)
    again = told.recommend(
        np.arange(20), sp.csr_array(values), N=5, recalculate_user=True, by_row=True
    )
    saved = mfrank.load(told.save(tmp_path / "model"))
    assert type(saved) is type(model)
    np.testing.assert_array_equal(saved.similarity.toarray(), told.similarity.toarray())
    listed = again.ids >= 0
    assert listed.sum() > 80
    scores = np.take_along_axis(likes @ told.similarity.toarray(), again.ids, 1)
    np.testing.assert_allclose(again.scores[listed], scores[listed], atol=1e-9)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: mfrank.EASE(0.0), "regularization"),
        (lambda: mfrank.EASE(neighbors=0), "neighbors"),
        (lambda: mfrank.EASE(candidates=0), "candidates"),
        (lambda: mfrank.EASE(user_power=1.5), "user_power"),
        (lambda: mfrank.EASE(item_power="x"), "item_power"),
        (lambda: mfrank.ItemFilter(1.5), "user_power"),
        (lambda: mfrank.ItemFilter(1.0, -0.1), "item_power"),
        (lambda: mfrank.ItemFilter(neighbors=0), "neighbors"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: object, argument: str) -> None:
    with refuses(ValueError, argument):
        make()  # type: ignore[operator]


def test_an_inverse_that_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.arrays.memory.memory_there_is", lambda: 1000)
    for model in (mfrank.EASE(), mfrank.EASE(candidates=5)):
        with refuses(MemoryError, "candidates", remedy="use fewer candidates"):
            fitted(model, likes_of(20, 12))
    few = np.eye(30, 20) * (np.arange(30) < 3)[:, None]
    with refuses(MemoryError, "candidates", remedy="at most 6 of them"):
        fitted(mfrank.EASE(), few)


@pytest.mark.parametrize(
    ("model", "shape", "looks"),
    [
        (MODELS[0], (60, 40), 5 + 2 * 24 + 2 * 9),  # blocks, pairs of blocks, rows
        (MODELS[0], (40, 60), 5 + 2 * 24 + 2 * 14 + 2 * 14),
        (mfrank.EASE(3.0, candidates=5), (60, 40), 3 * 9),
        (MODELS[1], (60, 40), 2 * 9),
        (mfrank.ItemKNN(), (60, 40), 2 * 9),
    ],
    ids=["EASE of items", "EASE of users", "EASE of candidates", "ItemFilter", "ItemKNN"],
)
def test_a_fit_is_given_up_in_its_midst(
    monkeypatch: pytest.MonkeyPatch, model: Any, shape: tuple[int, int], looks: int
) -> None:
    """Wherever the time ends: the clock goes on by a second whenever it is looked at."""
    monkeypatch.setattr(ease, "BLOCK", 8)
    monkeypatch.setattr(item_regressions, "_AT_ONCE", 4)
    for module in (ease, item_links):
        monkeypatch.setattr(module, "rows_at_once", lambda n_columns: 4)
    data = sp.csr_array(likes_of(*shape))

    def fit(seconds: float) -> int:
        looked = list[int]()

        def clock() -> float:
            looked.append(1)
            return float(len(looked))

        with time_limit(seconds, clock):
            model.fit(data)
        return len(looked)

    whole = fit(1e9)
    assert whole > looks
    for seconds in (whole * 0.5, whole * 0.9):
        with pytest.raises(OutOfTimeError):
            fit(seconds)


def test_what_a_fit_takes_is_known_before_it() -> None:
    """Half of what a docstring says: 7 GiB for 30,000 items, float32 from 4,096 items on."""
    for sides in ((100_000, 30_000), (30_000, 100_000)):
        assert mfrank.EASE.bytes_needed(*sides) == 8 * 30_000 * (30_000 + 4 * 512)
    for sides, tried in (
        ((4_096, 4_096), True),
        ((9_000, 4_096), True),
        ((9_000, 4_095), False),
        ((4_096, 4_097), False),
    ):
        assert mfrank.EASE.inverts_in_float32(*sides) is tried


def test_algebra_is_refused_where_an_address_space_has_no_room_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """192 MiB, and 48 MiB for each core, are what OpenBLAS was seen to take."""
    monkeypatch.setattr(ease, "usable_cores", lambda: 4)
    rest = 384 << 20
    monkeypatch.setattr(ease, "address_space_left", lambda: float(1000 + rest))
    ease.load_algebra(1000, "a fit", "do otherwise")
    with pytest.raises(MemoryError, match=r"a fit would need .*ulimit -v.*do otherwise"):
        ease.load_algebra(1001, "a fit", "do otherwise")
    needed = mfrank.EASE.bytes_needed(20, 12)
    monkeypatch.setattr(ease, "address_space_left", lambda: float(needed + rest - 1))
    with pytest.raises(MemoryError, match=r"EASE of 20 users and 12 items would need"):
        fitted(mfrank.EASE(), likes_of(20, 12))
    monkeypatch.setattr(ease, "address_space_left", lambda: -5.0)
    with pytest.raises(MemoryError, match=r"ulimit -v leaves 0"):
        fitted(mfrank.EASE(), likes_of(20, 12))


def test_a_matrix_that_cannot_be_inverted_names_the_option() -> None:
    for candidates in (None, 2):
        with pytest.raises(FloatingPointError, match="a regularization of 1e-300; raise it"):
            fitted(mfrank.EASE(1e-300, candidates=candidates), np.ones((4, 4)))


@pytest.mark.parametrize("model", MODELS, ids=["EASE", "ItemFilter"])
def test_zeros_of_a_given_row_are_no_likes(
    model: mfrank.Recommender, caplog: pytest.LogCaptureFixture
) -> None:
    likes = likes_of(20, 12)
    likes[:, 0] = 1
    told = fitted(model, likes)
    with_zeros = sp.csr_array(likes + 1.0)
    with_zeros.data -= 1.0
    caplog.set_level("INFO", "mfrank")
    caplog.clear()
    options = {"N": 5, "recalculate_user": True, "filter_already_liked_items": False}
    found = told.recommend(np.arange(20), with_zeros, **options)
    np.testing.assert_array_equal(
        found.ids, told.recommend(np.arange(20), sp.csr_array(likes), **options).ids
    )
    assert not caplog.records


def test_neighbors_of_other_items_are_damage() -> None:
    store = fitted(mfrank.ItemFilter(), likes_of(20, 12)).store
    near, values = unpack_neighbors(store.extras, 20, 12)
    fewer = replace(store, extras=pack_neighbors(near[:-1], values))
    with refuses(ValueError, "neighbors", remedy="restore it"):
        mfrank.ItemFilter._from_store(fewer).recommend(0)
