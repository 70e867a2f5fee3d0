"""Exact lists of the best items, against a full sort."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Listed, Picked
from mfrank.backends import Backend

Lists = tuple[NDArray[np.int32], NDArray[Any]]


class Query(NamedTuple):
    """Arguments of one call."""

    queries: NDArray[Any]
    items: NDArray[Any]
    k: int
    filters: dict[str, Any]

    def ask(self, backend: Backend) -> Lists:
        """The backend's lists."""
        return backend.top_k(self.queries, self.items, self.k, **self.filters)

    def scores(self) -> NDArray[np.float64]:
        """All scores, in float64."""
        bias = self.filters.get("item_bias")
        scores = self.queries.astype(np.float64) @ self.items.astype(np.float64).T
        return scores if bias is None else scores + bias.astype(np.float64)

    def allowed(self, row: int) -> list[int]:
        """Items of the row that pass all filters."""
        allowed = set(range(len(self.items)))
        if (only := self.filters.get("candidates")) is not None:
            allowed &= _listed(only, row)
        if self.filters.get("exclude_all") is not None:
            allowed -= set(self.filters["exclude_all"].tolist())
        return sorted(
            allowed.difference(*(_listed(e, row) for e in self.filters.get("exclude", ())))
        )

    def by_sorting(self) -> Lists:
        """Every allowed item of every row, by descending score, then by id."""
        shape = (len(self.queries), self.k)
        ids, scores = np.full(shape, -1, np.int32), np.full(shape, np.nan)
        for row, own in enumerate(self.scores()):
            best = sorted(self.allowed(row), key=lambda i: (-own[i], i))[: self.k]
            ids[row, : len(best)], scores[row, : len(best)] = best, own[best]
        return ids, scores


