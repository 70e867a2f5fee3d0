"""Test sets that were built apart from the training data are matched by id, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions
from mfrank.data import aligned
from tests.support.errors import refuses

cell = st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz"), st.integers(1, 9))


def cells(data: Interactions) -> dict[tuple[Any, Any], tuple[float, Any]]:
    """Value and timestamp by raw user and item."""
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    times = [None] * data.nnz if data.timestamps is None else data.timestamps.tolist()
    entries = zip(data.user_items.data.tolist(), times, strict=True)
    return dict(zip(zip(users.tolist(), items.tolist(), strict=True), entries, strict=True))


@settings(max_examples=40, deadline=None)
@given(st.lists(cell, max_size=12), st.permutations("abcdef"), st.permutations("vwxyz"))
def test_to_align_moves_rows_and_changes_no_cell(rows, users, items):
    times = [value * 7 for _, _, value in rows]
    columns = [[row[at] for row in rows] for at in range(3)]
    data = Interactions.from_arrays(*columns, times, duplicates="last")
    rows_of = Interactions.from_arrays(users, [items[0]] * 6, user_ids=users, item_ids=items)
    moved = aligned(data, rows_of.user_ids, rows_of.item_ids, "test")
    assert moved.user_ids == rows_of.user_ids
    assert moved.item_ids == rows_of.item_ids
    assert cells(moved) == cells(data)


def scores(*given: Any, **options: Any) -> dict[str, list[float]]:
    """Each user's score by each metric."""
    found = mfrank.evaluate(*given, **options).scores
    return {str(metric): score.per_user.tolist() for metric, score in found.items()}


def data_of(seed: int, n: int = 200) -> Interactions:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 30, n), rng.integers(0, 20, n)
    return Interactions.from_arrays([f"u{u}" for u in users], [f"i{i}" for i in items])


def apart(data: Interactions) -> Interactions:
    """The same interactions with ids of their own: of the users and items that occur, reversed."""
    ids = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    own = [list(dict.fromkeys(reversed(each.tolist()))) for each in ids]
    return Interactions.from_arrays(*ids, data.user_items.data, user_ids=own[0], item_ids=own[1])


def test_a_test_set_built_apart_evaluates_alike():
    split = mfrank.by_ratio(data_of(0), train=0.8, test=0.2)
    other = apart(split.test)
    assert other.user_items.shape != split.test.user_items.shape
    model = mfrank.ALS(factors=4, iterations=3, random_state=0).fit(split.train)
    expected = scores(model, split.test)
    assert scores(model, other) == expected
    assert scores(model, other, train=apart(split.train)) == expected
    for plain in (model.store, lambda users, seen, N: model.recommend(users, by_row=True, N=N)):
        assert scores(plain, other, train=split.train) == expected


def test_numbers_of_some_rows_are_ids_too():
    train = Interactions.from_arrays([0, 1, 2, 3], [0, 1, 2, 0])
    test = Interactions.from_arrays([3, 1], [2, 0])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(train)
    same = Interactions.from_arrays([3, 1], [2, 0], shape=(4, 3))
    assert scores(model, test) == scores(model, same)


def test_a_model_of_a_matrix_is_evaluated_by_a_matrix_or_beside_its_training_data():
    split = mfrank.by_ratio(data_of(1), train=0.8, test=0.2)
    labeled = mfrank.ALS(factors=3, iterations=2, random_state=0).fit(split.train)
    bare = mfrank.ALS(factors=3, iterations=2, random_state=0).fit(split.train.to_scipy())
    assert scores(bare, split.test, train=split.train) == scores(labeled, split.test)
    ids = {"user_ids": split.train.user_ids.labels, "item_ids": split.train.item_ids.labels}
    turned = Interactions.from_sparse(
        split.train.to_scipy()[:, ::-1], **ids
    )  # as many of each user
    for train in (None, turned):
        with refuses(mfrank.UnknownIdError, "test", remedy="only numbered"):
            scores(bare, split.test, train=train)
    matrix = split.test.to_scipy()
    assert scores(labeled, matrix) == scores(bare, matrix)


@pytest.mark.parametrize(
    ("users", "items", "ids"),
    [
        (["u1", "nobody"], ["i1", "i2"], ("nobody",)),
        (["u1", "u2"], ["i1", "nothing"], ("nothing",)),
        ([1, 2], ["i1", "i2"], (1, 2)),
    ],
)
def test_who_is_unknown_is_named(users, items, ids):
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data_of(2))
    for argument, data in (
        ("test", {"test": Interactions.from_arrays(users, items)}),
        ("train", {"test": data_of(2), "train": Interactions.from_arrays(users, items)}),
    ):
        with refuses(mfrank.UnknownIdError, argument) as raised:
            mfrank.evaluate(model, **data)
        assert raised.value.ids == ids


def test_rows_that_are_only_numbered_must_be_as_many():
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data_of(3).to_scipy())
    smaller = Interactions.from_arrays([0, 1], [0, 1])
    with refuses(ValueError, "test"):
        mfrank.evaluate(model, smaller)
    with refuses(ValueError, remedy=r"user_ids=train\.user_ids, item_ids=train\.item_ids"):
        mfrank.evaluate(model, smaller.user_items)
