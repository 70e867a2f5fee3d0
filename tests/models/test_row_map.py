"""Users of a descent from their items: the map fits the trained users best, and adds up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.models import row_map
from tests.support.errors import refuses

LOSSES = [mfrank.SampledSoftmax(), mfrank.BPR(), mfrank.SML()]


def labeled() -> mfrank.Interactions:
    """Every user and every item has something."""
    data = mfrank.synthetic(40, 20, 300, random_state=0)
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    return mfrank.Interactions.from_arrays(
        [f"u{user}" for user in users], [f"i{item}" for item in items]
    )


def fitted(loss: Any = LOSSES[1], data: Any = None) -> mfrank.Descent:
    return mfrank.Descent(loss, 3, 4, random_state=0).fit(labeled() if data is None else data)


def likes(n_users: int, n_items: int, seed: int) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(seed).random((n_users, n_items)) < 0.3)


def coordinates(rows: sp.csr_array, items: Any) -> Any:
    """Z of each user, with a 1 for the constant."""
    dense = rows.toarray().astype(float)
    sums = (dense @ items) / np.sqrt(np.maximum(dense.sum(axis=1), 1))[:, None]
    return np.hstack([sums, np.ones((len(sums), 1))])


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 40), st.integers(2, 12), st.integers(1, 4), st.integers(0, 99))
def test_no_other_map_is_nearer_to_the_users(
    n_users: int, n_items: int, width: int, seed: int
) -> None:
    rng, rows = np.random.default_rng(seed), likes(n_users, n_items, seed)
    store = mfrank.FactorStore(rng.standard_normal((n_users, width)), rng.random((n_items, width)))
    found = row_map.RowMap.of(store, rows)
    some = np.diff(rows.indptr) > 0
    z, users = coordinates(rows, store.item_factors)[some], store.user_factors[some]
    ridge = row_map._RIDGE * (z[:, :-1] ** 2).sum() / width

    def loss(matrix: Any, offset: Any) -> float:
        error = users - z @ np.vstack([matrix, offset])
        return float((error**2).sum() + ridge * (matrix**2).sum())

    least = loss(found.matrix, found.offset)
    for _ in range(5):
        step = 1e-3 * rng.standard_normal((width + 1, width))
        assert loss(found.matrix + step[:-1], found.offset + step[-1]) >= least - 1e-9


def test_users_that_are_linear_in_their_items_are_met(monkeypatch: Any) -> None:
    rng, rows = np.random.default_rng(0), likes(60, 20, 1)
    items = rng.standard_normal((20, 3))
    users = coordinates(rows, items) @ rng.standard_normal((4, 3))
    solver = row_map.RowMap.of(mfrank.FactorStore(users, items), rows)
    np.testing.assert_allclose(solver.users(rows)[0], users, rtol=0.02, atol=0.02)
    monkeypatch.setattr(row_map, "_USERS_AT_ONCE", 7)
    by_blocks = row_map.RowMap.of(mfrank.FactorStore(users, items), rows)
    np.testing.assert_allclose(by_blocks.matrix, solver.matrix, atol=1e-9)


def test_cosines_have_the_length_of_all_users_and_distances_lie_in_the_ball() -> None:
    data = labeled()
    cosines = fitted(LOSSES[0]).recalculate_user(data.user_ids.labels, data)
    np.testing.assert_allclose(np.linalg.norm(cosines, axis=1), 1, rtol=1e-5)
    distances = fitted(LOSSES[2])
    factors = distances.recalculate_user(data.user_ids.labels, data)
    assert (np.linalg.norm(factors, axis=1) <= 1 + 1e-6).all()
    asked = data.user_ids.labels[:1], data, 1
    ids, scores = distances.recommend(*asked, recalculate_user=True)
    store, item = distances.store, distances.item_ids.rows(ids[0])[0]
    apart = ((factors[0] - store.item_factors[item]) ** 2).sum()
    assert scores[0, 0] == pytest.approx(-apart / 2, abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_parts_and_baseline_add_up_to_the_score(loss: Any) -> None:
    data = labeled()
    model, user = fitted(loss), data.user_ids.labels[1]
    for item in data.item_ids.labels[:4].tolist():
        own, again = model.explain(user, None, item, 99), model.explain(user, data, item, 99)
        assert own.score == pytest.approx(float(model.score([user], [item])[0]), abs=1e-6)
        solved = model.recommend(
            [user], data, 1, filter_already_liked_items=False, recalculate_user=True, items=[item]
        )
        assert again.score == pytest.approx(float(solved.scores[0, 0]), abs=1e-5)
        for why in (own, again):
            total = sum(part for _, part in why.contributions) + why.baseline
            assert total == pytest.approx(why.score, abs=1e-9)
            assert len(why.contributions) == data.counts.users[1]
        assert own.contributions == again.contributions


def test_somebody_new_ranks_as_a_user_with_the_same_items() -> None:
    data, model = labeled(), fitted()
    own = data.item_ids.raw(data.user_items[[3]].indices)
    new = model.recommend_from_items(own, N=6)
    known = model.recommend([data.user_ids.labels[3]], data, 6, recalculate_user=True)
    assert new.ids.tolist() == known.ids[0].tolist()
    assert not set(new.ids.tolist()) & set(own.tolist())
    nobody = model.recommend_from_items([], N=2, fallback="popularity")
    assert (
        nobody.ids.tolist()
        == mfrank.Popularity().fit(data).recommend_from_items([], 2).ids.tolist()
    )
    assert not np.any(model.recalculate_user("new", sp.csr_array((1, data.n_items))))


def test_a_new_fit_and_a_removal_make_the_map_anew(tmp_path: Path) -> None:
    data, model = labeled(), fitted()
    before = model.recommend_from_items(data.item_ids.labels[:3], N=5)
    model.save(tmp_path / "model")
    loaded = mfrank.Descent.load(tmp_path / "model")
    again = loaded.recommend_from_items(data.item_ids.labels[:3], N=5)
    assert (again.ids.tolist(), again.scores.tolist()) == (
        before.ids.tolist(),
        before.scores.tolist(),
    )
    model.remove(users=data.user_ids.labels[:2])
    after = model.recommend_from_items(data.item_ids.labels[:3], N=5)
    assert not np.array_equal(after.scores, before.scores)
    model.fit(data)
    again = model.recommend_from_items(data.item_ids.labels[:3], N=5)
    assert again.scores.tolist() == before.scores.tolist()


def test_what_cannot_be_solved_is_refused(tmp_path: Path) -> None:
    data, model = labeled(), fitted()
    disliked = sp.csr_array(([-1.0], ([0], [2])), (1, data.n_items))
    with refuses(ValueError, "user_items", remedy=r"at_least\(0\)"):
        model.recalculate_user("new", disliked)
    with refuses(ValueError, "values", remedy=r"at_least\(0\)"):
        model.recommend_from_items(data.item_ids.labels[:2], values=[1, -1])
    model.save(tmp_path / "bare", with_seen=False)
    with refuses(ValueError, None, remedy="with_seen=True"):
        mfrank.load(tmp_path / "bare").recommend_from_items(data.item_ids.labels[:2])
