"""What lists may hold: filters in every accepted form, and the rows asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import CSR, checked_rows, union
from mfrank.retrieval import Candidates, Queries, check_rows, queries
from mfrank.retrieval import filters as gpu_filters
from tests.support import filters
from tests.support.errors import refuses

N_USERS, N_ITEMS = 12, 30
ROWS = np.array([7, 2, 2, 11])
CALIBRATED = mfrank.Steering(categories={i: i % 2 for i in range(N_ITEMS)}, calibration=0.5)


@pytest.fixture
def seen() -> sp.csr_array:
    chosen = np.random.default_rng(2).random((N_USERS, N_ITEMS)) < 0.3
    return sp.csr_array(chosen.astype(np.float32))


def allowed(candidates: Candidates, n_queries: int) -> list[set[int]]:
    """What each query may get, asked item by item."""
    may = np.array([candidates.allow(np.full(n_queries, i)) for i in range(N_ITEMS)])
    return [set(np.flatnonzero(column).tolist()) for column in may.T]


FORMS_OF_SEEN = {
    "csr_array, whole": lambda m: m,
    "csr_matrix, whole": sp.csr_matrix,
    "coo_array, whole": sp.coo_array,
    "Interactions": mfrank.Interactions.from_sparse,
    "one row per query": lambda m: m[ROWS],
    "one row per query, csc": lambda m: sp.csc_matrix(m[ROWS]),
}


@pytest.mark.parametrize("form", FORMS_OF_SEEN)
def test_seen_items_in_every_form(form: str, seen: sp.csr_array) -> None:
    asked = filters.asked(ROWS, N_USERS)
    candidates = filters.candidates(asked, N_ITEMS, user_items=FORMS_OF_SEEN[form](seen))
    had = [set(seen[[u]].indices.tolist()) for u in ROWS]
    assert allowed(candidates, 4) == [set(range(N_ITEMS)) - row for row in had]


@pytest.mark.parametrize("form", ["Interactions", "one row per query"])
def test_all_users_in_another_order_get_their_own_rows(form: str, seen: sp.csr_array) -> None:
    backwards = np.arange(N_USERS)[::-1]
    asked = filters.asked(backwards, N_USERS)
    given = (
        seen[backwards] if form == "one row per query" else mfrank.Interactions.from_sparse(seen)
    )
    exclude = union(filters.candidates(asked, N_ITEMS, user_items=given).exclude)
    assert exclude is not None
    for place, user in enumerate(backwards):
        assert exclude.row(place)[0].tolist() == seen[[user]].indices.tolist()


def test_new_users_bring_a_row_each(seen: sp.csr_array) -> None:
    exclude = union(filters.candidates(Queries.new(3), N_ITEMS, user_items=seen[:3]).exclude)
    assert exclude is not None
    assert exclude.indices.tolist() == seen[:3].indices.tolist()
    with refuses(ValueError, "user_items"):
        filters.candidates(Queries.new(3), N_ITEMS, user_items=seen)


def test_explicit_zeros_are_seen_and_the_matrix_is_left_alone() -> None:
    matrix = sp.csr_array(
        (np.array([0.0, 1.0, 2.0]), np.array([4, 1, 4]), np.array([0, 3])), shape=(1, 6)
    )
    before = matrix.indices.copy()
    exclude = union(filters.candidates(Queries.new(1), 6, user_items=matrix).exclude)
    assert exclude is not None
    assert exclude.indices.tolist() == [1, 4]
    assert np.array_equal(matrix.indices, before)
    assert matrix.nnz == 3


PER_USER = [[3, 1], [], [29, 29, 0], [5]]
FORMS_OF_LISTS = {
    "lists": PER_USER,
    "tuples": tuple(map(tuple, PER_USER)),
    "arrays": [np.array(row, dtype=np.int32) for row in PER_USER],
    "sparse": sp.csr_matrix(
        (np.ones(6), [3, 1, 29, 29, 0, 5], [0, 2, 2, 5, 6]), shape=(4, N_ITEMS)
    ),
}
FORMS_OF_ONE_LIST = {
    "list": [4, 2, 2],
    "tuple": (4, 2),
    "array": np.array([2, 4], dtype=np.uint8),
    "numpy integers": [np.int16(4), np.int64(2)],
    "range": range(2, 5, 2),
}


@pytest.mark.parametrize("form", FORMS_OF_LISTS)
def test_lists_per_query(form: str, seen: sp.csr_array) -> None:
    asked, lists = filters.asked(ROWS, N_USERS), FORMS_OF_LISTS[form]
    without = filters.candidates(asked, N_ITEMS, user_items=seen, filter_items=lists)
    had = [set(seen[[u]].indices.tolist()) for u in ROWS]
    assert allowed(without, 4) == [
        set(range(N_ITEMS)) - row - set(more) for row, more in zip(had, PER_USER, strict=True)
    ]
    only = filters.candidates(asked, N_ITEMS, items=lists)
    assert allowed(only, 4) == [set(row) for row in PER_USER]


@pytest.mark.parametrize("form", FORMS_OF_ONE_LIST)
def test_one_list_for_all(form: str) -> None:
    asked, lists = filters.asked(range(N_USERS), N_USERS), FORMS_OF_ONE_LIST[form]
    without = filters.candidates(asked, N_ITEMS, filter_items=lists)
    assert allowed(without, N_USERS) == [set(range(N_ITEMS)) - {2, 4}] * N_USERS
    only = filters.candidates(asked, N_ITEMS, items=lists, filter_items=[2])
    assert allowed(only, N_USERS) == [{4}] * N_USERS


def test_an_empty_list_is_a_list() -> None:
    asked = filters.asked([0, 1], N_USERS)
    assert allowed(filters.candidates(asked, N_ITEMS, items=[]), 2) == [set(), set()]
    everything = set(range(N_ITEMS))
    assert allowed(filters.candidates(asked, N_ITEMS, filter_items=[]), 2) == [everything] * 2
    assert allowed(filters.candidates(asked, N_ITEMS, filter_items=[[], []]), 2) == [everything] * 2


@pytest.mark.parametrize(
    ("given", "error", "argument"),
    [
        (
            {"user_items": sp.csr_array((5, N_ITEMS))},
            ValueError,
            "user_items",
        ),
        (
            {"user_items": sp.csr_array((4, 9))},
            ValueError,
            "user_items",
        ),
        ({"user_items": [[1], [2], [3], [4]]}, TypeError, "user_items"),
        ({"filter_items": [[1], [2]]}, ValueError, "filter_items"),
        ({"filter_items": [1, N_ITEMS]}, ValueError, "filter_items"),
        ({"filter_items": [-1]}, ValueError, "filter_items"),
        ({"filter_items": np.ones((4, 1, 1), int)}, ValueError, "filter_items"),
        ({"items": [[1], [], [-2], [3]]}, ValueError, "items"),
        ({"items": [0.5]}, TypeError, "items"),
        ({"items": ["a"]}, TypeError, "items"),
        ({"items": np.ones(N_ITEMS, bool)}, ValueError, "items"),
    ],
)
def test_filters_of_another_shape_or_content(
    given: dict[str, Any], error: type[Exception], argument: str
) -> None:
    with refuses(error, argument):
        filters.candidates(filters.asked(ROWS, N_USERS), N_ITEMS, **given)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([12], ValueError),
        ([-1], ValueError),
        ([[1]], ValueError),
        (3, ValueError),
        ([1.0], TypeError),
        ([True], TypeError),
        ([None], TypeError),
    ],
)
def test_rows_are_checked_by_name(rows: Any, error: type[Exception]) -> None:
    with refuses(error, "users"):
        check_rows(rows, N_USERS, "users")


@pytest.mark.parametrize("rows", [[], (), range(0), np.empty(0), np.empty(0, np.int32)])
def test_no_rows_are_fine(rows: Any) -> None:
    asked = filters.asked(check_rows(rows, N_USERS, "users"), N_USERS)
    nothing = sp.csr_array((N_USERS, N_ITEMS))
    exclude = union(filters.candidates(asked, N_ITEMS, user_items=nothing).exclude)
    assert exclude is not None
    assert (asked.n_queries, exclude.n_rows) == (0, 0)


def test_rows_survive_every_integer_type() -> None:
    for kind in (np.int8, np.uint16, np.int32, np.uint64):
        assert check_rows(np.array([0, 3], dtype=kind), 4, "rows").tolist() == [0, 3]


def test_one_more_exclusion_each(seen: sp.csr_array) -> None:
    own = np.array([0, 5, 5, 29])
    for before in (
        Candidates(),
        filters.candidates(Queries.new(4), N_ITEMS, user_items=seen[ROWS]),
    ):
        after = allowed(before.without(own, N_ITEMS), 4)
        assert after == [a - {i} for a, i in zip(allowed(before, 4), own, strict=True)]


@given(st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=4))
@example([[1, 3, 2], []])
@example([[3, 3]])
def test_lists_of_any_order_become_ascending_rows(lists: list[list[int]]) -> None:
    ends = np.cumsum([0, *map(len, lists)])
    columns = np.array([column for own in lists for column in own], np.int32)
    found = gpu_filters._ascending(CSR(ends, columns, None, 5))
    rows = [
        found.indices[begin:end].tolist()
        for begin, end in zip(found.indptr[:-1], found.indptr[1:], strict=True)
    ]
    assert rows == [sorted(set(own)) for own in lists]
    assert found.n_columns == 5
    assert (found.indptr.dtype, found.indices.dtype) == (np.int64, np.int32)


@pytest.mark.parametrize(
    "call",
    [
        {"recalculate_user": True},
        {"fallback": "popularity", "on_unknown": "skip"},
        {"recalculate_user": True, "fallback": "popularity", "steer": CALIBRATED},
    ],
)
def test_a_call_picks_and_checks_each_matrix_once(
    call: dict[str, Any], seen: sp.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fold-in, filters, calibration and the lists of unknown users share the rows."""
    picked: list[str] = []

    def spy(matrix: Any, name: str, rows: Any) -> sp.csr_array:
        picked.append(name)
        return checked_rows(matrix, name, rows)

    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(seen)
    monkeypatch.setattr(queries, "checked_rows", spy)
    users = [7, 2, N_USERS] if "on_unknown" in call else [7, 2, 11]
    rows = dict.fromkeys(("user_items", "filter_items", "items"), seen[:3])
    model.recommend(users, N=4, **rows, **call)
    assert sorted(picked) == ["filter_items", "items", "user_items"]
