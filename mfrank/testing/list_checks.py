"""Steps of ranking losses: draws, scores and sums of lists, updates."""

from __future__ import annotations

import numpy as np

from mfrank.arrays import CSR
from mfrank.backends import AdamAverages, AdamRates, Backend, ItemProbabilities, reference

_SHAPES = (0, 3, 1), (1, 0, 5), (7, 5, 40), (40, 30, 5000)
"""Lists, places of each, and items."""


def check_scores_and_sums_of_lists(backend: Backend) -> None:
    """Dot products and distances, and both sums of gradients, with several queries per list."""
    for dtype in ("float32", "float64"):
        tolerance = 200 * backend.TOLERANCE[dtype]
        for seed, (n_lists, n_places, n_items) in enumerate(_SHAPES):
            for n_asking, width in ((1, 17), (3, 64)):
                rng = np.random.default_rng(seed)
                ids = rng.integers(n_items, size=(n_lists, n_places))
                n_queries = n_lists * n_asking
                queries = rng.standard_normal((n_queries, width)).astype(dtype)
                items = rng.standard_normal((n_items, width)).astype(dtype)
                gradients = rng.standard_normal((n_queries, n_places)).astype(dtype)
                gradients *= rng.random(gradients.shape) < 0.5
                wide, asked = items.astype(float), np.repeat(ids, n_asking, axis=0)
                every = queries.astype(float) @ wide.T
                scores = backend.score(queries, items, ids, 2)
                truth = np.take_along_axis(every, asked, axis=1)
                np.testing.assert_allclose(scores, truth, atol=tolerance)
                apart = backend.score(queries, items, ids, 2, distances=True)
                truth = -((queries[:, None] - wide[asked]) ** 2).sum(2)
                np.testing.assert_allclose(apart, truth, atol=tolerance)
                dense = np.zeros((n_queries, n_items))
                np.add.at(dense, (np.arange(n_queries)[:, None], asked), gradients)
                by_list = backend.sum_items(items, ids, gradients, 2)
                np.testing.assert_allclose(by_list, dense @ wide, atol=tolerance)
                touched, by_item, totals = backend.sum_queries(queries, n_items, ids, gradients, 2)
                np.testing.assert_array_equal(touched, np.unique(asked[gradients != 0]))
                truth = dense.T[touched] @ queries.astype(float)
                np.testing.assert_allclose(by_item, truth, atol=tolerance)
                np.testing.assert_allclose(totals, dense.sum(0)[touched], atol=tolerance)
                assert {each.dtype for each in (scores, by_list, by_item, totals)} == {items.dtype}


def check_adam_steps_are_those_of_the_reference(backend: Backend) -> None:
    """Steps of some rows at a time, with few or many earlier updates."""
    rates = AdamRates(0.1, 0.8, 0.9, 1e-8)
    for dtype in ("float32", "float64"):
        start, results = np.random.default_rng(0).standard_normal((9, 37)).astype(dtype), []
        for each in (backend, reference):
            table, rng = start.copy(), np.random.default_rng(1)
            before = 256 * (np.arange(9) == 8)
            averages = AdamAverages(table * 0, table * 0, before.astype(np.int64))
            for rows in ([3, 0, 8], [3], [8, 1]):
                gradients = rng.standard_normal((len(rows), 37)).astype(dtype)
                each.adam(table, np.array(rows), gradients, averages, rates, 2)
            np.testing.assert_array_equal(averages.updates - before, [1, 1, 0, 2, 0, 0, 0, 0, 2])
            np.testing.assert_array_equal(table[[2, 4, 5, 6, 7]], start[[2, 4, 5, 6, 7]])
            results.append((table, *averages))
        for got, truth in zip(*results, strict=True):
            np.testing.assert_allclose(got, truth, atol=10 * backend.TOLERANCE[dtype])


def check_draws_are_those_of_the_reference(backend: Backend) -> None:
    """Draws agree to the bit: the same key draws the same items on every backend."""
    for seed, (n_users, n_items, count) in enumerate([(0, 4, 3), (12, 40, 5), (9, 3, 20)]):
        rng = np.random.default_rng(seed)
        liked = rng.random((n_users, n_items)) < rng.choice([0, 0.1, 0.5, 1], (n_users, 1))
        indptr = np.concatenate([[0], np.cumsum(liked.sum(1))])
        rows = CSR(indptr, np.nonzero(liked)[1].astype(np.int32), None, n_items)
        users, key = rng.permutation(n_users), int(rng.integers(2**63))
        likes = backend.draw_positives(rows, users, count, key, 2)
        np.testing.assert_array_equal(likes, reference.draw_positives(rows, users, count, key))
        weights = rng.random(n_items) * (np.arange(n_items) != 1)
        for chances in (None, ItemProbabilities.of(weights)):
            got = backend.draw_negatives(rows, users, count, key, chances, 2)
            truth = reference.draw_negatives(rows, users, count, key, chances)
            for array, expected in zip(got, truth, strict=True):
                np.testing.assert_array_equal(array, expected)
            assert [array.dtype for array in (likes, *got)] == [np.int64, np.int64, np.bool_]


def check_rows_of_a_ball_and_a_sphere(backend: Backend) -> None:
    """Gradients along the sphere and of distances; rows projected back onto it."""
    for dtype in ("float32", "float64"):
        rng = np.random.default_rng(2)
        table, sums = rng.standard_normal((2, 20, 13)).astype(dtype)
        totals, rows = rng.standard_normal(20).astype(dtype), np.arange(20)
        tolerance = 20 * backend.TOLERANCE[dtype]
        for name, more in (("tangent", ()), ("ball_gradients", (totals,))):
            found = getattr(backend, name)(table, rows, sums.copy(), *more)
            truth = getattr(reference, name)(table, rows, sums.copy(), *more)
            np.testing.assert_allclose(found, truth, atol=tolerance)
        for ball in (False, True):
            found, truth = table.copy(), table.copy()
            backend.project_rows(found, rows, ball=ball)
            reference.project_rows(truth, rows, ball=ball)
            np.testing.assert_allclose(found, truth, atol=tolerance)
