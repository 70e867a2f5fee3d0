"""Lists from plain arrays, similar rows, scores of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import directions_of
from mfrank.backends import choose
from mfrank.retrieval import (
    Candidates,
    Lists,
    Queries,
    nearest,
    recommend,
    score,
    top_k,
)
from tests.support import filters
from tests.support.errors import refuses

N_USERS, N_ITEMS, K = 12, 30, 5
ROWS = np.array([7, 2, 2, 11])


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


def similar(
    rows: Any,
    factors: NDArray[Any],
    n: int = 10,
    candidates: Candidates = top_k.EVERY_ITEM,
    **how: Any,
) -> Lists:
    """As a recommender asks, which has checked the rows and keeps the directions."""
    backend = how.get("backend") or choose()
    directions = how.get("directions", directions_of(backend.place(factors)))
    threads = how.get("n_threads", 0)
    return top_k.similar(np.asarray(rows), directions, n, candidates, None, backend, threads)


def expected(scores: NDArray[Any], allowed: list[set[int]], n: int) -> list[list[int]]:
    return [
        sorted(a, key=lambda i: (-row[i], i))[:n] for row, a in zip(scores, allowed, strict=True)
    ]


# Lists.


def test_lists_hold_the_best_of_what_they_may(
    users: NDArray[Any], items: NDArray[Any], seen: sp.csr_array
) -> None:
    asked, unwanted = filters.asked(ROWS, N_USERS), [[3, 1], [], [29, 29, 0], [5]]
    candidates = filters.candidates(asked, N_ITEMS, user_items=seen, filter_items=unwanted)
    allowed = [
        set(range(N_ITEMS)) - set(seen[[u]].indices.tolist()) - set(row)
        for u, row in zip(ROWS, unwanted, strict=True)
    ]
    for n in (1, 8, N_ITEMS):
        lists = recommend(users[ROWS], items, n=n, candidates=candidates)
        assert listed(lists) == expected(users[ROWS] @ items.T, allowed, n)


def test_lists_from_allowed_items_only(users: NDArray[Any], items: NDArray[Any]) -> None:
    only = [[7, 3, 1], [], [0], [5, 6]]
    candidates = filters.candidates(Queries.new(4), N_ITEMS, items=only, filter_items=[6])
    allowed = [set(row) - {6} for row in only]
    ids, scores = recommend(users[:4], items, n=2, candidates=candidates)
    assert listed((ids, scores)) == expected(users[:4] @ items.T, allowed, 2)
    assert np.array_equal(np.isnan(scores), ids == -1)
    candidates = filters.candidates(Queries.new(4), N_ITEMS, items=[2, 4], filter_items=[2])
    assert listed(recommend(users[:4], items, n=3, candidates=candidates)) == [[4]] * 4


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
    candidates = filters.candidates(
        filters.asked([3], N_ITEMS), N_USERS, user_items=sp.csr_array(seen.T)
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
        with refuses(error, "n"):
            ask(users, items, n=n)


def test_shapes_are_checked(users: NDArray[Any], items: NDArray[Any]) -> None:
    with refuses(ValueError, "queries"):
        recommend(users[:, :3], items)
    with refuses(ValueError, "queries"):
        recommend(users[0], items)
    with refuses(ValueError, "item_bias"):
        recommend(users, items, item_bias=np.zeros(29))
    made_for_four = filters.candidates(
        Queries.new(4), N_ITEMS, user_items=sp.csr_array((4, N_ITEMS))
    )
    with refuses(ValueError, "candidates"):
        recommend(users, items, candidates=made_for_four)
    with refuses(ValueError, "vectors"):
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
    asked = Queries.new(3)
    for given in (
        {"filter_items": [3]},
        {"filter_items": [[3], [], [1]]},
        {"items": [[1, 2], [8, 2], [9, 1, 2]]},
        {"items": [1, 2, 8, 9]},
    ):
        candidates = filters.candidates(asked, N_ITEMS, **given)  # type: ignore[arg-type]
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
    with refuses(ValueError, "users"):
        score(users, items, [0, 1], [0])
    with refuses(ValueError, "items"):
        score(users, items, [0], [30])


# What every list has in common.


class Watched:
    """A backend that notes how it was asked for lists."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._backend = choose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def top_k(self, *given: Any, n_threads: int, **more: Any) -> Lists:
        self.asked.append(n_threads)
        return self._backend.top_k(*given, n_threads=n_threads, **more)


CALLS: dict[str, Callable[..., Lists]] = {
    "recommend": lambda users, items, **more: recommend(users, items, **more),
    "nearest": lambda users, items, **more: nearest(users, items, **more),
    "similar": lambda users, items, **more: similar(ROWS, items, **more),
}


@pytest.mark.parametrize("name", CALLS)
def test_lists_are_made_where_and_by_as_many_threads_as_asked(
    name: str, users: NDArray[Any], items: NDArray[Any]
) -> None:
    watched: Any = Watched()
    got = CALLS[name](users, items, backend=watched, n_threads=3)
    assert watched.asked == [3]
    assert got[0].shape[1] == 10  # the default
    plain = CALLS[name](users, items)
    for one, other in zip(got, plain, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("ask", [recommend, nearest])
def test_arguments_of_lists_are_checked(ask: Any, users: NDArray[Any], items: NDArray[Any]) -> None:
    with refuses(ValueError, "n_threads"):
        ask(users, items, n_threads=-1)
    with refuses((TypeError, ValueError), "n"):
        ask(users, items, n=0)
    with pytest.raises(ValueError):  # noqa: PT011 (whose wording is the candidates')
        ask(users, items, candidates=filters.candidates(Queries.new(2), N_ITEMS, items=[[1], [2]]))


@pytest.mark.parametrize("name", ["nearest", "similar"])
def test_directions_that_are_known_are_those_compared(
    name: str, users: NDArray[Any], items: NDArray[Any]
) -> None:
    others = items[::-1] / np.linalg.norm(items[::-1], axis=1, keepdims=True)
    got = CALLS[name](users, items, directions=np.ascontiguousarray(others))
    whole = CALLS[name](users, np.ascontiguousarray(items[::-1]))
    np.testing.assert_array_equal(got[0], whole[0])


def test_what_is_not_finite_or_has_another_size_is_refused(
    users: NDArray[Any], items: NDArray[Any]
) -> None:
    items[2, 0] = np.nan
    with pytest.raises(ValueError, match="factors of rows"):
        similar([2], items)
    users[0, 0] = np.inf
    with refuses(ValueError, "vectors"):
        nearest(users, items)
    with refuses(ValueError, "item_bias"):
        recommend(users[1:], items, item_bias=np.zeros(N_ITEMS + 1, np.float32))