def check_equals_a_full_sort_ties_included(backend: Backend) -> None:
    """Small whole numbers: every sum is exact in both dtypes, and many scores tie."""
    shapes = (0, 5, 3), (1, 0, 1), (2, 40, 7), (8, 100, 64), (33, 70, 16), (300, 100, 9)
    for seed, (n_queries, n_items, width) in enumerate(2 * shapes):
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(seed)
            queries = rng.integers(-2, 3, (n_queries, width)).astype(dtype)
            items = rng.integers(-2, 3, (n_items, width)).astype(dtype)
            items = items[rng.integers(0, 1 + n_items // 2, n_items)]
            filters = random_filters(rng, n_queries, n_items)
            if seed % 2:
                filters["item_bias"] = rng.integers(-3, 4, n_items).astype(dtype)
            query = Query(queries, items, max(1, n_items - 20 * (seed % 3) + 2), filters)
            (ids, scores), (wanted, best) = query.ask(backend), query.by_sorting()
            np.testing.assert_array_equal(ids, wanted)
            np.testing.assert_array_equal(scores, best)
            assert ids.dtype == np.int32
            assert scores.dtype == dtype


def check_random_factors_are_ranked_exactly(backend: Backend) -> None:
    """Ranks are exact up to items whose scores differ by rounding, with and without biases."""
    for dtype, tolerance in ((np.float32, 1e-4), (np.float64, 1e-11)):
        rng = np.random.default_rng(5)
        queries, items = (
            uneven_factors(rng, (200, 33), dtype),
            uneven_factors(rng, (700, 33), dtype),
        )
        filters: dict[str, Any] = {"exclude": [random_lists(rng, 200, 700, 0.02)]}
        for bias in (None, (3 * rng.standard_normal(700)).astype(dtype)):
            query = Query(queries, items, 10, filters | {"item_bias": bias})
            (ids, scores), (_, wanted) = query.ask(backend), query.by_sorting()
            np.testing.assert_allclose(scores, wanted, rtol=tolerance, atol=tolerance)
            own = np.take_along_axis(query.scores(), ids.astype(np.int64), axis=1)
            np.testing.assert_allclose(scores, own, rtol=tolerance, atol=tolerance)
            for row, listed in enumerate(ids.tolist()):
                assert len(set(listed)) == 10
                assert set(listed) <= set(query.allowed(row))


def check_candidates_score_as_in_the_whole_catalog(backend: Backend) -> None:
    """Scores agree to the bit."""
    rng = np.random.default_rng(8)
    queries, items = (
        uneven_factors(rng, (40, 37), np.float32),
        uneven_factors(rng, (200, 37), np.float32),
    )
    ids, scores = backend.top_k(queries, items, 200)
    whole = np.empty_like(scores)
    np.put_along_axis(whole, ids.astype(np.int64), scores, axis=1)
    some = random_lists(rng, 40, 200, 0.2)
    ids, scores = backend.top_k(queries, items, 60, candidates=some)
    for row in range(40):
        listed = ids[row][ids[row] >= 0]
        np.testing.assert_array_equal(np.sort(listed), some.row(row)[0])
        np.testing.assert_array_equal(scores[row, : len(listed)], whole[row, listed])


def check_equal_items_tie_exactly(backend: Backend) -> None:
    """Among equal items, the lower id comes first; -0 is 0."""
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(9)
        originals = uneven_factors(rng, (60, 45), dtype)
        copies = np.concatenate([originals, originals[::-1], originals])
        ids, scores = backend.top_k(uneven_factors(rng, (100, 45), dtype), copies, 180)
        triples = scores.reshape(100, 60, 3)
        assert (triples == triples[:, :, :1]).all()
        assert (np.diff(ids.reshape(100, 60, 3), axis=2) > 0).all()
    items = np.array([[-1.0], [1.0], [-1.0], [1.0]], dtype=np.float32)
    assert backend.top_k(np.zeros((1, 1), np.float32), items, 4)[0].tolist() == [[0, 1, 2, 3]]


def check_a_short_list_is_the_head_of_a_long_one(backend: Backend) -> None:
    """For items in the direction of the queries, whose lengths differ by rounding."""
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(14)
        direction, noise = rng.standard_normal(50), rng.standard_normal((400, 50))
        items = (direction * (1 + 2 * np.finfo(dtype).eps * noise)).astype(dtype)
        queries = np.outer(rng.uniform(0.5, 2, 100), direction).astype(dtype)
        ids, scores = backend.top_k(queries, items, 400)
        head = backend.top_k(queries, items, 5)
        np.testing.assert_array_equal(head[0], ids[:, :5])
        np.testing.assert_array_equal(head[1], scores[:, :5])


def check_the_company_and_the_threads_change_no_bit(backend: Backend) -> None:
    """A row's list is the same alone and among others."""
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(7)
        queries, items = (
            uneven_factors(rng, (150, 21), dtype),
            uneven_factors(rng, (500, 21), dtype),
        )
        exclude = random_lists(rng, 150, 500, 0.05)
        ids, scores = backend.top_k(queries, items, 12, exclude=[exclude], n_threads=1)
        again = backend.top_k(queries, items, 12, exclude=[exclude], n_threads=3)
        np.testing.assert_array_equal(ids, again[0])
        np.testing.assert_array_equal(scores, again[1])
        for row in range(0, 150, 50):
            alone = CSR(np.array([0, exclude.counts[row]]), exclude.row(row)[0], None, 500)
            again = backend.top_k(queries[row : row + 1], items, 12, exclude=[alone])
            np.testing.assert_array_equal(ids[row], again[0][0])
            np.testing.assert_array_equal(scores[row], again[1][0])


def check_nothing_left_to_recommend(backend: Backend) -> None:
    """Padding has the id -1 and the score NaN."""
    rng = np.random.default_rng(10)
    queries, items = (
        uneven_factors(rng, (3, 4), np.float32),
        uneven_factors(rng, (5, 4), np.float32),
    )
    nothing = CSR(np.zeros(2, np.int64), np.empty(0, np.int32), None, 5)
    for filters in (
        {"exclude": [random_lists(rng, 3, 5, 1.0)]},
        {"exclude_all": np.arange(5, dtype=np.int32)},
        {"candidates": nothing},
    ):
        ids, scores = Query(queries, items, 2, filters).ask(backend)
        assert (ids == -1).all()
        assert np.isnan(scores).all()


def check_squares_that_under_or_overflow(backend: Backend) -> None:
    """Scaling by a power of two is exact: lists stay, though squares leave the dtype's range."""
    for dtype, exponent in ((np.float32, 70), (np.float64, 540)):
        rng = np.random.default_rng(11)
        queries, items = (uneven_factors(rng, (n, 3), dtype) for n in (150, 400))
        ids, scores = backend.top_k(queries, items, 7)
        for left, right in ((-1, 0), (0, -1), (-1, 1), (1, -1)):
            scaled = np.ldexp(queries, left * exponent), np.ldexp(items, right * exponent)
            again = backend.top_k(*scaled, 7)
            np.testing.assert_array_equal(again[0], ids)
            np.testing.assert_array_equal(again[1], np.ldexp(scores, (left + right) * exponent))


def check_infinite_scores_are_ranked(backend: Backend) -> None:
    """Ties of infinite scores are broken by id; here, longer items have higher ids."""
    for dtype in (np.float32, np.float64):
        big = np.sqrt(np.finfo(dtype).max) * 2
        infinite = np.linspace(big, 2 * big, 100, dtype=dtype)
        items = np.concatenate([[1], infinite, [-big, 2]]).astype(dtype)[:, None]
        with np.errstate(over="ignore"):
            ids, scores = backend.top_k(np.full((150, 1), big, dtype), items, 103)
            few, _ = backend.top_k(np.full((150, 1), big, dtype), items, 7)
        assert (ids == [*range(1, 101), 102, 0, 101]).all()
        assert (scores[:, :100] == np.inf).all()
        assert (scores[:, 102] == -np.inf).all()
        assert (few == range(1, 8)).all()


def uneven_factors(rng: np.random.Generator, shape: tuple[int, int], dtype: type) -> NDArray[Any]:
    """Rows whose lengths differ like the factors of popular and rare items."""
    rows = rng.standard_normal(shape) * rng.lognormal(0, 1, (shape[0], 1))
    return rows.astype(dtype)


def random_lists(rng: np.random.Generator, n_rows: int, n_items: int, share: float) -> CSR:
    """A random share of the items for each row."""
    chosen = rng.random((n_rows, n_items)) < share
    indptr = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    return CSR(indptr, np.nonzero(chosen)[1].astype(np.int32), None, n_items)


def random_filters(rng: np.random.Generator, n_queries: int, n_items: int) -> dict[str, Any]:
    """Filters of any kinds, with a row per query or as whole matrices."""

    def lists(share: float) -> Listed:
        if rng.random() < 0.5:
            return random_lists(rng, n_queries, n_items, share)
        whole = random_lists(rng, n_queries + 2, n_items, share)
        return Picked(whole, rng.integers(0, n_queries + 2, n_queries))

    shared = random_lists(rng, 1, n_items, rng.random())
    some, more = lists(rng.choice([0.1, 0.9, 1.0])), lists(0.2)
    options: dict[str, list[Any]] = {
        "exclude": [(), (some,), (some, more)],
        "exclude_all": [None, random_lists(rng, 1, n_items, 0.3).indices],
        "candidates": [None, shared, lists(rng.random())],
    }
    return {name: values[rng.integers(len(values))] for name, values in options.items()}


def _listed(lists: Listed, row: int) -> set[int]:
    """What is on a row's list; a CSR of one row is everyone's."""
    if isinstance(lists, Picked):
        return _listed(lists.whole, int(lists.rows[row]))
    return set(lists.row(0 if lists.n_rows == 1 else row)[0].tolist())
