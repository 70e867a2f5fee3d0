"""Thresholds near the K-th largest score, against the equation itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_sums import BUILT, EITHER
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray
from scipy.optimize import brentq

from mfrank.arrays import installed
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.losses import WRITTEN_OUT, ListSums

Floats = NDArray[Any]


def drawn(seed: int, n: int, dtype: DTypeLike = np.float64) -> tuple[Floats, Floats, Floats]:
    """Scores and weights of five lists with some padding, and the parts to be above."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, random.choice([0.01, 1, 100]), (5, n)).astype(dtype)
    weights = random.random((5, n)).astype(dtype)
    weights[:, 1:][random.random((5, n - 1)) < 0.3] = 0
    scores[weights == 0] = 1e6  # would be above all
    return scores, weights, random.random(5)


@EITHER
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 70),
    smoothing_1=st.sampled_from([0.01, 0.3]),
    smoothing_2=st.sampled_from([1e-4, 0.1]),
    started=st.booleans(),
)
def test_the_slope_is_zero_there(
    sums: ListSums, seed: int, n: int, smoothing_1: float, smoothing_2: float, started: bool
) -> None:
    scores, weights, shares = drawn(seed, n)
    starts = np.random.default_rng(seed).normal(0, 10, 5) if started else np.full(5, np.nan)
    found = sums.top_thresholds(scores, weights, shares, starts, smoothing_1, smoothing_2)
    for list_, place in enumerate(found):
        there = weights[list_] > 0
        h, weight = scores[list_, there], weights[list_, there]

        def slope(t: float, h: Floats = h, weight: Floats = weight, row: int = list_) -> float:
            above = 0.5 + 0.5 * np.tanh((h - t) / smoothing_1 / 2)
            return float(shares[row] + smoothing_2 * t - weight @ above)

        bound = (weight.sum() + 1) / smoothing_2
        truth = brentq(slope, -bound, bound, xtol=1e-13, rtol=1e-14, maxiter=500)
        # Where nothing but the last digits of the slope moves, t is as good as these.
        assert abs(slope(place)) <= 1e-12 or place == pytest.approx(truth, rel=1e-9, abs=1e-9)


@BUILT
@pytest.mark.parametrize("n_threads", [1, 3])
def test_single_precision_is_as_good_as_its_scores(n_threads: int) -> None:
    scores, weights, shares = drawn(3, 300, np.float32)
    starts = np.full(5, np.nan)
    given = shares, starts, 0.05, 1e-3
    found = NativeSums(n_threads).top_thresholds(scores, weights, *given)
    wide, parts = scores.astype(np.float64), weights.astype(np.float64)
    truth = WRITTEN_OUT.top_thresholds(wide, parts, *given)
    np.testing.assert_allclose(found, truth, rtol=2e-6, atol=2e-6)


@EITHER
def test_of_equal_weights_and_no_smoothing_k_scores_are_above(sums: ListSums) -> None:
    scores = np.random.default_rng(0).permutation(np.arange(40.0))[None]
    for k in (1, 10, 39):
        share = np.array([(k + 0.5) / 40])
        weights, start = np.full((1, 40), 1 / 40), np.array([np.nan])
        at = sums.top_thresholds(scores, weights, share, start, 1e-3, 1e-7)
        assert at[0] == pytest.approx(40 - k - 1, abs=0.01)  # amid the K-th and the next: the next


@EITHER
def test_scores_that_are_not_numbers_end_in_time(sums: ListSums) -> None:
    starts = np.array([np.nan])
    with np.errstate(invalid="ignore"):
        for score in (np.nan, np.inf, -np.inf):
            scores, weights = np.array([[score, 1.0]]), np.full((1, 2), 0.5)
            part = np.array([0.5])
            found = sums.top_thresholds(scores, weights, part, starts, 0.01, 1e-4)
            assert found.shape == (1,)


@BUILT
def test_the_door_tells_which_array_does_not_fit() -> None:
    scores, shares = np.ones((2, 3)), np.ones(2)
    with pytest.raises(ValueError, match="weights must have 3 columns"):
        installed.ext.top_thresholds(scores, np.ones((2, 4)), shares, np.ones(2), 0.1, 0.1, 1)
    with pytest.raises(TypeError, match="thresholds must be an array of float64"):
        installed.ext.top_thresholds(scores, scores, shares, np.ones(2, np.float32), 0.1, 0.1, 1)
