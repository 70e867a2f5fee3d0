"""Faiss indexes of a model: exact lists from them, and which indexes are not of the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from stores import store

import mfrank
from tests.support.errors import refuses

faiss = pytest.importorskip("faiss", reason="the package faiss is optional")
DATA = mfrank.synthetic(60, 40, 500, random_state=0)


def fitted() -> mfrank.ALS:
    return mfrank.ALS(factors=6, iterations=2, random_state=0).fit(DATA)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_faiss_lists_are_those_of_the_model(tmp_path: Path, dtype: str) -> None:
    model = mfrank.ALS(factors=6, iterations=2, dtype=dtype, random_state=0).fit(DATA)
    lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
    users = DATA.user_ids.labels
    for N in (3, 40):
        found = lists.recommend(users, N=N, filter_items=[2, 5])
        expected = model.recommend(users, N=N, filter_items=[2, 5])
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-6)
        assert found.exact.all()
    one = lists.recommend(users[3], N=3, filter_already_liked_items=False)
    assert one.ids[0].tolist() == (
        model.recommend(users[3], N=3, filter_already_liked_items=False).ids.tolist()
    )


def test_faiss_lists_tell_which_are_exact(tmp_path: Path) -> None:
    model = fitted()
    users = DATA.user_ids.labels
    path = mfrank.to_faiss(model.store, tmp_path / "items")
    found = mfrank.FaissLists(model, path).recommend(users, N=4, fetch=6)
    expected = model.recommend(users, N=4)
    assert 0 < found.exact.sum() < len(users)
    np.testing.assert_array_equal(found.ids[found.exact], expected.ids[found.exact])
    near = mfrank.to_faiss(model.store, tmp_path / "near", factory="HNSW8")
    approximate = mfrank.FaissLists(model, near).recommend(users, N=4)
    assert not approximate.exact.any()
    seen = DATA.user_items.toarray() > 0
    asked = list[int]()
    index = faiss.read_index(str(path))
    search, index.search = index.search, lambda vectors, k: asked.append(k) or search(vectors, k)
    mfrank.FaissLists(model, index).recommend(users, N=4, fetch=6)
    assert {*asked} == {6}
    assert not any(
        seen[row, item]
        for row, ids in enumerate(approximate.ids)
        for item in DATA.item_ids.rows(ids[ids >= 0])
    )


def test_faiss_gives_the_factors_back(tmp_path: Path) -> None:
    saved = store(user_factors=np.ones((4, 2), "f"), item_factors=np.ones((3, 2), "f"))
    users = mfrank.to_faiss(saved, tmp_path / "users", "user")
    items = mfrank.to_faiss(saved, tmp_path / "items")
    back = mfrank.from_faiss(users, items, user_ids=saved.user_ids, item_ids=saved.item_ids)
    asked = ["user 1", "user 3"], [8, 15]
    np.testing.assert_allclose(
        mfrank.Recommender.of(back).score(*asked), mfrank.Recommender.of(saved).score(*asked), 1e-6
    )
    plain = fitted().store
    users = mfrank.to_faiss(plain, tmp_path / "users", "user")
    items = mfrank.to_faiss(plain, tmp_path / "items")
    back = mfrank.from_faiss(users, items)
    np.testing.assert_array_equal(back.user_factors, plain.user_factors)
    np.testing.assert_array_equal(back.item_factors, plain.item_factors)


def test_faiss_refuses_by_name(tmp_path: Path) -> None:
    model = fitted()
    path = mfrank.to_faiss(model.store, tmp_path / "items", factory="HNSW8")
    with refuses(ValueError, "factory"):
        mfrank.to_faiss(model.store, path, factory="Flatt")
    with refuses(ValueError, None, remedy="mfrank.to_faiss"):
        mfrank.from_faiss(path, path)
    with refuses(ValueError, "index"):
        mfrank.FaissLists(mfrank.Recommender.of(store()), path)
    with refuses(ValueError, None, remedy="mfrank.to_faiss"):
        mfrank.FaissLists(model, faiss.IndexFlatL2(6))
    (tmp_path / "junk").write_bytes(b"junk")
    with refuses(ValueError, None, remedy="mfrank.to_faiss"):
        mfrank.FaissLists(model, tmp_path / "junk")
    with pytest.raises(FileNotFoundError):
        mfrank.FaissLists(model, tmp_path / "none")
    lists = mfrank.FaissLists(model, path)
    with refuses(ValueError, "fetch"):
        lists.recommend([1], N=4, fetch=3)
    with refuses(mfrank.UnknownIdError, "userid"):
        lists.recommend([1000])
    with refuses(mfrank.UnknownIdError, "filter_items"):
        lists.recommend([1], filter_items=[1000])
    with refuses(ValueError, "filter_items", remedy="marked, such as ids"):
        lists.recommend([1], filter_items=np.zeros(model.store.n_items, int))
    with refuses(TypeError, "userid"):
        lists.recommend({1, 2})


def test_a_set_of_filtered_items_and_the_length_of_lists(tmp_path: Path) -> None:
    model = fitted()
    lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
    users = DATA.user_ids.labels
    found = lists.recommend(users, filter_items={2, 5})
    np.testing.assert_array_equal(found.ids, model.recommend(users, filter_items={2, 5}).ids)
    with refuses(ValueError, "N"):
        lists.recommend(users, N=0)
    assert lists.recommend(users, N=1).ids.shape == (60, 1)


def test_items_that_nobody_met_leave_their_places_to_others(tmp_path: Path) -> None:
    """Though their factors are the largest, so that an index has them first."""
    rng = np.random.default_rng(0)
    unmet = (np.arange(30) % 3 == 0).astype(np.float32)
    likes = (rng.random((8, 30)) < 0.4) * (1 - unmet)
    fit = mfrank.ALS(factors=4, random_state=0).fit(sp.csr_array(likes)).store
    model = mfrank.Recommender.of(
        replace(
            fit,
            user_factors=rng.random((8, 4), np.float32),
            item_factors=rng.random((30, 4), np.float32) + 5 * unmet[:, None],
        )
    )
    lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
    for N in (3, 12, 25):
        found = lists.recommend(np.arange(8), N, filter_already_liked_items=False)
        expected = model.recommend(np.arange(8), N=N, filter_already_liked_items=False)
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.exact.all()
    short = lists.recommend(np.arange(8), 3, filter_already_liked_items=False, fetch=4)
    assert not short.exact.any()
    assert (short.ids == -1).all()


def test_an_index_serves_on_while_only_users_change(tmp_path: Path) -> None:
    model = fitted()
    lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
    for user in (1000, 1001):
        model.partial_fit_users(user, sp.csr_array(np.eye(1, 40, 3, np.float32)))
        found = lists.recommend([1, user], N=4)
        np.testing.assert_array_equal(found.ids, model.recommend([1, user], N=4).ids)
    with pytest.raises(mfrank.UnknownIdError):
        lists.recommend([1002])


def test_users_whose_likes_are_unknown_are_not_filtered_silently(tmp_path: Path) -> None:
    model = mfrank.Recommender.of(fitted().store)
    lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
    with refuses(
        ValueError, "filter_already_liked_items", remedy="filter_already_liked_items=False"
    ):
        lists.recommend([1])


@pytest.mark.parametrize("at_once", [7, 10, 1 << 16])
@pytest.mark.parametrize("kind", ["Flat", "HNSW8", "IVF2,Flat", "SQ8", "SQ4", "PQ2x4"])
def test_each_vector_of_an_index_is_that_of_its_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, at_once: int
) -> None:
    monkeypatch.setattr("mfrank.models.faiss_index._COMPARED", at_once)

    def index_of(store: mfrank.FactorStore, factors: Any) -> Any:
        moved = replace(store, item_factors=factors)
        return mfrank.to_faiss(moved, tmp_path / "items", factory=kind)

    for shift in (0, 3):  # all vectors point in about one direction then
        store, items = fitted().store, fitted().item_factors + np.float32(shift)
        model = mfrank.Recommender.of(replace(store, item_factors=items))
        assert mfrank.FaissLists(model, index_of(store, items)).index.ntotal == 40
        others = [np.roll(items, 1, 0), items[::-1]]
        if "Q" not in kind:  # those that keep vectors as they are
            others += [np.r_[items[1:2], items[1:]], np.r_[items[:-1], items[:1]]]
        for factors in others:
            with refuses(ValueError, "index", remedy=r"make it with mfrank\.to_faiss"):
                mfrank.FaissLists(model, index_of(store, factors))


@pytest.mark.parametrize("value", [0, 0.03, 300.1])
def test_items_all_alike_have_an_index_of_their_own(tmp_path: Path, value: float) -> None:
    """Where each vector is as near to the next one's as to its own, rounding decides nothing."""
    alike = mfrank.FactorStore(np.ones((4, 8), np.float32), np.full((300, 8), value, np.float32))
    model = mfrank.Recommender.of(alike)
    for kind in ("SQ8", "SQ4", "SQfp16"):
        mfrank.FaissLists(model, mfrank.to_faiss(alike, tmp_path / "items", factory=kind))


