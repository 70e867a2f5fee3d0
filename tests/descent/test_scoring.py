"""Scores are what they are called; what a store holds of them ranks items alike."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from fits import BACKENDS
from numpy.typing import NDArray

from mfrank.arrays import directions_of
from mfrank.backends import choose
from mfrank.descent import SCORINGS, FactorRows
from mfrank.losses import Scores

Floats = NDArray[np.float64]


def rows(n_rows: int, seed: int) -> Floats:
    """Of lengths around 1; the first is 0."""
    drawn = np.random.default_rng(seed).normal(size=(n_rows, 5)) / np.sqrt(5)
    drawn[0] = 0
    return drawn


def confined(scores: Scores, n_rows: int, seed: int) -> Floats:
    table = rows(n_rows, seed)
    SCORINGS[scores].project_rows(FactorRows(table, np.arange(n_rows), choose()))
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_are_drawn_back_to_the_sphere_and_into_the_ball(backend: str) -> None:
    table, some = rows(30, 0), np.arange(0, 30, 2)
    lengths = np.sqrt((table**2).sum(1))
    assert (lengths[some] > 1).any()
    for scores, expected in (
        ("dot", table),
        ("cosine", directions_of(table)),
        ("distance", table / np.maximum(lengths, 1)[:, None]),
    ):
        moved = table.copy()
        SCORINGS[scores].project_rows(FactorRows(moved, some, choose(backend)))  # type: ignore[index]
        np.testing.assert_allclose(moved[some], expected[some])
        np.testing.assert_array_equal(moved[1::2], table[1::2])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scores", get_args(Scores))
def test_slopes_in_rows_are_derivatives_of_the_scores(
    scores: Scores, dtype: str, backend: str
) -> None:
    """Of sum g q . p, of cosines along the sphere only, and of -sum g |p - q|^2."""
    table, some = confined(scores, 30, 0).astype(dtype), np.arange(1, 30, 2)
    rng = np.random.default_rng(2)
    g, q = rng.normal(size=(len(some), 7)), rng.normal(size=(len(some), 7, 5))
    sums, totals = (g[:, :, None] * q).sum(1).astype(dtype), g.sum(1).astype(dtype)
    own = table[some].astype(np.float64)
    expected = {
        "dot": (g[:, :, None] * q).sum(1),
        "cosine": np.einsum("bn,bnj,bij->bi", g, q, np.eye(5) - own[:, :, None] * own[:, None]),
        "distance": -2 * (g[:, :, None] * (own[:, None] - q)).sum(1),
    }[scores]
    before, rows = table.copy(), FactorRows(table, some, choose(backend), 2)
    found = SCORINGS[scores].gradients(sums, totals, rows)
    assert found.dtype == dtype
    near = 1e-12 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)
    np.testing.assert_array_equal(table, before)


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
