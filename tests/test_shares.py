"""Softmax over lists: the extension's is the one that is written out, and what it is called."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import native
from mfrank.shares import shares

built = pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))


@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(0, 6), st.integers(1, 70)),
    scale=st.sampled_from([0.1, 3.0, 1e4]),
    wide=st.booleans(),
    threads=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_shares_are_exponentials_over_their_sum(
    seed: int, shape: tuple[int, int], scale: float, wide: bool, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = (scale * rng.normal(size=shape)).astype(np.float64 if wide else np.float32)
    filled, less = rng.random(shape) < 0.7, rng.normal(size=shape)
    for subtracted in (None, less):
        found = shares(scores, filled, subtracted, threads)
        z = scores - (0 if subtracted is None else subtracted.astype(scores.dtype))
        for b in range(shape[0]):
            own = z[b][filled[b]].astype(np.float64)
            if not len(own):
                assert found.log_total[b, 0] == -np.inf
                assert not found.values[b].any()
                continue
            total = np.logaddexp.reduce(own)
            tolerance = 1e-12 if wide else 2e-6
            assert found.log_total[b, 0] == pytest.approx(total, rel=tolerance, abs=tolerance)
            np.testing.assert_allclose(
                found.values[b][filled[b]],
                np.exp(own - total),
                rtol=10 * tolerance,
                atol=1e-30,
            )
            assert not found.values[b][~filled[b]].any()


@built
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_diverges_is_not_hidden(value: float) -> None:
    scores = np.zeros((2, 40), np.float32)
    scores[1, 33] = value
    found = shares(scores, np.ones(scores.shape, bool))
    np.testing.assert_allclose(found.values[0], 1 / 40, rtol=1e-6)
    assert not np.isfinite(found.log_total[1]).all()


@pytest.mark.parametrize("threads", [0, 2])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    scores = np.random.default_rng(0).normal(size=(300, 5000)).astype(np.float32)
    filled = scores > -1
    once, again = shares(scores, filled), shares(scores, filled, n_threads=threads)
    np.testing.assert_array_equal(once.values, again.values)
    np.testing.assert_array_equal(once.log_total, again.log_total)
