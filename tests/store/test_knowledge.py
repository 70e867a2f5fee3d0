"""What a store knows about its rows, from its factors, biases, counts, features and prior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mfrank import FactorStore
from mfrank.data import Counts
from mfrank.store import has_counts, ranks_anybody

ITEMS = np.array([[1.0, 2.0], [0.0, 0.0], [-1.0, 0.5], [3.0, 0.0]])


def store(counts: Any = (5, 4, 3, 2), **more: Any) -> FactorStore:
    fitter = more.pop("fitter", {"name": "ALS", "options": {}})
    counted = None if counts is None else Counts(np.array([7, 7]), np.array(counts))
    return FactorStore(np.ones((2, 2)), ITEMS, counts=counted, fitter=fitter, **more)


def rows(mask: Any) -> list[int]:
    return [] if mask is None else np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    ("options", "unmet"),
    [
        ({}, [1]),  # no factors
        ({"item_biases": [0.0, 0.1, 0.0, 0.0]}, []),
        ({"item_biases": [0.1, 0.0, 0.1, 0.1]}, [1]),
        ({"counts": (0, 4, 3, 2)}, [0, 1]),  # no users
        ({"counts": (0, 4, 3, 2), "item_biases": np.full(4, 0.5)}, [0]),
        ({"counts": (1, 0, 1, 1)}, [1]),
        ({"counts": None}, [1]),
        ({"counts": (0, 4, 3, 2), "fitter": {"name": "unknown", "options": {}}}, [1]),
        ({"counts": (0, 0, 0, 0)}, [1]),  # counts of nothing are none
        ({"counts": (0, 4, 0, 2), "item_prior": [0.5, 0.0, 0.0, 0.0]}, [1, 2]),
        ({"counts": (0, 4, 3, 2), "item_prior": [0.5, 0.0, 0.0, 0.0]}, [1]),
        ({"fitter": {"name": "ItemBlend", "options": {}}}, []),
        ({"counts": (0, 4, 3, 2), "fitter": {"name": "ItemBlend", "options": {}}}, [0]),
        (
            {"counts": (0, 4, 3, 2), "fitter": {"name": "ALS", "options": {"item_features": True}}},
            [1],
        ),
    ],
)
def test_items_of_which_nothing_is_known(options: dict[str, Any], unmet: list[int]) -> None:
    assert rows(store(**options).unmet_items) == unmet


def test_lone_items_are_unmet_or_without_factors() -> None:
    assert rows(store((0, 4, 3, 2), item_biases=[0.0, 0.5, 0.0, 0.0]).lone_items) == [0, 1]
    assert rows(store().lone_items) == [1]
    full = np.abs(ITEMS) + 1
    assert replace(store(), item_factors=full).lone_items is None
    assert rows(replace(store((5, 4, 0, 2)), item_factors=full).lone_items) == [2]


@pytest.mark.parametrize(
    ("biases", "rank"),
    [
        (None, False),
        ([2.0], False),  # there is nothing to rank
        ([2.0, 2.0], False),
        ([2.0, 1.0], True),
        ([0.0, 0.0, 0.0], False),
        ([0.0, 0.0, 1e-6], True),
    ],
)
def test_biases_rank_for_anybody_unless_all_are_the_same(biases: Any, rank: bool) -> None:
    given = None if biases is None else np.array(biases)
    factors = np.ones((1 if biases is None else len(biases), 2))
    assert ranks_anybody(factors, given) is rank


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_biases_that_are_the_lengths_of_distances_rank_for_nobody(dtype: Any, scale: float) -> None:
    """Scores p q - p p / 2 - q q / 2 are distances: they know nothing without the user."""
    factors = (ITEMS * scale).astype(dtype)
    biases = -(factors**2).sum(axis=1) / 2
    users = np.zeros(3, dtype)
    assert not ranks_anybody(factors, biases, users)
    assert ranks_anybody(factors, biases)  # without biases of users these are no distances
    assert ranks_anybody(factors, -biases, users)
    other = biases.copy()
    other[0] *= dtype(0.9)
    assert ranks_anybody(factors, other, users)
    other = biases.copy()
    other[1] = 1e-4  # of an item at the origin
    assert ranks_anybody(factors, other, users)


def test_counts_of_a_fit_of_another_program_are_not_those_of_the_factors() -> None:
    assert has_counts(store())
    assert not has_counts(store(fitter={"name": "unknown", "options": {}}))
    assert not has_counts(store(None))
    assert not has_counts(store((0, 0, 0, 0)))
