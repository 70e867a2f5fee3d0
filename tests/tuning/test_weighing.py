"""Weights of a blend: what helps joins, with a good weight, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from mfrank.tuning.weighing import MOST_PARTS, Weights, weighed


def near(target: Weights) -> object:
    """A value that is highest at the target, by the logarithms of weights."""

    def value(weights: Weights) -> float:
        far = [abs(np.log2(weights[part] / target[part])) for part in weights if part in target]
        return 10 + sum(1 / (1 + each) for each in far) - 2 * len(weights.keys() - target.keys())

    return value


@pytest.mark.parametrize(
    "target", [{0: 1.0}, {0: 1.0, 3: 0.25}, {0: 1.0, 2: 4.0, 5: 0.1}, {0: 1.0, 1: 2.0, 2: 8.0}]
)
def test_parts_that_help_join_near_their_best_weights(target: Weights) -> None:
    chosen = weighed(near(target), lambda some: [each for each in range(7) if each not in some])
    assert chosen.keys() == target.keys()
    for part, weight in target.items():
        assert abs(np.log2(chosen[part] / weight)) <= 0.5


def test_no_more_parts_join_than_may_and_none_that_must_not() -> None:
    def joining(some: Weights) -> list[int]:
        return [each for each in range(0, 20, 2) if each not in some]

    chosen = weighed(lambda some: float(len(some)), joining)
    assert len(chosen) == MOST_PARTS
    assert not any(part % 2 for part in chosen)
    assert weighed(lambda some: 1.0 + 1e-4 * len(some), joining) == {0: 1.0}
    assert weighed(lambda some: 0.0, lambda some: []) == {0: 1.0}
