"""Weights of a blend: what helps joins, with a good weight, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from mfrank.arrays import OutOfTimeError
from mfrank.tuning import MOST_PARTS, Weights, weighed

PARTS = 7


def shares(weights: Weights) -> np.ndarray:
    """Parts of the whole weight."""
    found = np.zeros(PARTS)
    found[list(weights)] = list(weights.values())
    return found / found.sum()


def near(target: Weights) -> object:
    """A value that is highest at the shares of the target."""
    return lambda weights: 10 - float(np.sum((shares(weights) - shares(target)) ** 2))


def others(weights: Weights) -> list[int]:
    return list(range(PARTS))


@pytest.mark.parametrize(
    "target", [{0: 1.0}, {0: 1.0, 3: 0.5}, {0: 1.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 2.0, 5: 1.0}]
)
def test_parts_that_help_join_near_their_best_weights(target: Weights) -> None:
    chosen = weighed(near(target), others)
    assert chosen.keys() == target.keys()
    assert np.abs(shares(chosen) - shares(target)).max() < 0.06


def test_no_more_parts_join_than_may_and_none_that_must_not() -> None:
    def joining(some: Weights) -> list[int]:
        return list(range(0, 20, 2))

    chosen = weighed(lambda some: float(len(some)), joining)
    assert len(chosen) == MOST_PARTS
    assert not any(part % 2 for part in chosen)
    assert weighed(lambda some: 1.0 + 1e-4 * len(some), joining) == {0: 1.0}
    assert weighed(lambda some: 0.0, lambda some: []) == {0: 1.0}


def test_of_equal_blends_the_first_is_taken_and_only_for_a_gain_of_a_thousandth() -> None:
    assert weighed(lambda some: 0.5 + 0.1 * (len(some) > 1), others) == {0: 1.0, 1: 1.0}
    further = weighed(lambda some: 0.05 + 0.01 * (len(some) > 2), lambda some: [1, 2])
    assert further == {0: 1.0, 1: 1.0, 2: 1.0}
    assert weighed(lambda some: 1.0 + 0.001 * (len(some) > 1), others) == {0: 1.0}
    assert weighed(lambda some: 1.0 + 0.0011 * (len(some) > 1), others) == {0: 1.0, 1: 1.0}


def test_twelve_times_a_part_gets_more_weight() -> None:
    tried = list[Weights]()

    def value(weights: Weights) -> float:
        tried.append(weights)
        return float(sum(weights.values()))

    chosen = weighed(value, lambda some: [1])
    assert chosen == {0: 1.0, 1: 12.0}
    assert len(tried) == 1 + 12


@pytest.mark.parametrize("values", [1, 8, 15, 30])
def test_what_was_found_before_the_time_was_over_is_kept(values: int) -> None:
    told: list[Weights] = []

    def value(weights: Weights) -> float:
        if len(told) == values:
            raise OutOfTimeError
        told.append(weights)
        return near({0: 1.0, 1: 2.0, 2: 2.0, 5: 1.0})(weights)

    chosen = weighed(value, others)
    assert len(told) == values
    assert len(chosen) == min(MOST_PARTS, 1 + (values - 1) // PARTS)
