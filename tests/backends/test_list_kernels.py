"""Kernels over lists refuse what would read or write beyond an array, whatever calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

_ext = pytest.importorskip("mfrank._ext", reason="the C++ extension is not built")

ITEMS, QUERIES = np.ones((5, 3), np.float32), np.ones((2, 3), np.float32)
IDS, SLOPES = np.zeros((2, 4), np.int64), np.ones((2, 4), np.float32)
ROW_SCORES = np.ones((2, 3, 4))
ROWS = {"indptr": np.array([0, 2, 3]), "indices": np.array([0, 4, 1], np.int32), "n_columns": 5}


def score(ids: Any = IDS, queries: Any = QUERIES) -> None:
    _ext.score(queries, ITEMS, ids, np.empty((2, 4), np.float32), False, 1)


def sum_items(ids: Any = IDS, gradients: Any = SLOPES) -> None:
    _ext.sum_items(ITEMS, ids, gradients, np.empty((2, 3), np.float32), 1)


def sum_queries(ids: Any = IDS, gradients: Any = SLOPES) -> None:
    _ext.sum_queries(QUERIES, 5, ids, gradients, 1)


def adam(rows: Any) -> None:
    tables = {name: np.zeros((5, 3), np.float32) for name in ("table", "means", "squares")}
    gradients = np.ones((len(rows), 3), np.float32)
    rates = {"learning_rate": 0.1, "decay_1": 0.9, "decay_2": 0.9, "epsilon": 1e-8}
    _ext.adam(
        **tables,
        updates=np.zeros(5, np.int64),
        rows=rows,
        gradients=gradients,
        **rates,
        n_threads=1,
    )


def draw_positives(users: Any, **rows: Any) -> None:
    cells = np.empty((len(users), 2), np.int64)
    _ext.draw_positives(**(ROWS | rows), users=users, key=1, cells=cells, n_threads=1)


def draw_negatives(users: Any, guide: Any = None, **rows: Any) -> None:
    items = np.empty((len(users), 9), np.int64)
    chances = None if guide is None else np.linspace(0.2, 1, 5)
    _ext.draw_negatives(
        **(ROWS | rows),
        users=users,
        key=1,
        cumulative=chances,
        guide=guide,
        rounds=5,
        items=items,
        filled=np.empty(items.shape, np.bool_),
        n_threads=2,
    )


def sum_ramps(ramp: str = "sigmoid", weights: Any = None) -> None:
    scores, thresholds = np.ones((2, 4)), np.ones((2, 3))
    weights = scores if weights is None else weights
    _ext.sum_ramps(ramp, scores, weights, thresholds, thresholds.copy(), thresholds.copy(), 1)


def row_hinges(scores: Any = ROW_SCORES, n_slopes: int = 4) -> None:
    rows, weights = np.ones((4, 2, 3)), np.ones((2, 4))
    names = dict(zip(("thresholds", "row_weights", "sums", "slope_sums"), rows, strict=True))
    _ext.row_hinges(
        scores=scores, **names, weights=weights, gradients=np.empty((2, 3, n_slopes)), n_threads=1
    )


def slide(rows: Any, width: int = 3) -> None:
    sums = np.ones((len(rows), width), np.float32)
    _ext.tangent(ITEMS, rows, sums, 1)


def pull(rows: Any, n_totals: int = 1) -> None:
    totals, sums = np.ones(n_totals, np.float32), np.ones((len(rows), 3), np.float32)
    _ext.ball_gradients(ITEMS, rows, totals, sums, 1)


def project_rows(rows: Any) -> None:
    _ext.project_rows(ITEMS.copy(), rows, False, 2)


def smoothed(n_weights: int = 4, above: str = "count", n_whole: int = 2) -> None:
    x, weights, whole = np.ones((2, 4)), np.ones(n_weights), np.ones(n_whole)
    filled = np.ones((2, 4), np.bool_)
    _ext.smoothed(x, x, x, filled, whole, weights, above, 1.0, True, x.copy(), np.empty(2), 1)


def soft_ndcg(n_lists: int = 2, rounds: int = 1) -> None:
    scores, losses = np.ones((2, 4)), np.empty(2)
    filled, gains, ideal = np.ones((2, 4), np.bool_), np.ones((n_lists, 1)), np.ones(2)
    _ext.soft_ndcg(scores, filled, gains, ideal, 1.0, rounds, scores.copy(), losses, 1)


BAD: dict[str, tuple[Callable[[], None], type[Exception], str]] = {
    "id too large": (lambda: score(IDS + 5), IndexError, r"ids must lie in \[0, 5\)"),
    "id negative": (lambda: sum_items(IDS - 1), IndexError, r"ids must lie in \[0, 5\)"),
    "id of no item": (lambda: sum_queries(IDS + 5), IndexError, r"ids must lie in \[0, 5\)"),
    "narrow queries": (lambda: score(queries=QUERIES[:, :2].copy()), ValueError, "columns"),
    "ids that some ask": (lambda: score(np.zeros((3, 4), int)), ValueError, "multiple of the rows"),
    "few slopes": (lambda: sum_items(gradients=SLOPES[:, :2].copy()), ValueError, "4 columns"),
    "wide slopes": (lambda: sum_queries(gradients=SLOPES.astype(float)), TypeError, "float32"),
    "short ids": (lambda: score(IDS.astype(np.int32)), TypeError, "int64"),
    "row too large": (lambda: adam(np.array([0, 5])), IndexError, r"distinct and lie in \[0, 5\)"),
    "row twice": (lambda: adam(np.array([2, 2])), IndexError, "rows must be distinct"),
    "row of none to slide": (lambda: slide(np.array([5])), IndexError, r"lie in \[0, 5\)"),
    "row of none to confine": (lambda: project_rows(np.array([-1])), IndexError, r"\[0, 5\)"),
    "row of none to pull": (lambda: pull(np.array([5])), IndexError, r"lie in \[0, 5\)"),
    "totals of other rows": (lambda: pull(np.array([4]), 2), ValueError, "totals must have 1"),
    "narrow sums": (lambda: slide(np.array([1]), 2), ValueError, "3 columns"),
    "user too large": (
        lambda: draw_positives(np.array([2])),
        IndexError,
        r"users must lie in \[0, 2\)",
    ),
    "user negative": (lambda: draw_negatives(np.array([-1])), IndexError, "users must lie in"),
    "rows beyond the entries": (
        lambda: draw_positives(np.array([1]), indptr=np.array([0, 2, 9])),
        ValueError,
        "indptr must be non-decreasing",
    ),
    "a column of no item": (
        lambda: draw_negatives(np.array([0]), n_columns=3),
        IndexError,
        "indices",
    ),
    "no columns": (lambda: draw_negatives(np.array([1]), n_columns=0), ValueError, "n_columns"),
    "guide beyond": (
        lambda: draw_negatives(np.array([1]), guide=np.full(5, 5)),
        IndexError,
        "guide must lie",
    ),
    "unknown ramp": (lambda: sum_ramps("step"), ValueError, "ramp must be hinge"),
    "rows of scores in pieces": (
        lambda: row_hinges(np.ones((2, 3, 8))[:, :, ::2]),
        ValueError,
        "scores must have contiguous rows",
    ),
    "one row of scores": (lambda: row_hinges(np.ones((2, 4))), ValueError, "3 dimensions"),
    "few slopes of rows": (lambda: row_hinges(n_slopes=3), ValueError, "gradients must have 4 col"),
    "no weights": (lambda: smoothed(0), ValueError, "weights must have 1 to n_places"),
    "weights of no place": (lambda: smoothed(5), ValueError, "weights must have 1 to n_places"),
    "unknown above": (lambda: smoothed(above="sum"), ValueError, "above must be nothing, count"),
    "few wholes": (lambda: smoothed(n_whole=1), ValueError, "whole must have 2"),
    "gains of other lists": (lambda: soft_ndcg(3), ValueError, "gains must have 2 rows"),
    "fewer rounds than none": (lambda: soft_ndcg(rounds=-1), ValueError, "rounds must be at least"),
    "few weights": (lambda: sum_ramps(weights=np.ones((2, 3))), ValueError, "4 columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arrays_are_refused(name: str) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


def test_good_ones_are_not() -> None:
    score(), sum_items(), sum_queries(), adam(np.array([4, 0])), sum_ramps()
    row_hinges(), row_hinges(np.ones((4, 3, 8))[::2, :, 4:])
    smoothed(), smoothed(1), soft_ndcg()
    draw_positives(np.array([1, 0, 0])), draw_negatives(np.array([0, 1]))
    (
        draw_negatives(np.array([0, 1]), guide=np.arange(5)),
        slide(np.array([1])),
        project_rows(np.array([4])),
    )
    pull(np.array([2]))


@pytest.mark.parametrize("n_asking", [1, 3, 11])
@pytest.mark.parametrize("n_items", [50, 100_000])  # sorted by counting, and by digits
def test_sums_are_the_same_bits_for_any_number_of_threads(n_items: int, n_asking: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(n_items, size=(120, 200))
    items = rng.normal(size=(n_items, 19)).astype(np.float32)
    queries = rng.normal(size=(120 * n_asking, 19)).astype(np.float32)
    gradients = rng.normal(size=(len(queries), 200)).astype(np.float32)
    gradients *= rng.random(gradients.shape) < 0.5
    found = []
    for n_threads in (1, 2, 5):
        by_list = np.empty_like(queries)
        _ext.sum_items(items, ids, gradients, by_list, n_threads)
        parts = by_list, *_ext.sum_queries(queries, n_items, ids, gradients, n_threads)
        found.append([part.tobytes() for part in parts])
    assert found[0] == found[1] == found[2]
