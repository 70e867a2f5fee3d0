"""Projections to the simplex, by what makes a point the nearest one."""

from __future__ import annotations

import numpy as np
import pytest
from both_sums import BUILT, EITHER, NATIVE, on_threads
from hypothesis import given
from hypothesis import strategies as st

from mfrank.losses import WRITTEN_OUT, ListSums


@EITHER
@pytest.mark.parametrize(("dtype", "near"), [("float32", 2e-5), ("float64", 1e-12)])
@given(seed=st.integers(0, 1000), n=st.integers(1, 80), threads=st.integers(1, 3))
def test_it_is_the_nearest_point(
    sums: ListSums, dtype: str, near: float, seed: int, n: int, threads: int
) -> None:
    random = np.random.default_rng(seed)
    scores = (random.normal(0, random.choice([0.05, 1, 100]), (6, n)) + 30).astype(dtype)
    scores[random.random((6, n)) < 0.2] = 30  # some are equal
    filled = random.random((6, n)) < 0.8
    filled[np.arange(6), random.integers(0, n, 6)] = True
    found = on_threads(sums, threads).project(scores, filled)
    for row, there, top, value, point in zip(scores, filled, *found, strict=True):
        assert sums is WRITTEN_OUT or point.dtype == dtype
        assert (point >= 0).all()
        assert (point[~there] == 0).all()
        assert point.sum() == pytest.approx(1, abs=n * near)
        assert top == row[there].max()
        behind = row[there] - top
        threshold = (behind - point[there])[point[there] > 0]
        assert np.ptp(threshold) <= near  # the same for all that is left
        assert (behind[point[there] == 0] <= threshold.min() + near).all()
        negatives = random.dirichlet(np.full(there.sum(), 0.3), 20)
        best = (negatives * behind - negatives**2 / 2).sum(1) + 0.5
        assert (best <= value + n * near).all()
        itself = (point[there] * (behind - point[there] / 2)).sum() + 0.5
        assert value == pytest.approx(itself, abs=n * near)


@BUILT
def test_what_is_no_number_ends_in_time() -> None:
    scores = np.ones((3, 20), np.float32)
    scores[0, 3], scores[1, 5], scores[2, 7] = np.nan, np.inf, -np.inf
    found = NATIVE.project(scores, np.ones((3, 20), bool))
    assert np.isnan(found.points[0, 3])
    assert np.isnan(found.points[1]).any()
    assert found.points[2].sum() == pytest.approx(1)
