"""Models of one step: an update is a fit to all, and a removal a fit without what was removed."""

from __future__ import annotations

import itertools
import pickle
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.models import ease, held_inverse, item_links

MODELS: dict[str, Any] = {
    "knn": lambda: mfrank.ItemKNN(3),
    "all neighbors": lambda: mfrank.ItemKNN(),
    "filter": lambda: mfrank.ItemFilter(neighbors=3),
    "filter of equal users": lambda: mfrank.ItemFilter(0.0, 0.3, neighbors=2),
    "ease": lambda: mfrank.EASE(2.0),
    "ease with powers": lambda: mfrank.EASE(3.0, 30, 0.5, 0.5),
    "popularity": lambda: mfrank.Popularity(),
}
EXACT = {"knn", "all neighbors", "filter", "filter of equal users", "popularity"}
ROWS = st.tuples(st.integers(0, 9), st.integers(0, 8), st.sampled_from([1.0, 1.0, 2.0, -1.0]))
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=12), min_size=1, max_size=3)


def named(rows: Any) -> mfrank.Interactions:
    users, items, values = zip(*rows, strict=True)
    ids = [f"u{user}" for user in users], [f"i{item}" for item in items]
    return mfrank.Interactions.from_arrays(*ids, list(values), duplicates="sum")


def joined(rows: Any, *cuts: int) -> mfrank.Interactions:
    """All rows, with ids in the order of parts that end at the cuts."""
    ends = [0, *cuts, len(rows)]
    return mfrank.Interactions.concat(
        [named(rows[begin:end]) for begin, end in itertools.pairwise(ends)]
    )


def some_data(seed: int = 0, users: int = 80, items: int = 30, n: int = 900) -> Any:
    drawn = mfrank.synthetic(users, items, n, random_state=seed)
    ones = np.ones(drawn.nnz)
    return [*zip(drawn.entry_users.tolist(), drawn.user_items.indices.tolist(), ones, strict=True)]


def check_same(model: Any, whole: Any, *, exact: bool) -> None:
    """Ids, factors, links and values of both are the same, bit by bit or up to rounding."""
    store, fitted = model.store, whole.store
    for side in ("user_ids", "item_ids"):
        assert getattr(store, side).labels.tolist() == getattr(fitted, side).labels.tolist()
    np.testing.assert_array_equal(store.item_factors, fitted.item_factors)
    for name in ("users", "items"):
        np.testing.assert_array_equal(getattr(store.counts, name), getattr(fitted.counts, name))
    if isinstance(model, mfrank.Popularity):
        return
    for mine, theirs in zip(model._fitted()[:2], whole._fitted()[:2], strict=True):
        if exact:
            assert mine.has_canonical_format
            np.testing.assert_array_equal(mine.indptr, theirs.indptr)
            np.testing.assert_array_equal(mine.indices, theirs.indices)
            np.testing.assert_array_equal(mine.data, theirs.data)
        else:
            np.testing.assert_allclose(mine.toarray(), theirs.toarray(), rtol=1e-8, atol=1e-10)


def fitted_as(model: Any, data: mfrank.Interactions) -> Any:
    """A fit with the same options, and the ridge that updates of an EASE with powers keep."""
    options = model.get_params(deep=False)
    if getattr(model, "_kept", None) is not None:
        options["regularization"] *= model._kept.ridge / kind_of(model).of(model._kept.rows)
    return type(model)(**options).fit(data)


def kind_of(model: Any) -> Any:
    return held_inverse.Ridge(model.regularization, model.user_power, model.item_power)


