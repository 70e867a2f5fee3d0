"""Softmax over lists: the extension's is the one that is written out, and what it is called."""

from __future__ import annotations

import numpy as np
import pytest
from both_sums import BUILT, EITHER, NATIVE, on_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.losses import WRITTEN_OUT, ListSums


@EITHER
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(0, 6), st.integers(1, 70)),
    scale=st.sampled_from([0.1, 3.0, 1e4]),
    wide=st.booleans(),
    threads=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_it_is_exponentials_over_their_sum(
    sums: ListSums, seed: int, shape: tuple[int, int], scale: float, wide: bool, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = (scale * rng.normal(size=shape)).astype(np.float64 if wide else np.float32)
    filled, less = rng.random(shape) < 0.7, rng.normal(size=shape)
    shared = np.broadcast_to(rng.normal(size=(1, shape[1])), shape)
    level = np.broadcast_to(rng.normal(size=(shape[0], 1)), shape)
    for subtracted in (None, less, shared, level):
        found = on_threads(sums, threads).softmax(scores, filled, subtracted)
        z = scores - (0 if subtracted is None else subtracted.astype(found.values.dtype))
        for b in range(shape[0]):
            own = z[b][filled[b]].astype(np.float64)
            if not len(own):
                assert found.log_total[b, 0] == -np.inf
                assert not found.values[b].any()
                continue
            total = np.logaddexp.reduce(own)
            tolerance = 1e-12 if wide else 2e-6
            # Written out, the log of the total is rounded before the exponentials are taken.
            near = 10 * tolerance * (max(1, scale) if sums is WRITTEN_OUT else 1)
            assert found.log_total[b, 0] == pytest.approx(total, rel=tolerance, abs=tolerance)
            np.testing.assert_allclose(
                found.values[b][filled[b]], np.exp(own - total), rtol=near, atol=1e-30
            )
            assert not found.values[b][~filled[b]].any()


@BUILT
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_diverges_is_not_hidden(value: float) -> None:
    scores = np.zeros((2, 40), np.float32)
    scores[1, 33] = value
    found = NATIVE.softmax(scores, np.ones(scores.shape, bool))
    np.testing.assert_allclose(found.values[0], 1 / 40, rtol=1e-6)
    assert not np.isfinite(found.log_total[1]).all()


@BUILT
@pytest.mark.parametrize("threads", [0, 2])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    scores = np.random.default_rng(0).normal(size=(300, 5000)).astype(np.float32)
    filled = scores > -1
    once, again = (NativeSums(n).softmax(scores, filled) for n in (1, threads))
    np.testing.assert_array_equal(once.values, again.values)
    np.testing.assert_array_equal(once.log_total, again.log_total)
