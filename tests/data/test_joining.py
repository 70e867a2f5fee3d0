"""Interactions in the rows of other ids: the same cells by id, or the error says what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import Interactions, UnknownIdError
from mfrank.data import Ids, aligned, by_ids, in_rows_of, with_labels, with_more
from tests.support.errors import refuses

quick = settings(max_examples=40, deadline=None)
NAMES = list("abcdefgh")
rows = st.lists(
    st.tuples(st.sampled_from(NAMES[:5]), st.integers(0, 4), st.integers(1, 5), st.integers(0, 9)),
    min_size=1,
    max_size=20,
)


def made(table: list[tuple[str, int, int, int]]) -> Interactions:
    """Some rated, others only seen; with times."""
    users, items, values, times = map(list, zip(*table, strict=True))
    ids = {"user_ids": NAMES[:5], "item_ids": [10, 11, 12, 13, 14]}
    data = Interactions.from_arrays(
        users, [item + 10 for item in items], values, times, duplicates="max", **ids
    )
    return data.at_least(3)


def cells(data: Interactions | None) -> dict[tuple[Any, Any], tuple[float, int]]:
    if data is None:
        return {}
    assert data.timestamps is not None
    ids = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    values = zip(data.user_items.data.tolist(), data.timestamps.tolist(), strict=True)
    return dict(zip(zip(*(each.tolist() for each in ids), strict=True), values, strict=True))


def same(one: Interactions, other: Interactions) -> None:
    assert cells(one) == cells(other)
    assert cells(one.seen_only) == cells(other.seen_only)
    assert one.threshold == other.threshold
    assert one.user_items.dtype == other.user_items.dtype
    assert one.cells.values_from == other.cells.values_from


@quick
@given(rows, st.randoms())
def test_cells_are_found_by_their_ids_in_any_rows(table: Any, random: Any) -> None:
    data, users, items = made(table), NAMES[:], [*range(8, 17)]
    random.shuffle(users)
    random.shuffle(items)
    wanted = Ids.of(users), Ids.of(items)
    found = aligned(data, *wanted, "test")
    assert (found.user_ids, found.item_ids) == wanted
    same(found, data)
    assert aligned(data, Ids.of(NAMES[:5]), data.item_ids, "test") is data
    for own in ((wanted[0], data.item_ids), (data.user_ids, wanted[1])):
        same(aligned(data, *own, "test"), data)


def test_rows_without_entries_may_be_unknown() -> None:
    data = made([("a", 0, 5, 0), ("c", 3, 4, 1)])
    found = aligned(data, Ids.of(["c", "a"]), Ids.of([13, 10, 99]), "test")
    same(found, data)
    assert found.user_items.toarray().tolist() == [[4, 0, 0], [0, 5, 0]]
    for missing in ({"users": ["c", "z"]}, {"items": [10, 99]}):
        known = {"users": ["c", "a"], "items": [13, 10]} | missing
        with refuses(UnknownIdError, "test") as no:
            aligned(data, Ids.of(known["users"]), Ids.of(known["items"]), "test")
        assert no.value.ids == (("a",) if "users" in missing else (13,))


TEXT, OTHERS = Ids.of(["a", "b", "c"]), Ids.of([7, 8])


@pytest.mark.parametrize(
    ("own", "ids", "error", "message"),
    [
        (TEXT, Ids.of(["x", "y"]), UnknownIdError, "leave their rows out of new, or add them to"),
        (TEXT, OTHERS, UnknownIdError, "numbers and text are never the same id"),
        (OTHERS, TEXT, UnknownIdError, "numbers and text are never the same id"),
        (Ids.numbered(2), TEXT, UnknownIdError, "the users of new are only numbered, and rows"),
        (TEXT, Ids.numbered(2), UnknownIdError, "the users of the training data are only numbered"),
        (
            Ids.numbered(2),
            Ids.numbered(3),
            ValueError,
            "2 users and the training data 3, .* give new the shape",
        ),
        (Ids.numbered(2), OTHERS, UnknownIdError, r"2 users each, with ids like \[0, 1\] and \[7"),
        (OTHERS, Ids.numbered(2), UnknownIdError, r"2 users each, with ids like \[7, 8\] and \[0"),
    ],
)
def test_the_remedy_fits_the_two_kinds_of_ids(
    own: Ids, ids: Ids, error: type[ValueError], message: str
) -> None:
    items = Ids.numbered(1)
    data = Interactions(sp.csr_array(np.ones((len(own), 1))), own, items)
    with pytest.raises(error, match=f"^new (?:has|and) .*{message}"):
        aligned(data, ids, items, "new")
    turned = Interactions(sp.csr_array(np.ones((1, len(own)))), items, own)
    with pytest.raises(error, match=message.replace("users", "items")):
        aligned(turned, items, ids, "new")


def test_numbers_in_another_order_are_ids() -> None:
    data = Interactions.from_arrays([0, 1, 2], [0, 0, 0], [4, 5, 6], shape=(3, 1))
    found = aligned(data, Ids.of([2, 0, 1]), Ids.numbered(1), "test")
    assert found.user_items.toarray().ravel().tolist() == [6, 4, 5]


def test_a_matrix_has_the_rows_of_the_others() -> None:
    users, items = Ids.of(["b", "a"]), Ids.of([5, 3, 4])
    matrix = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    found = in_rows_of(matrix, users, items, "test")
    assert (found.user_ids, found.item_ids) == (users, items)
    assert found.user_items.toarray().tolist() == matrix.toarray().tolist()
    for other in (matrix[:1], matrix[:, :2], matrix.T):
        with refuses(ValueError, "test"):
            in_rows_of(other.tocsr(), users, items, "test")


# further users and items


@quick
@given(rows, st.lists(st.sampled_from([*NAMES, "new"]), unique=True))
def test_new_ids_follow_and_the_others_stay(table: Any, new: list[str]) -> None:
    data, wanted = made(table), np.array(new, object)
    for users, items in ((wanted, None), (None, np.arange(12, 12 + len(new))), (None, None)):
        found = with_labels(data, users, items)
        same(found, data)
        for own, known, more in (
            (found.user_ids, data.user_ids, users),
            (found.item_ids, data.item_ids, items),
        ):
            added = [] if more is None else [x for x in more.tolist() if x not in known]
            assert own.labels.tolist() == [*known.labels.tolist(), *added]
    assert with_labels(data, None, None) is data


@pytest.mark.parametrize(
    ("ids", "more", "all_of_them"),
    [
        ([5, 3], np.array([3, 9]), [5, 3, 9]),
        ([0, 1], np.array([2, 1]), [0, 1, 2]),
        (["a"], np.array(["b", "a"], object), ["a", "b"]),
        ([5, 3], np.array(["3", 3], object), [5, 3, "3"]),
        (["a"], np.array([4]), ["a", 4]),
        ([], np.array([4]), [4]),
        ([], np.array(["x"], object), ["x"]),
        ([7], np.array([], np.int64), [7]),
    ],
)
def test_ids_of_any_kind_are_added(ids: Any, more: Any, all_of_them: list[Any]) -> None:
    assert with_more(Ids.of(ids), more) == Ids.of(all_of_them)


# values of rows


def test_values_are_found_by_id_and_rows_without_one_are_counted() -> None:
    values = np.array([10, 20, 30])
    own = Ids.of(["a", "b", "c"])
    found, unknown = by_ids(values, own, Ids.of(["c", "x", "a", "y"]), -1)
    assert (found.tolist(), unknown) == ([30, -1, 10, -1], 2)
    found, unknown = by_ids(values, own, Ids.of(["c", "b"]), -1)
    assert (found.tolist(), unknown) == ([30, 20], 0)
    with refuses(ValueError, "ids"):
        by_ids(values, own, Ids.of(["x", "y"]), -1)
    found, unknown = by_ids(values, Ids.of([2, 0, 1]), Ids.numbered(3), -1)
    assert (found.tolist(), unknown) == ([20, 30, 10], 0)


@pytest.mark.parametrize(
    ("own", "ids"),
    [
        (None, TEXT),
        (TEXT, None),
        (TEXT, Ids.of(["a", "b", "c"])),
        (Ids.numbered(3), TEXT),
        (Ids.numbered(3), Ids.numbered(5)),
        (TEXT, Ids.numbered(3)),
    ],
)
def test_values_stay_in_order_where_ids_do_not_tell_more(own: Any, ids: Any) -> None:
    values = np.array([10, 20, 30])
    found, unknown = by_ids(values, own, ids, -1)
    assert found is values
    assert unknown == 0


def test_numbers_of_others_are_not_taken_for_rows() -> None:
    with refuses(UnknownIdError, remedy="with the same ids"):
        by_ids(np.arange(3), Ids.of([5, 6, 7]), Ids.numbered(3), -1)


def test_a_threshold_and_what_is_only_seen_stay() -> None:
    data = made([("a", 0, 5, 0), ("b", 1, 1, 1)])
    assert data.threshold == 3
    assert cells(data.seen_only) == {("b", 11): (1, 1)}
    found = aligned(replace(data, seen_only=None), Ids.of(NAMES[::-1]), data.item_ids, "test")
    assert found.seen_only is None