@pytest.fixture(params=MODELS)
def kind(request: Any) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def never_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a fit to all would be quicker, which it is for data as small as these."""
    monkeypatch.setattr(item_links, "_WORTH", 5)
    monkeypatch.setattr(held_inverse, "_WORTH", 2)


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=25, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=40), BATCHES, st.data())
def test_updates_are_a_fit_to_all(kind: str, first: Any, batches: Any, data: Any) -> None:
    """With users and items that are new, cells that repeat, and values that cancel."""
    before = named([*first, (0, 0, 9.0)])
    model = MODELS[kind]().fit(before)
    for rows in batches:
        today = named(rows)
        model.partial_fit(today)
        before = before + today
    check_same(model, fitted_as(model, before), exact=kind in EXACT)
    gone = data.draw(st.sets(st.sampled_from(before.user_ids.labels.tolist()), max_size=4))
    gone_items = data.draw(st.sets(st.sampled_from(before.item_ids.labels.tolist()), max_size=3))
    model.remove(users=sorted(gone), items=sorted(gone_items))
    users, items = (
        before.user_ids.raw(before.entry_users),
        before.item_ids.raw(before.user_items.indices),
    )
    left = ~np.isin(users, sorted(gone)) & ~np.isin(items, sorted(gone_items))
    kept = [
        np.flatnonzero(~np.isin(ids.labels, sorted(out)))
        for ids, out in ((before.user_ids, gone), (before.item_ids, gone_items))
    ]
    if not (before.user_items.data[left] > 0).any():
        return
    matrix = before.take(left).user_items[kept[0]][:, kept[1]]
    labels = [
        ids.labels[at] for ids, at in zip((before.user_ids, before.item_ids), kept, strict=True)
    ]
    without = mfrank.Interactions.from_sparse(matrix, user_ids=labels[0], item_ids=labels[1])
    check_same(model, fitted_as(model, without), exact=kind in EXACT)


def test_the_inverse_of_an_update_is_held_also_with_items_that_nobody_likes() -> None:
    """Their ridge is of no importance, and changes none of the others."""
    model: Any = mfrank.EASE(3.0, 30, 0.5, 0.5)
    model.fit(named([(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)]))
    model.partial_fit(named([(2, 1, 1.0), (3, 2, -1.0)]))
    held, kind = model._kept, kind_of(model)
    rows = held.rows.toarray()
    gram = rows.T @ (kind.of_users(held.rows)[:, None] * rows)
    inverted = gram + held.ridge * np.diag(kind.of_items(held.rows))
    np.testing.assert_allclose(held.matrix @ inverted, np.eye(3), atol=1e-12)


def test_thirty_days_are_a_fit_to_all(kind: str) -> None:
    rows = some_data()
    np.random.default_rng(0).shuffle(rows)
    whole = named(rows[:300])
    model = MODELS[kind]().fit(whole)
    for begin in range(300, 900, 20):
        today = named(rows[begin : begin + 20])
        model.partial_fit(today)
        whole = whole + today
    check_same(model, fitted_as(model, whole), exact=kind in EXACT)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each update or removal since was by the held inverse, and not by a fit."""
    found = list[bool]()
    updated = held_inverse.HeldInverse.updated

    def spied(*args: Any) -> Any:
        made = updated(*args)
        found.append(made is not None)
        return made

    monkeypatch.setattr(held_inverse.HeldInverse, "updated", spied)
    return found


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize("powers", [(0.0, 0.0), (0.5, 0.0), (0.4, 0.6)])
def test_thirty_updates_of_an_inverse_lose_no_accuracy(
    monkeypatch: pytest.MonkeyPatch, quick: list[bool], powers: Any, dtype: Any, error: float
) -> None:
    """Relative to the largest weight; with users and items that are new, and removals between."""
    monkeypatch.setattr(ease, "_SINGLE_FROM", 1 if dtype == np.float32 else 10**9)
    monkeypatch.setattr(ease, "_DRIFT", {True: 1e9, False: 1e9})
    rows = some_data(1, users=300, items=40, n=3000)
    np.random.default_rng(0).shuffle(rows)
    whole = named(rows[:2000])
    model = mfrank.EASE(20.0, 400, *powers).fit(whole)
    for day in range(31):
        today = named([*rows[2000 + 10 * day :][:10], (300 + day, 40 + day // 3, 1.0)])
        model.partial_fit(today)
        whole = whole + today
        if day % 10 == 9:
            user, item = f"u{day}", f"i{day // 2}"
            model.remove(users=user, items=item)
            names = (
                whole.user_ids.raw(whole.entry_users),
                whole.item_ids.raw(whole.user_items.indices),
            )
            whole = whole.take((names[0] != user) & (names[1] != item)).k_core(1)
    assert quick == [True] * 33
    assert model._kept.matrix.dtype == dtype
    weights, rows_of = (
        fitted_as(model, whole).similarity,
        model.item_ids.rows(whole.item_ids.labels),
    )
    difference = np.abs(model.similarity[rows_of][:, rows_of] - weights).max()
    assert difference < error * np.abs(weights).max()


def test_an_inverse_that_is_not_exact_is_made_anew(quick: list[bool]) -> None:
    rows = some_data()
    model = mfrank.EASE(2.0).fit(named(rows[:700])).partial_fit(named(rows[700:800]))
    model._kept.matrix *= 1 + 1e-6
    model.partial_fit(named(rows[800:]))
    assert quick == [False]
    check_same(model, mfrank.EASE(2.0).fit(joined(rows, 700, 800)), exact=False)


def test_an_inverse_is_of_one_model_alone(quick: list[bool]) -> None:
    """Of two copies, the second to be updated is fitted; other processes get none."""
    rows = some_data()
    model = mfrank.EASE(2.0).fit(named(rows[:700])).partial_fit(named(rows[700:800]))
    other, sent = copy(model), pickle.loads(pickle.dumps(model))
    assert sent._kept is None
    for each in (other, model, sent):
        each.partial_fit(named(rows[800:]))
        check_same(each, mfrank.EASE(2.0).fit(joined(rows, 700, 800)), exact=False)
    assert quick == [True, False]
    assert model.fit(named(rows[:50]))._kept is None


def test_a_change_of_many_items_or_of_the_ridge_is_a_fit(
    monkeypatch: pytest.MonkeyPatch, quick: list[bool]
) -> None:
    monkeypatch.setattr(held_inverse, "_WORTH", 0.5)
    rows = some_data()
    for powers, n, found in (((0, 0), 400, False), ((0, 0), 2, True), ((0.5, 0.5), 60, False)):
        quick.clear()
        model = mfrank.EASE(2.0, 400, *powers).fit(named(rows[:450]))
        model.partial_fit(named(rows[450:500])).partial_fit(named(rows[500 : 500 + n]))
        assert all(quick) == found or not quick
        whole = joined(rows[: 500 + n], 450, 500)
        check_same(model, mfrank.EASE(2.0, 400, *powers).fit(whole), exact=False)


def test_a_blend_keeps_the_inverses_of_its_parts(quick: list[bool]) -> None:
    rows = some_data()
    made = mfrank.Blend([mfrank.ALS(factors=2, random_state=0), mfrank.EASE(2.0), mfrank.ItemKNN()])
    made.fit(named(rows[:800]))
    for begin in (800, 830, 860):
        made.partial_fit(named(rows[begin : begin + 30]))
    made.remove(users="u4")
    assert quick == [True] * 3
    whole = joined(rows[:890], 800, 830, 860)
    left = whole.take(whole.user_ids.raw(whole.entry_users) != "u4").k_core(1)
    check_same(made.models[1], mfrank.EASE(2.0).fit(left), exact=False)


def test_a_saved_model_is_updated_and_removes_as_the_one_in_memory(
    kind: str, tmp_path: Path
) -> None:
    rows = some_data()
    here, there = (MODELS[kind]().fit(named(rows[:800])) for _ in range(2))
    for today in (named(rows[800:850]), named(rows[850:])):
        here.partial_fit(today)
        there.save(tmp_path / "model")
        there = mfrank.load(tmp_path / "model", mmap=True).partial_fit(today)
    here.remove(users=["u3", "u7"], items="i4")
    there.save(tmp_path / "model")
    there = mfrank.load(tmp_path / "model", mmap=True).remove(users=["u3", "u7"], items="i4")
    check_same(there, here, exact=kind in EXACT)
    users = here.user_ids.labels
    assert there.recommend(users).ids.tolist() == here.recommend(users).ids.tolist()
    assert "i4" not in here.recommend(users, N=40).ids


def test_a_removal_from_sequences_is_a_fit_without_them() -> None:
    rows = some_data(users=30, items=12, n=250)
    users, items, _ = zip(*rows, strict=True)
    times = np.random.default_rng(0).permutation(len(rows))
    data = mfrank.Interactions.from_arrays(
        [f"u{user}" for user in users], [f"i{item}" for item in items], timestamps=times
    )
    model = mfrank.NextItem().fit(data).remove(users="u3", items=["i4", "i7"])
    names = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    left = data.take((names[0] != "u3") & ~np.isin(names[1], ["i4", "i7"])).k_core(1)
    whole = mfrank.NextItem().fit(left)
    np.testing.assert_allclose(model.similarity.toarray(), whole.similarity.toarray(), atol=1e-12)
    answer = whole.recommend(left.user_ids.labels)
    assert model.recommend(left.user_ids.labels).ids.tolist() == answer.ids.tolist()
    model.remove(users=model.user_ids.labels[1:])
    assert model.recommend(model.user_ids.labels).ids.tolist() == [[None] * 10]
