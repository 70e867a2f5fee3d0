"""Slopes of smoothed metrics: the extension's are those that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from both_sums import BUILT, NATIVE
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.losses import METRICS, WRITTEN_OUT, NoisyScores

pytestmark = BUILT


def noisy_scores(
    metric: str, seed: int, shape: tuple[int, int], k: int, levels: int
) -> NoisyScores:
    """Lists with padding, and ties where scores have few levels."""
    rng = np.random.default_rng(seed)
    filled = rng.random(shape) < 0.8
    filled[:, 0] = True
    gains = filled * rng.integers(0, 4, shape).astype(float)
    gains[:, 0] = 2
    own = METRICS[metric]
    worths = own.worth(gains)
    centers = rng.integers(0, levels, shape) / levels
    noise = filled * (rng.normal(size=shape) if levels > 3 else 0.0)
    return NoisyScores(centers, noise, 0.7, worths, own.normalizer(worths, k), filled)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("metric", METRICS)
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(0, 20), st.integers(1, 40)),
    k=st.integers(1, 12),
    levels=st.sampled_from([3, 10**6]),
)
@settings(max_examples=40, deadline=None)
def test_the_extensions_slopes_are_those_written_out(
    metric: str, share: bool, seed: int, shape: tuple[int, int], k: int, levels: int
) -> None:
    noisy, own = noisy_scores(metric, seed, shape, k, levels), METRICS[metric]
    found = NATIVE.smoothed(own, k, noisy, share=share)
    expected = WRITTEN_OUT.smoothed(own, k, noisy, share=share)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_single_precision_stays() -> None:
    wide, own = noisy_scores("ndcg", 3, (7, 90), 10, 10**6), METRICS["ndcg"]
    narrow = NoisyScores(
        *(array.astype(np.float32) for array in wide[:2]),
        wide.sigma,
        *(array.astype(np.float32) for array in wide[3:5]),
        wide.filled,
    )
    found = NATIVE.smoothed(own, 10, narrow, share=True)
    expected = WRITTEN_OUT.smoothed(own, 10, wide, share=True)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_no_number_is_told_and_comes_last() -> None:
    noisy = noisy_scores("ndcg", 3, (2, 9), 4, 10**6)
    noisy.filled[:], noisy.centers[0, 2] = True, np.nan
    gradients, values = NATIVE.smoothed(METRICS["ndcg"], 4, noisy, share=True)
    assert np.isnan(gradients[0, 2])
    assert np.isfinite(gradients[1]).all()
    assert np.isfinite(values).all()
