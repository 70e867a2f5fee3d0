"""Projections to the simplex, by what makes a point the nearest one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank import native, simplex


@pytest.mark.parametrize("path", ["native", "numpy"])
@pytest.mark.parametrize(("dtype", "near"), [("float32", 2e-5), ("float64", 1e-12)])
@given(seed=st.integers(0, 1000), n=st.integers(1, 80), threads=st.integers(1, 3))
def test_it_is_the_nearest_point(
    path: str, dtype: str, near: float, seed: int, n: int, threads: int
) -> None:
    if path == "native" and native.why_missing is not None:
        pytest.skip(native.why_missing)
    random = np.random.default_rng(seed)
    scores = (random.normal(0, random.choice([0.05, 1, 100]), (6, n)) + 30).astype(dtype)
    scores[random.random((6, n)) < 0.2] = 30  # some are equal
    filled = random.random((6, n)) < 0.8
    filled[np.arange(6), random.integers(0, n, 6)] = True
    with pytest.MonkeyPatch.context() as patched:
        if path == "numpy":
            patched.setattr(native, "why_missing", "for this test")
        found = simplex.project(scores, filled, threads)
    for row, there, top, value, shares in zip(scores, filled, *found, strict=True):
        assert path == "numpy" or shares.dtype == dtype
        assert (shares >= 0).all()
        assert (shares[~there] == 0).all()
        assert shares.sum() == pytest.approx(1, abs=n * near)
        assert top == row[there].max()
        behind = row[there] - top
        threshold = (behind - shares[there])[shares[there] > 0]
        assert np.ptp(threshold) <= near  # the same for all that is left
        assert (behind[shares[there] == 0] <= threshold.min() + near).all()
        others = random.dirichlet(np.full(there.sum(), 0.3), 20)
        best = (others * behind - others**2 / 2).sum(1) + 0.5
        assert (best <= value + n * near).all()
        itself = (shares[there] * (behind - shares[there] / 2)).sum() + 0.5
        assert value == pytest.approx(itself, abs=n * near)


@pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))
def test_what_is_no_number_ends_in_time() -> None:
    scores = np.ones((3, 20), np.float32)
    scores[0, 3], scores[1, 5], scores[2, 7] = np.nan, np.inf, -np.inf
    found = simplex.project(scores, np.ones((3, 20), bool))
    assert np.isnan(found.shares[0, 3])
    assert np.isnan(found.shares[1]).any()
    assert found.shares[2].sum() == pytest.approx(1)
