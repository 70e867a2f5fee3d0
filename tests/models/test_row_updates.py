"""Updates of every model: what is new is known, ranked and seen, as after a fit to all of it."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.models import partial_fit, row_map
from tests.support.errors import refuses


def named(users: Any, items: Any) -> mfrank.Interactions:
    return mfrank.Interactions.from_arrays([f"u{u}" for u in users], [f"i{i}" for i in items])


@cache
def days() -> tuple[mfrank.Interactions, mfrank.Interactions]:
    """Two days of distinct cells; the second has users and items that the first has not."""
    drawn = mfrank.synthetic(60, 30, 800, random_state=0)
    users, items = drawn.entry_users, drawn.user_items.indices
    late = (np.random.default_rng(1).random(drawn.nnz) < 0.15) | (users >= 54) | (items >= 27)
    return named(users[~late], items[~late]), named(users[late], items[late])


ALS = mfrank.ALS(mfrank.IALS(), factors=4, iterations=3, random_state=0)
COSINES = mfrank.Descent(mfrank.SampledSoftmax(), 3, 3, random_state=0)
MODELS: dict[str, Any] = {
    "als": lambda: ALS,
    "cosines": lambda: COSINES,
    "dots": lambda: mfrank.Descent(mfrank.BPR(), 3, 3, random_state=0),
    "distances": lambda: mfrank.Descent(mfrank.SML(), 3, 3, random_state=0),
    "ease": lambda: mfrank.EASE(20.0),
    "filter": mfrank.ItemFilter,
    "knn": mfrank.ItemKNN,
    "popularity": mfrank.Popularity,
    "blend": lambda: mfrank.Blend([ALS, COSINES], [1, 0.5]),
    "blend with links": lambda: mfrank.Blend([mfrank.EASE(20.0), COSINES, ALS], [1, 0.5, 0.4]),
}


def fitted(kind: str) -> Any:
    model = MODELS[kind]()
    return type(model)(**model.get_params(deep=False)).fit(days()[0])


@pytest.fixture(params=MODELS)
def kind(request: Any) -> str:
    return str(request.param)


@pytest.mark.parametrize("kind", ["ease", "filter", "knn", "popularity"])
def test_models_of_one_step_are_those_of_a_fit_to_all(kind: str) -> None:
    before, after = days()
    model, whole = fitted(kind).partial_fit(after), MODELS[kind]().fit(before + after)
    users, items = (before + after).user_ids.labels, (before + after).item_ids.labels
    pairs = np.repeat(users, len(items)), np.tile(items, len(users))
    np.testing.assert_allclose(model.score(*pairs), whole.score(*pairs), atol=1e-5)


def test_a_batch_is_taken_up_once(kind: str, caplog: Any) -> None:
    model = fitted(kind).partial_fit(days()[1], batch="monday")
    users = model.user_ids.labels[:5]
    before = model.recommend(users, N=5)
    with caplog.at_level(logging.INFO):
        model.partial_fit(days()[1], batch="monday")
    assert "applied before" in caplog.text
    assert caplog.text.count("applied before") == 1
    again = model.recommend(users, N=5)
    assert again.ids.tolist() == before.ids.tolist()
    np.testing.assert_array_equal(again.scores, before.scores)
    store = model.store
    assert model.partial_fit(days()[1], batch="monday").store is store


def test_a_saved_model_takes_up_the_same(kind: str, tmp_path: Path) -> None:
    fitted(kind).save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model").partial_fit(days()[1], batch="tuesday")
    here = fitted(kind).partial_fit(days()[1], batch="tuesday")
    users = here.user_ids.labels
    assert loaded.recommend(users, N=6).ids.tolist() == here.recommend(users, N=6).ids.tolist()
    loaded.save(tmp_path / "model")
    again = mfrank.load(tmp_path / "model")
    again.partial_fit(days()[1], batch="tuesday")
    assert again.recommend(users, N=6).ids.tolist() == here.recommend(users, N=6).ids.tolist()


def test_nothing_new_changes_no_score_of_others() -> None:
    model = fitted("dots")
    before = model.store
    one = named([3], [4])
    model.partial_fit(one)
    untouched = model.user_ids.labels != "u3"
    np.testing.assert_array_equal(model.user_factors[untouched], before.user_factors[untouched])
    others = model.item_ids.labels != "i4"
    np.testing.assert_array_equal(model.item_factors[others], before.item_factors[others])


def test_lists_leave_out_what_an_update_says(kind: str) -> None:
    model = fitted(kind).leave_out(days()[0])
    bought = named([1], [2])
    model.partial_fit(days()[1], leave_out=bought)
    whole = days()[0] + days()[1]
    assert model.recommend("u55", N=whole.n_items).ids.tolist().count(None) < whole.n_items
    assert "i2" not in model.recommend("u1", N=whole.n_items).ids.tolist()


def test_the_maps_of_a_descent_are_met_by_items_that_are_linear_in_their_users() -> None:
    rng = np.random.default_rng(0)
    likes = sp.csr_array(rng.random((80, 40)) < 0.3)
    users = rng.standard_normal((80, 2))
    counts = np.diff(likes.T.tocsr().indptr)
    sums = (likes.T @ users) / np.sqrt(counts)[:, None]
    inputs = np.column_stack([sums, np.ones(40), np.log1p(counts)])
    outputs = inputs @ rng.standard_normal((4, 3))
    known = mfrank.FactorStore(users, outputs[:30, :2], item_biases=outputs[:30, 2])
    new = mfrank.Interactions.from_sparse(likes[:, 30:])
    old = sp.csr_array(likes[:, :30].astype(np.float32))
    late = mfrank.Interactions.from_arrays(new.entry_users, new.user_items.indices + 30)
    delta = partial_fit.Delta.of(known, old, late, 1.0)
    made, _ = row_map.descended(known, row_map.RowMap.of(known, old), delta, old)
    rows = made.item_ids.rows(np.arange(30, 40))
    np.testing.assert_allclose(made.item_factors[rows], outputs[30:, :2], rtol=0.05, atol=0.05)
    np.testing.assert_allclose(made.item_biases[rows], outputs[30:, 2], rtol=0.05, atol=0.05)


def test_an_old_item_keeps_of_what_the_map_does_not_explain_the_share_that_is_old() -> None:
    rng = np.random.default_rng(0)
    likes = sp.csr_array(rng.random((300, 400)) < 0.2)
    later = sp.csr_array(
        ([1.0] * 40, (np.flatnonzero(likes[:, [7]].toarray() == 0)[:40], [7] * 40))
    )
    later.resize(likes.shape)
    users = rng.standard_normal((300, 2))

    def inputs(rows: sp.csr_array) -> Any:
        counts = np.diff(rows.T.tocsr().indptr)
        sums = (rows.T @ users) / np.sqrt(counts)[:, None]
        return np.column_stack([sums, np.ones(400), np.log1p(counts)])

    linear = rng.standard_normal((4, 3))
    outputs = inputs(likes) @ linear
    outputs[7] += 2  # unexplained
    known = mfrank.FactorStore(users, outputs[:, :2], item_biases=outputs[:, 2])
    old = sp.csr_array(likes.astype(np.float32))
    delta = partial_fit.Delta.of(known, old, mfrank.Interactions.from_sparse(later), 1.0)
    made, _ = row_map.descended(known, row_map.RowMap.of(known, old), delta, old)
    n_old = int(likes[:, [7]].sum())
    wanted = (inputs(sp.csr_array(likes + later)) @ linear)[7] + 2 * n_old / (n_old + 40)
    found = np.append(made.item_factors[7], made.item_biases[7])
    np.testing.assert_allclose(found, wanted, atol=0.3)  # without a share: 0.8 away
    np.testing.assert_array_equal(
        np.delete(made.item_factors, 7, 0), np.delete(outputs[:, :2], 7, 0)
    )


def test_what_cannot_be_taken_up_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    disliked = mfrank.Interactions.from_arrays(["u1"], ["i1"], [-1.0])
    for kind in ("dots", "blend"):
        model = fitted(kind)
        store = model.store
        with refuses(ValueError, "new", remedy="at_least"):
            model.partial_fit(disliked)
        assert model.store is store
    model = fitted("cosines")
    model.save(tmp_path / "bare", with_seen=False)
    with refuses(ValueError, None, remedy="with_seen=True"):
        mfrank.load(tmp_path / "bare").partial_fit(days()[1])
    timed = mfrank.Interactions.from_arrays(["a", "b"], ["x", "y"], timestamps=[1, 2])
    with refuses(ValueError, None, remedy="window=None"):
        mfrank.Popularity(window=1).fit(timed).partial_fit(days()[1])


@pytest.mark.parametrize("window", [1, 20, 70, 500])
def test_a_window_moves_on_as_a_fit_to_all_would(window: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(window)
    columns = rng.integers(0, 12, 150), rng.integers(0, 9, 150), np.sort(rng.integers(0, 100, 150))
    whole = mfrank.Interactions.from_arrays(*columns[:2], None, columns[2], timestamp_unit="s")
    model = mfrank.Popularity(window=window)
    for begin, end in ((0, 60), (60, 61), (61, 150)):
        part = [column[begin:end] for column in columns]
        day = mfrank.Interactions.from_arrays(*part[:2], None, part[2], timestamp_unit="s")
        model = model.fit(day) if not begin else model.partial_fit(day)
        model.save(tmp_path / "model")
        model = mfrank.Popularity.load(tmp_path / "model")
    other = mfrank.Popularity(window=window).fit(whole)
    scores = [each.score([0] * 9, whole.item_ids.labels) for each in (model, other)]
    np.testing.assert_array_equal(*scores)
