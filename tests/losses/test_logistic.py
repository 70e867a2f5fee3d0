"""Sums of exponentials so far: those that are written out, however far apart they lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.losses import log_sums_so_far


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 12)),
    scale=st.sampled_from([1.0, 50.0, 1e4]),
    left_out=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_sums_so_far_are_those_of_one_after_the_other(
    seed: int, shape: tuple[int, int], scale: float, left_out: float, dtype: type
) -> None:
    rng = np.random.default_rng(seed)
    x = (scale * rng.normal(size=shape)).astype(dtype)
    x[rng.random(shape) < left_out] = -np.inf
    found = log_sums_so_far(x)
    assert found.dtype == dtype
    expected = np.logaddexp.accumulate(x.astype(np.float64), axis=1)
    tolerance = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


def test_what_is_no_number_is_told() -> None:
    assert np.isnan(log_sums_so_far(np.array([[0.0, np.nan, 1.0]]))[0, 1:]).all()
