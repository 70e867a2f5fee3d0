"""The contract of Backend.top_k, for every backend that can run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfrank import backends
from mfrank.arrays import CSR
from mfrank.testing import Query, random_filters, random_lists, uneven_factors

Lists = tuple[NDArray[np.int32], NDArray[Any]]


def _available() -> list[str]:
    return [name for name in backends.names() if backends.named(name).why_unavailable() is None]


@pytest.fixture(scope="module", params=_available())
def backend(request: pytest.FixtureRequest) -> backends.Backend:
    return backends.choose(request.param)


def assert_best(query: Query, answer: Lists, tolerance: float) -> None:
    """The lists are those of a full sort, but for items whose scores differ by rounding."""
    (ids, scores), (_, wanted) = answer, query.by_sorting()
    truth = query.scores()
    assert np.array_equal(np.isnan(scores), ids == -1)
    assert np.allclose(scores, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    for row, (got, values) in enumerate(zip(ids, scores, strict=True)):
        listed = got[got >= 0]
        assert len(set(listed.tolist())) == len(listed)
        assert set(listed.tolist()) <= set(query.allowed(row))
        assert np.allclose(values[: len(listed)], truth[row, listed], tolerance, tolerance)
        assert (np.diff(values[: len(listed)]) <= 0).all()


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
    (ids, scores), (wanted_ids, wanted_scores) = query.ask(backend), query.by_sorting()
    assert np.array_equal(ids, wanted_ids)
    assert np.array_equal(scores, wanted_scores, equal_nan=True)
    assert (ids.dtype, scores.dtype) == (np.int32, dtype)


def test_long_lists(backend: backends.Backend) -> None:
    rng = np.random.default_rng(6)
    query = Query(
        uneven_factors(rng, (20, 16), np.float32),
        uneven_factors(rng, (3000, 16), np.float32),
        1000,
        {},
    )
    assert_best(query, query.ask(backend), 1e-4)


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
    queries = uneven_factors(rng, (len(asked), 8), np.float32)
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
