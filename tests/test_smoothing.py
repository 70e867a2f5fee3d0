"""Slopes of smoothed metrics: the extension's are those that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import native
from mfrank.jumps import METRICS
from mfrank.smoothing import Draw, smoothed

pytestmark = pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))


def draw_of(metric: str, seed: int, shape: tuple[int, int], k: int, levels: int) -> Draw:
    """Lists with padding, and ties where scores have few levels."""
    rng = np.random.default_rng(seed)
    filled = rng.random(shape) < 0.8
    filled[:, 0] = True
    gains = filled * rng.integers(0, 4, shape).astype(float)
    gains[:, 0] = 2
    own = METRICS[metric]
    worths = own.worth(gains)
    centres = rng.integers(0, levels, shape) / levels
    noise = filled * (rng.normal(size=shape) if levels > 3 else 0.0)
    return Draw(centres, noise, 0.7, worths, own.whole(worths, k), filled)


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
    draw, own = draw_of(metric, seed, shape, k, levels), METRICS[metric]
    found = smoothed(own, k, draw, share=share, n_threads=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "why_missing", "for this test")
        expected = smoothed(own, k, draw, share=share)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_single_precision_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, own = draw_of("ndcg", 3, (7, 90), 10, 10**6), METRICS["ndcg"]
    narrow = Draw(
        *(array.astype(np.float32) for array in wide[:2]),
        wide.sigma,
        *(array.astype(np.float32) for array in wide[3:5]),
        wide.filled,
    )
    found = smoothed(own, 10, narrow, share=True)
    monkeypatch.setattr(native, "why_missing", "for this test")
    expected = smoothed(own, 10, wide, share=True)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_no_number_is_told_and_comes_last() -> None:
    draw = draw_of("ndcg", 3, (2, 9), 4, 10**6)
    draw.filled[:], draw.centres[0, 2] = True, np.nan
    slopes, values = smoothed(METRICS["ndcg"], 4, draw, share=True)
    assert np.isnan(slopes[0, 2])
    assert np.isfinite(slopes[1]).all()
    assert np.isfinite(values).all()