def test_an_index_that_gives_no_vectors_back_is_trusted() -> None:
    """It is not asked for several at once: faiss would end the process."""
    model = fitted()
    shards = faiss.IndexShards(6)
    parts = [faiss.IndexFlatIP(6) for _ in range(2)]
    for part, vectors in zip(parts, np.split(model.item_factors, 2), strict=True):
        part.add(vectors)
        shards.add_shard(part)
    users = DATA.user_ids.labels
    found = mfrank.FaissLists(model, shards).recommend(users, N=5)
    np.testing.assert_array_equal(found.ids, model.recommend(users, N=5).ids)
    assert not found.exact.any()


def test_faiss_refuses_wrong_kinds_of_arguments(tmp_path: Path) -> None:
    model = fitted()
    path = mfrank.to_faiss(model.store, tmp_path / "items")
    for call, argument in [
        (lambda: mfrank.to_faiss(model, path), "store"),
        (lambda: mfrank.to_faiss(model.store, path, factory=3), "factory"),
        (lambda: mfrank.FaissLists(model.store, path), "model"),
        (lambda: mfrank.FaissLists(model, model.item_factors), "index"),
    ]:
        with refuses(TypeError, argument):
            call()
    with refuses(ValueError, "side"):
        mfrank.to_faiss(model.store, path, "items")
    users = mfrank.to_faiss(
        mfrank.FactorStore(np.ones((2, 3)), np.ones((1, 3))), tmp_path / "u", "user"
    )
    with refuses(ValueError, "user_factors"):
        mfrank.from_faiss(users, path)


def test_a_faiss_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mfrank.to_faiss(fitted().store, tmp_path / "items")
    old = path.read_bytes()

    def full(*_: Any) -> None:
        raise RuntimeError("Error in faiss::FileIOWriter at io.cpp:9: disk full")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(OSError, match="cannot be written: disk full"):
        mfrank.to_faiss(store(item_prior=None), path)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["items"]
