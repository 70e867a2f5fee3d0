"""The contract of Backend.top_k, for every backend that can run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfrank import backends
from mfrank.arrays import CSR, Listed, Picked

Lists = tuple[NDArray[np.int32], NDArray[Any]]


def _available() -> list[str]:
    return [name for name in backends.names() if backends.named(name).why_unavailable() is None]


@pytest.fixture(scope="module", params=_available())
def backend(request: pytest.FixtureRequest) -> backends.Backend:
    return backends.choose(request.param)


class Query(NamedTuple):
    """Arguments of one call."""

    queries: NDArray[Any]
    items: NDArray[Any]
    k: int
    filters: dict[str, Any]

    def ask(self, backend: backends.Backend, **changes: Any) -> Lists:
        return backend.top_k(self.queries, self.items, self.k, **self.filters | changes)

    def scores(self) -> NDArray[np.float64]:
        bias = self.filters.get("item_bias")
        scores = self.queries.astype(np.float64) @ self.items.astype(np.float64).T
        return scores if bias is None else scores + bias.astype(np.float64)

    def allowed(self, row: int) -> list[int]:
        allowed = set(range(len(self.items)))
        only = self.filters.get("candidates")
        if only is not None:
            allowed &= listed(only, row)
        if self.filters.get("exclude_all") is not None:
            allowed -= set(self.filters["exclude_all"].tolist())
        return sorted(
            allowed.difference(*(listed(e, row) for e in self.filters.get("exclude", ())))
        )


def listed(lists: Listed, row: int) -> set[int]:
    """What is on a row's list; a CSR of one row is everyone's."""
    if isinstance(lists, Picked):
        return listed(lists.whole, int(lists.rows[row]))
    return set(lists.row(0 if lists.n_rows == 1 else row)[0].tolist())


def brute_force(query: Query) -> Lists:
    """Sort every allowed item of every row by (score descending, id)."""
    shape = (len(query.queries), query.k)
    ids, scores = np.full(shape, -1, np.int32), np.full(shape, np.nan)
    for row, all_scores in enumerate(query.scores()):
        best = sorted(query.allowed(row), key=lambda i: (-all_scores[i], i))[: query.k]
        ids[row, : len(best)], scores[row, : len(best)] = best, all_scores[best]
    return ids, scores


def assert_best(query: Query, answer: Lists, tolerance: float) -> None:
    """The lists are those of a full sort, but for items whose scores differ by rounding."""
    (ids, scores), (_, wanted) = answer, brute_force(query)
    truth = query.scores()
    assert np.array_equal(np.isnan(scores), ids == -1)
    assert np.allclose(scores, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    for row, (got, values) in enumerate(zip(ids, scores, strict=True)):
        listed = got[got >= 0]
        assert len(set(listed.tolist())) == len(listed)
        assert set(listed.tolist()) <= set(query.allowed(row))
        assert np.allclose(values[: len(listed)], truth[row, listed], tolerance, tolerance)
        assert (np.diff(values[: len(listed)]) <= 0).all()


def random_lists(rng: np.random.Generator, n_rows: int, n_items: int, share: float) -> CSR:
    chosen = rng.random((n_rows, n_items)) < share
    indptr = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    return CSR(indptr, np.nonzero(chosen)[1].astype(np.int32), None, n_items)


def random_filters(rng: np.random.Generator, n_queries: int, n_items: int) -> dict[str, Any]:
    def lists(share: float) -> Listed:
        if rng.random() < 0.5:
            return random_lists(rng, n_queries, n_items, share)
        whole = random_lists(rng, n_queries + 2, n_items, share)
        return Picked(whole, rng.integers(0, n_queries + 2, n_queries))

    shared = random_lists(rng, 1, n_items, rng.random())
    some, more = lists(rng.choice([0.1, 0.9, 1.0])), lists(0.2)
    options = {
        "exclude": [(), (some,), (some, more)],
        "exclude_all": [None, random_lists(rng, 1, n_items, 0.3).indices],
        "candidates": [None, shared, lists(rng.random())],
    }
    return {name: values[rng.integers(len(values))] for name, values in options.items()}


@given(
    seed=st.integers(0, 2**32 - 1),
    n_queries=st.sampled_from([0, 1, 2, 7, 8, 9, 33, 300]),
    n_items=st.integers(0, 100),
    n_factors=st.integers(1, 70),
    more=st.integers(-60, 5),
    dtype=st.sampled_from([np.float32, np.float64]),
    with_bias=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_equals_a_full_sort_ties_included(
    backend: backends.Backend,
    seed: int,
    n_queries: int,
    n_items: int,
    n_factors: int,
    more: int,
    dtype: type,
    with_bias: bool,
) -> None:
    # Small whole numbers: every sum is exact in both types, and many scores tie.
    rng = np.random.default_rng(seed)
    queries = rng.integers(-2, 3, (n_queries, n_factors)).astype(dtype)
    items = rng.integers(-2, 3, (n_items, n_factors)).astype(dtype)
    items = items[rng.integers(0, 1 + n_items // 2, n_items)]
    filters = random_filters(rng, n_queries, n_items)
    if with_bias:
        filters["item_bias"] = rng.integers(-3, 4, n_items).astype(dtype)
    query = Query(queries, items, max(1, n_items + more), filters)
    (ids, scores), (wanted_ids, wanted_scores) = query.ask(backend), brute_force(query)
    assert np.array_equal(ids, wanted_ids)
    assert np.array_equal(scores, wanted_scores, equal_nan=True)
    assert (ids.dtype, scores.dtype) == (np.int32, dtype)


def factors(rng: np.random.Generator, shape: tuple[int, int], dtype: type) -> NDArray[Any]:
    """Rows whose lengths differ as much as those of popular and rare items."""
    rows = rng.standard_normal(shape) * rng.lognormal(0, 1, (shape[0], 1))
    return rows.astype(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-11)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_random_factors_are_ranked_exactly(
    backend: backends.Backend, dtype: type, tolerance: float, with_bias: bool
) -> None:
    rng = np.random.default_rng(5)
    queries, items = factors(rng, (400, 33), dtype), factors(rng, (1500, 33), dtype)
    filters: dict[str, Any] = {"exclude": [random_lists(rng, 400, 1500, 0.02)]}
    if with_bias:
        filters["item_bias"] = (3 * rng.standard_normal(1500)).astype(dtype)
    query = Query(queries, items, 10, filters)
    assert_best(query, query.ask(backend), tolerance)


def test_long_lists(backend: backends.Backend) -> None:
    rng = np.random.default_rng(6)
    query = Query(
        factors(rng, (20, 16), np.float32), factors(rng, (3000, 16), np.float32), 1000, {}
    )
    assert_best(query, query.ask(backend), 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits_whatever_the_threads_and_the_company(
    backend: backends.Backend, dtype: type
) -> None:
    rng = np.random.default_rng(7)
    queries, items = factors(rng, (300, 21), dtype), factors(rng, (500, 21), dtype)
    exclude = random_lists(rng, 300, 500, 0.05)
    ids, scores = backend.top_k(queries, items, 12, exclude=[exclude], n_threads=1)
    for n_threads in (2, 3):
        again = backend.top_k(queries, items, 12, exclude=[exclude], n_threads=n_threads)
        assert np.array_equal(ids, again[0])
        assert np.array_equal(scores, again[1])
    for row in range(0, 300, 50):
        alone = CSR(np.array([0, exclude.counts[row]]), exclude.row(row)[0], None, 500)
        again = backend.top_k(queries[row : row + 1], items, 12, exclude=[alone])
        assert np.array_equal(ids[row], again[0][0])
        assert np.array_equal(scores[row], again[1][0])


def test_candidates_score_as_in_the_whole_catalog(backend: backends.Backend) -> None:
    rng = np.random.default_rng(8)
    queries, items = factors(rng, (40, 37), np.float32), factors(rng, (200, 37), np.float32)
    ids, scores = backend.top_k(queries, items, 200)
    whole = np.empty_like(scores)
    np.put_along_axis(whole, ids.astype(np.int64), scores, axis=1)
    some = random_lists(rng, 40, 200, 0.2)
    ids, scores = backend.top_k(queries, items, 60, candidates=some)
    for row in range(40):
        listed = ids[row][ids[row] >= 0]
        assert np.array_equal(np.sort(listed), some.row(row)[0])
        assert np.array_equal(scores[row, : len(listed)], whole[row, listed])


@pytest.mark.parametrize("n", [50, 75_000])
@pytest.mark.parametrize("n_queries", [1, 5])
def test_few_queries_over_a_large_catalog(
    backend: backends.Backend, n_queries: int, n: int
) -> None:
    # Large enough that threads share one query's catalog; whole numbers tie all over it. A long
    # list has items from where the threads' parts meet.
    rng = np.random.default_rng(13)
    queries = rng.integers(-9, 10, (n_queries, 15)).astype(np.float32)
    items = rng.integers(-9, 10, (150_000, 15)).astype(np.float32)
    items[100_000:] = items[:50_000]
    exclude = random_lists(rng, n_queries, len(items), 0.01)
    wanted = queries @ items.T
    for row, scores in enumerate(wanted):
        scores[exclude.row(row)[0]] = -np.inf
    ids, scores = backend.top_k(queries, items, n, exclude=[exclude], n_threads=3)
    best = np.argsort(-wanted, axis=1, kind="stable")[:, :n]
    assert np.array_equal(ids, best)
    assert np.array_equal(scores, np.take_along_axis(wanted, best, axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_items_tie_exactly(backend: backends.Backend, dtype: type) -> None:
    rng = np.random.default_rng(9)
    originals = factors(rng, (60, 45), dtype)
    copies = np.concatenate([originals, originals[::-1], originals])
    ids, scores = backend.top_k(factors(rng, (300, 45), dtype), copies, 180)
    triples = scores.reshape(300, 60, 3)
    assert (triples == triples[:, :, :1]).all()
    assert (np.diff(ids.reshape(300, 60, 3), axis=2) > 0).all()


def test_negative_zero_ties_with_zero(backend: backends.Backend) -> None:
    items = np.array([[-1.0], [1.0], [-1.0], [1.0]], dtype=np.float32)
    ids, _ = backend.top_k(np.zeros((1, 1), np.float32), items, 4)
    assert ids.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_short_list_is_the_head_of_a_long_one(backend: backends.Backend, dtype: type) -> None:
    # Items in the queries' direction, of lengths that differ by rounding: the hardest to leave out.
    rng = np.random.default_rng(14)
    direction, noise = rng.standard_normal(50), rng.standard_normal((400, 50))
    items = (direction * (1 + 2 * np.finfo(dtype).eps * noise)).astype(dtype)
    queries = np.outer(rng.uniform(0.5, 2, 300), direction).astype(dtype)
    ids, scores = backend.top_k(queries, items, 400)
    head = backend.top_k(queries, items, 5)
    assert np.array_equal(head[0], ids[:, :5])
    assert np.array_equal(head[1], scores[:, :5])


def test_nothing_left_to_recommend(backend: backends.Backend) -> None:
    rng = np.random.default_rng(10)
    queries, items = factors(rng, (3, 4), np.float32), factors(rng, (5, 4), np.float32)
    everything = random_lists(rng, 3, 5, 1.0)
    nothing = CSR(np.zeros(2, np.int64), np.empty(0, np.int32), None, 5)
    for filters in (
        {"exclude": [everything]},
        {"exclude_all": np.arange(5, dtype=np.int32)},
        {"candidates": nothing},
    ):
        ids, scores = backend.top_k(queries, items, 2, **filters)  # type: ignore[arg-type]
        assert (ids == -1).all()
        assert np.isnan(scores).all()


@pytest.mark.parametrize(("dtype", "exponent"), [(np.float32, 70), (np.float64, 540)])
@pytest.mark.parametrize(("left", "right"), [(-1, 0), (0, -1), (-1, 1), (1, -1)])
def test_squares_that_under_or_overflow(
    backend: backends.Backend, dtype: type, exponent: int, left: int, right: int
) -> None:
    # Scaling by a power of two is exact, so the lists stay, though squares leave the type's range.
    rng = np.random.default_rng(11)
    queries, items = factors(rng, (300, 3), dtype), factors(rng, (400, 3), dtype)
    ids, scores = backend.top_k(queries, items, 7)
    scaled = np.ldexp(queries, left * exponent), np.ldexp(items, right * exponent)
    again = backend.top_k(*scaled, 7)
    assert np.array_equal(again[0], ids)
    assert np.array_equal(again[1], np.ldexp(scores, (left + right) * exponent))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinite_scores_are_ranked(backend: backends.Backend, dtype: type) -> None:
    # The longer an item, the higher its id: only ids may decide between infinite scores.
    big = np.sqrt(np.finfo(dtype).max) * 2
    infinite = np.linspace(big, 2 * big, 100, dtype=dtype)
    items = np.concatenate([[1], infinite, [-big, 2]]).astype(dtype)[:, None]
    with np.errstate(over="ignore"):
        ids, scores = backend.top_k(np.full((300, 1), big, dtype), items, 103)
        few, _ = backend.top_k(np.full((300, 1), big, dtype), items, 7)
    assert (ids == [*range(1, 101), 102, 0, 101]).all()
    assert (scores[:, :100] == np.inf).all()
    assert (scores[:, 102] == -np.inf).all()
    assert (few == range(1, 8)).all()


def test_real_catalog(backend: backends.Backend, data_dir: Path) -> None:
    """Users of gowalla, their train items excluded, over its whole catalog."""
    data = np.load(data_dir / "gowalla" / "interactions.npz")
    train, n_items = data["split"] == 0, int(data["item"].max()) + 1
    users, item = data["user"][train], data["item"][train]
    asked = np.arange(300)
    exclude = _rows_of(users, item, asked, n_items)
    rng = np.random.default_rng(12)
    popular = np.sqrt(1 + np.bincount(item, minlength=n_items))[:, None]
    items = (rng.standard_normal((n_items, 8)) * popular).astype(np.float32)
    queries = factors(rng, (len(asked), 8), np.float32)
    ids, scores = backend.top_k(queries, items, 10, exclude=[exclude])
    truth = queries.astype(np.float64) @ items.astype(np.float64).T
    for row in range(len(asked)):
        truth[row, exclude.row(row)[0]] = -np.inf
    wanted = -np.sort(-np.partition(truth, n_items - 10, axis=1)[:, -10:], axis=1)
    assert np.allclose(scores, wanted, rtol=1e-5, atol=1e-4)
    assert np.allclose(np.take_along_axis(truth, ids.astype(np.int64), 1), wanted, 1e-5, 1e-4)


def _rows_of(
    users: NDArray[Any], items: NDArray[Any], asked: NDArray[np.int64], n_items: int
) -> CSR:
    order = np.lexsort((items, users))
    order = order[np.isin(users[order], asked)]
    counts = np.bincount(users[order], minlength=len(asked))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return CSR(indptr, items[order].astype(np.int32), None, n_items)
