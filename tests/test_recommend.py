"""Lists from plain arrays: filters in every accepted form, similar rows, scores of pairs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.asked import Asked, check_rows
from mfrank.candidates import Candidates
from mfrank.recommend import Lists, nearest, recommend, score, similar

N_USERS, N_ITEMS, K = 12, 30, 5


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.fixture
def users(rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.standard_normal((N_USERS, K)).astype(np.float32)


@pytest.fixture
def items(rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.standard_normal((N_ITEMS, K)).astype(np.float32)


@pytest.fixture
def seen(rng: np.random.Generator) -> sp.csr_array:
    return sp.csr_array(rng.random((N_USERS, N_ITEMS)) < 0.3).astype(np.float32)


def listed(lists: Lists) -> list[list[int]]:
    return [row[row >= 0].tolist() for row in lists[0]]


def expected(scores: NDArray[Any], allowed: list[set[int]], n: int) -> list[list[int]]:
    return [
        sorted(a, key=lambda i: (-row[i], i))[:n] for row, a in zip(scores, allowed, strict=True)
    ]


# What a list may hold.

ROWS = np.array([7, 2, 2, 11])
FORMS_OF_SEEN = {
    "csr_array, whole": lambda m: m,
    "csr_matrix, whole": sp.csr_matrix,
    "coo_array, whole": sp.coo_array,
    "Interactions": lambda m: SimpleNamespace(user_items=m),
    "one row per query": lambda m: m[ROWS],
    "one row per query, csc": lambda m: sp.csc_matrix(m[ROWS]),
}


@pytest.mark.parametrize("form", FORMS_OF_SEEN)
def test_seen_items_in_every_form(
    form: str, users: NDArray[Any], items: NDArray[Any], seen: sp.csr_array
) -> None:
    asked = Asked.known(ROWS, N_USERS)
    candidates = Candidates.of(asked, N_ITEMS, user_items=FORMS_OF_SEEN[form](seen))
    lists = recommend(users[ROWS], items, n=8, candidates=candidates)
    allowed = [set(range(N_ITEMS)) - set(seen[[u]].indices.tolist()) for u in ROWS]
    assert listed(lists) == expected(users[ROWS] @ items.T, allowed, 8)


def test_as_many_rows_as_users_is_the_whole_matrix(seen: sp.csr_array) -> None:
    backwards = np.arange(N_USERS)[::-1]
    exclude = Candidates.of(Asked.known(backwards, N_USERS), N_ITEMS, user_items=seen).exclude
    assert exclude is not None
    for place, user in enumerate(backwards):
        assert exclude.row(place)[0].tolist() == seen[[user]].indices.tolist()


def test_new_users_bring_a_row_each(seen: sp.csr_array) -> None:
    exclude = Candidates.of(Asked.new(3), N_ITEMS, user_items=seen[:3]).exclude
    assert exclude is not None
    assert exclude.indices.tolist() == seen[:3].indices.tolist()
    with pytest.raises(ValueError, match="user_items must have 3 rows"):
        Candidates.of(Asked.new(3), N_ITEMS, user_items=seen)


def test_explicit_zeros_are_seen_and_the_matrix_is_left_alone() -> None:
    matrix = sp.csr_array(
        (np.array([0.0, 1.0, 2.0]), np.array([4, 1, 4]), np.array([0, 3])), shape=(1, 6)
    )
    before = matrix.indices.copy()
    exclude = Candidates.of(Asked.new(1), 6, user_items=matrix).exclude
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
def test_lists_per_query(
    form: str, users: NDArray[Any], items: NDArray[Any], seen: sp.csr_array
) -> None:
    asked, lists = Asked.known(ROWS, N_USERS), FORMS_OF_LISTS[form]
    scores = users[ROWS] @ items.T
    without = Candidates.of(asked, N_ITEMS, user_items=seen, filter_items=lists)
    allowed = [
        set(range(N_ITEMS)) - set(seen[[u]].indices.tolist()) - set(row)
        for u, row in zip(ROWS, PER_USER, strict=True)
    ]
    answer = recommend(users[ROWS], items, n=N_ITEMS, candidates=without)
    assert listed(answer) == expected(scores, allowed, N_ITEMS)
    only = Candidates.of(asked, N_ITEMS, items=lists)
    answer = recommend(users[ROWS], items, n=2, candidates=only)
    assert listed(answer) == expected(scores, [set(row) for row in PER_USER], 2)
    assert np.isnan(answer[1][1]).all()


@pytest.mark.parametrize("form", FORMS_OF_ONE_LIST)
def test_one_list_for_all(form: str, users: NDArray[Any], items: NDArray[Any]) -> None:
    asked, lists = Asked.known(range(N_USERS), N_USERS), FORMS_OF_ONE_LIST[form]
    scores = users @ items.T
    without = Candidates.of(asked, N_ITEMS, filter_items=lists)
    allowed = [set(range(N_ITEMS)) - {2, 4}] * N_USERS
    answer = recommend(users, items, n=28, candidates=without)
    assert listed(answer) == expected(scores, allowed, 28)
    only = Candidates.of(asked, N_ITEMS, items=lists, filter_items=[2])
    assert listed(recommend(users, items, n=3, candidates=only)) == [[4]] * N_USERS


def test_an_empty_allow_list_allows_nothing(users: NDArray[Any], items: NDArray[Any]) -> None:
    candidates = Candidates.of(Asked.known([0, 1], N_USERS), N_ITEMS, items=[])
    assert listed(recommend(users[:2], items, n=3, candidates=candidates)) == [[], []]


SPARSE = sp.csr_array((4, N_ITEMS))


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        (
            {"user_items": sp.csr_array((5, N_ITEMS))},
            ValueError,
            "user_items must have 12 rows .* 4",
        ),
        (
            {"user_items": sp.csr_array((4, 9))},
            ValueError,
            "user_items must have a column for each",
        ),
        ({"user_items": [[1], [2], [3], [4]]}, TypeError, "user_items must be Interactions or"),
        ({"filter_items": [[1], [2]]}, ValueError, "filter_items must have 12 rows"),
        ({"filter_items": [1, N_ITEMS]}, ValueError, "filter_items must lie in 0..29, got 30"),
        ({"filter_items": [-1]}, ValueError, "filter_items must lie in 0..29, got -1"),
        ({"filter_items": 3}, ValueError, "filter_items must be one-dimensional"),
        ({"items": [[1], [], [-2], [3]]}, ValueError, r"items\[2\] must lie in"),
        ({"items": [0.5]}, TypeError, "items must be integer row numbers"),
        ({"items": ["a"]}, TypeError, "items must be integer row numbers"),
        ({"items": np.ones(N_ITEMS, bool)}, TypeError, "flatnonzero"),
    ],
)
def test_filters_of_another_shape_or_content(
    filters: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Candidates.of(Asked.known(ROWS, N_USERS), N_ITEMS, **filters)


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
    with pytest.raises(error, match="users must"):
        Asked.known(rows, N_USERS)


@pytest.mark.parametrize("rows", [[], (), range(0), np.empty(0), np.empty(0, np.int32)])
def test_no_rows_are_fine(rows: Any, items: NDArray[Any]) -> None:
    asked = Asked.known(rows, N_USERS)
    assert asked.n_queries == 0
    candidates = Candidates.of(asked, N_ITEMS, user_items=sp.csr_array((N_USERS, N_ITEMS)))
    lists = recommend(np.empty((0, K)), items, n=4, candidates=candidates)
    assert [a.shape for a in lists] == [(0, 4), (0, 4)]


def test_rows_survive_every_integer_type() -> None:
    for kind in (np.int8, np.uint16, np.int32, np.uint64):
        assert check_rows(np.array([0, 3], dtype=kind), 4, "rows").tolist() == [0, 3]


# Lists.


def test_bias_and_length(users: NDArray[Any], items: NDArray[Any], rng: Any) -> None:
    bias = 3 * rng.standard_normal(N_ITEMS)
    ids, scores = recommend(users, items, n=N_ITEMS + 2, item_bias=bias)
    scored = users @ items.T + bias
    assert listed((ids, scores)) == expected(scored, [set(range(N_ITEMS))] * N_USERS, N_ITEMS)
    assert (ids[:, N_ITEMS:] == -1).all()
    assert np.isnan(scores[:, N_ITEMS:]).all()


def test_users_for_an_item_are_the_same_with_sides_swapped(
    users: NDArray[Any], items: NDArray[Any], seen: sp.csr_array
) -> None:
    candidates = Candidates.of(
        Asked.known([3], N_ITEMS, "items"), N_USERS, user_items=sp.csr_array(seen.T)
    )
    had = set(seen.tocsc()[:, [3]].indices.tolist())
    scores = items[[3]] @ users.T
    assert listed(recommend(items[[3]], users, n=5, candidates=candidates)) == expected(
        scores, [set(range(N_USERS)) - had], 5
    )


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (-3, ValueError), (2.0, TypeError)])
def test_length_must_be_a_whole_number(
    n: Any, error: type[Exception], users: NDArray[Any], items: NDArray[Any]
) -> None:
    for ask in (recommend, nearest):
        with pytest.raises(error, match="n must"):
            ask(users, items, n=n)
    with pytest.raises(error, match="n must"):
        similar([0], items, n=n)


def test_shapes_are_checked(users: NDArray[Any], items: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"queries must have shape \(n_queries, 5\)"):
        recommend(users[:, :3], items)
    with pytest.raises(ValueError, match="queries must have shape"):
        recommend(users[0], items)
    with pytest.raises(ValueError, match="item_bias must have 30"):
        recommend(users, items, item_bias=np.zeros(29))
    made_for_four = Candidates.of(Asked.new(4), N_ITEMS, user_items=SPARSE)
    with pytest.raises(ValueError, match="candidates must be for 12 queries and 30 items, got 4"):
        recommend(users, items, candidates=made_for_four)
    with pytest.raises(ValueError, match="vectors must be finite"):
        nearest([[np.nan] * K], items)


# Similar rows.


def cosines(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    left, right = (np.linalg.norm(x.astype(np.float64), axis=1) for x in (a, b))
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(a.astype(np.float64) @ b.T.astype(np.float64) / np.outer(left, right))


def test_similar_rows_are_those_of_highest_cosine(items: NDArray[Any]) -> None:
    items[6] = 0
    rows = [4, 6, 4, 29]
    ids, scores = similar(rows, items, n=N_ITEMS)
    wanted = cosines(items[rows], items)
    assert ids[:, 0].tolist() == rows
    assert scores[:, 0].tolist() == [1, 0, 1, 1]
    assert (np.sort(ids, axis=1) == np.arange(N_ITEMS)).all()
    assert np.allclose(scores, np.take_along_axis(wanted, ids.astype(np.int64), 1), atol=1e-6)
    assert (np.diff(scores) <= 1e-6).all()


def test_a_row_leads_its_list_though_others_equal_it(items: NDArray[Any]) -> None:
    items[:] = items[0] * np.arange(1, N_ITEMS + 1, dtype=np.float32)[:, None]
    ids, scores = similar([17, 0], items, n=3)
    assert ids[:, 0].tolist() == [17, 0]
    assert (scores[:, 0] == 1).all()
    assert np.allclose(scores, 1)
    same = np.tile(items[:1], (N_ITEMS, 1))
    assert similar([17], same, n=4)[0].tolist() == [[17, 0, 1, 2]]


def test_filtered_rows_do_not_lead(items: NDArray[Any]) -> None:
    rows = [3, 8, 9]
    asked = Asked.new(3)
    for filters in (
        {"filter_items": [3]},
        {"filter_items": [[3], [], [1]]},
        {"items": [[1, 2], [8, 2], [9, 1, 2]]},
        {"items": [1, 2, 8, 9]},
    ):
        candidates = Candidates.of(asked, N_ITEMS, **filters)  # type: ignore[arg-type]
        ids = listed(similar(rows, items, n=N_ITEMS, candidates=candidates))
        assert 3 not in ids[0]
        assert [ids[1][0], ids[2][0]] == [8, 9]
        assert all(len(set(row)) == len(row) for row in ids)


def test_nearest_of_a_vector(items: NDArray[Any]) -> None:
    ids, scores = nearest([[1.0, 0, 0, 0, 0], [0.0] * K], items, n=4)
    best = np.argsort(-items[:, 0] / np.linalg.norm(items, axis=1))[:4]
    assert ids.tolist() == [best.tolist(), [0, 1, 2, 3]]
    assert (scores[1] == 0).all()


def test_directions_of_extreme_lengths_compare(items: NDArray[Any]) -> None:
    scales = np.where(np.arange(N_ITEMS) % 2, 1e30, 1e-30)[:, None].astype(np.float32)
    ids, _ = similar(range(N_ITEMS), items * scales, n=5)
    assert np.array_equal(ids, similar(range(N_ITEMS), items, n=5)[0])


# Pairs.


def test_scores_of_pairs(users: NDArray[Any], items: NDArray[Any], rng: Any) -> None:
    # More pairs than one block.
    left, right = rng.integers(0, N_USERS, 70_000), rng.integers(0, N_ITEMS, 70_000)
    bias = rng.standard_normal(N_ITEMS)
    got = score(users, items, left, right, item_bias=bias)
    assert got.dtype == np.float32
    assert np.allclose(got, (users @ items.T + bias)[left, right], atol=1e-5)
    assert score(users, items, [], ()).shape == (0,)


def test_pairs_are_checked(users: NDArray[Any], items: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="2 users and 1 items"):
        score(users, items, [0, 1], [0])
    with pytest.raises(ValueError, match="items must lie in"):
        score(users, items, [0], [30])
