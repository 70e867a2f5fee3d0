"""Momentum: fewer epochs to the same objective, which never rises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from problems import OBJECTIVES

import mfrank
from mfrank.als import Momentum, QuadraticObjective
from mfrank.als import engine as momentum
from mfrank.backends import choose

DATA = mfrank.synthetic(400, 250, 8000, random_state=0)


def course(objective: QuadraticObjective, epochs: int, **options: object) -> list[float]:
    """The objective after each epoch."""
    model = mfrank.ALS(
        objective, factors=12, iterations=epochs, random_state=0, track_objective=True, **options
    ).fit(DATA)
    return [float(record["objective"] or 0.0) for record in model.store.history]


def plain_course(objective: QuadraticObjective, epochs: int) -> list[float]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(momentum, "_MOST", 0.0)
        return course(objective, epochs)


@pytest.mark.parametrize(
    "objective",
    [mfrank.WRMF(alpha=10.0), mfrank.IALS(), mfrank.EALS(), mfrank.RG2(), mfrank.RGX()],
    ids=lambda objective: type(objective).__name__,
)
def test_it_saves_epochs_and_is_never_above_plain(objective: QuadraticObjective) -> None:
    plain, fast = plain_course(objective, 30), course(objective, 30)
    drop = plain[0] - plain[-1]
    assert all(b <= a + 1e-6 * abs(a) for a, b in pairwise(fast))
    assert all(b <= a + 1e-6 * abs(a) for a, b in zip(plain[3:], fast[3:], strict=True))
    for part in (0.02, 0.005):
        target = plain[-1] + part * drop
        needed = [next(i for i, value in enumerate(v) if value <= target) for v in (plain, fast)]
        assert needed[1] <= 0.75 * needed[0]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_objective_never_rises(name: str) -> None:
    values = course(OBJECTIVES[name], 12, solver="cholesky", dtype="float64")
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(values))


def test_it_steps_ahead_by_the_last_two_solutions() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    start, *solutions = rng.normal(size=(5, 5, 3))
    rule = Momentum(choose("reference"), 1)
    ahead = rule.next(solutions[0].copy(), start, turn)
    np.testing.assert_array_equal(ahead, solutions[0])  # a start is no solution
    t = (1 + np.sqrt(17)) / 2  # after 2
    for last, solved in pairwise(solutions):
        assert rule.is_lower(3.0)
        rule.turned(turn)
        ahead = rule.next(solved.copy(), ahead @ turn, turn)
        weight, t = t - 1, (1 + np.sqrt(1 + 4 * t**2)) / 2
        truth = solved + weight / t * (solved - last @ turn @ turn)
        np.testing.assert_allclose(ahead, truth, rtol=0, atol=1e-6)


def test_a_rise_is_taken_back_to_the_plain_step() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    one, two = rng.normal(size=(2, 5, 3))
    rule = Momentum(choose("reference"), 1)
    ahead = rule.next(one.copy(), one, turn)
    assert rule.is_lower(3.0)
    rule.turned(turn)
    ahead = rule.next(two.copy(), ahead @ turn, turn) @ turn
    assert np.abs(ahead - two @ turn).max() > 0.1
    rule.turned(turn)
    assert not rule.is_lower(4.0)
    rule.restart(ahead)
    np.testing.assert_allclose(ahead, two @ turn, rtol=0, atol=1e-14)
    assert rule.is_lower(4.0)  # plain steps are what they are
    rule.turned(turn)
    np.testing.assert_array_equal(rule.next(one.copy(), ahead, turn), one)  # it begins anew
    assert rule.is_lower(3.0)
    rule.turned(turn)
    t = (1 + np.sqrt(5)) / 2  # after 1
    weight = (t - 1) / ((1 + np.sqrt(1 + 4 * t**2)) / 2)
    ahead = rule.next(two.copy(), one @ turn, turn)
    truth = two + weight * (two - one @ turn @ turn)
    np.testing.assert_allclose(ahead, truth, rtol=0, atol=1e-6)
