"""Scores are what they are called; what a store holds of them ranks items alike."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from mfrank.scoring import SCORINGS, Rows, Scores, on_sphere

Floats = NDArray[np.float64]


def rows(n_rows: int, seed: int) -> Floats:
    """Of lengths around 1; the first is 0."""
    drawn = np.random.default_rng(seed).normal(size=(n_rows, 5)) / np.sqrt(5)
    drawn[0] = 0
    return drawn


def confined(scores: Scores, n_rows: int, seed: int) -> Floats:
    table = rows(n_rows, seed)
    SCORINGS[scores].confine(Rows(table, np.arange(n_rows)))
    return table


def truth(scores: Scores, p: Floats, q: Floats) -> Floats:
    if scores == "distance":
        return -((p[:, None] - q) ** 2).sum(2)
    return p @ q.T


@pytest.mark.parametrize("scores", get_args(Scores))
def test_scores_from_products(scores: Scores) -> None:
    p, q = confined(scores, 9, 0), confined(scores, 40, 1)
    found = SCORINGS[scores].scores(p @ q.T, p, q)
    np.testing.assert_allclose(found, truth(scores, p, q), atol=1e-14)


def test_rows_are_drawn_back_to_the_sphere_and_into_the_ball() -> None:
    table, some = rows(30, 0), np.arange(0, 30, 2)
    lengths = np.sqrt((table**2).sum(1))
    assert (lengths[some] > 1).any()
    for scores, expected in (
        ("dot", table),
        ("cosine", on_sphere(table)),
        ("distance", table / np.maximum(lengths, 1)[:, None]),
    ):
        moved = table.copy()
        SCORINGS[scores].confine(Rows(moved, some))  # type: ignore[index]
        np.testing.assert_allclose(moved[some], expected[some])
        np.testing.assert_array_equal(moved[1::2], table[1::2])


@pytest.mark.parametrize("scores", get_args(Scores))
def test_a_store_ranks_as_the_scores_do(scores: Scores) -> None:
    p, q = confined(scores, 9, 0)[1:], confined(scores, 40, 1)
    for biases in (np.zeros(40), np.random.default_rng(3).normal(size=40)):
        stored = SCORINGS[scores].stored(q, biases)
        ranked = np.argsort(-(truth(scores, p, q) + biases), axis=1)
        np.testing.assert_array_equal(np.argsort(-(p @ q.T + stored), axis=1), ranked)
        np.testing.assert_allclose(SCORINGS[scores].trained(q, stored), biases, atol=1e-14)


def test_no_biases_come_back_as_none() -> None:
    """To the bit: what only makes up for lengths is not taken for trained."""
    items = confined("distance", 40, 1).astype(np.float32)
    distance = SCORINGS["distance"]
    assert not distance.trained(items, distance.stored(items, np.zeros(40, np.float32))).any()
