"""First places and densities about them: the extension's are those that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import native
from mfrank.bells import Bells, first_places, sum_bells

pytestmark = pytest.mark.skipif(native.why_missing is not None, reason=str(native.why_missing))

SHAPES = st.tuples(st.integers(0, 20), st.integers(1, 40), st.integers(1, 12))


@given(seed=st.integers(0, 999), shape=SHAPES, levels=st.sampled_from([3, 10**6]))
@settings(max_examples=60, deadline=None)
def test_first_places_are_those_of_a_stable_sort(
    seed: int, shape: tuple[int, int, int], levels: int
) -> None:
    rng = np.random.default_rng(seed)
    n_lists, n, count = shape[0], shape[1], min(shape[1:])
    scores = rng.integers(0, levels, (n_lists, n)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.3] = -np.inf
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(first_places(scores, count, 2), expected)


def test_what_is_no_number_comes_last() -> None:
    scores = np.array([[np.nan, 1.0, np.nan, 3.0], [np.nan] * 4])
    np.testing.assert_array_equal(first_places(scores, 3), [[3, 1, 0], [0, 1, 2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=st.integers(0, 999), shape=SHAPES, scale=st.sampled_from([0.1, 3.0, 1e3]))
@settings(max_examples=60, deadline=None)
def test_sums_of_bells_are_those_of_all_pairs(
    dtype: type, seed: int, shape: tuple[int, int, int], scale: float
) -> None:
    rng = np.random.default_rng(seed)
    n_lists, n, m = shape
    scores, worths = scale * rng.normal(size=(n_lists, n)), rng.normal(size=(n_lists, n))
    levels, still, rise = rng.normal(size=(3, n_lists, m))
    levels[:, rng.random(m) < 0.2] = -np.inf
    given_ = [a.astype(dtype) for a in (scores, worths, levels, still, rise, rng.random(n_lists))]
    bells = Bells(*given_[2:])
    found = sum_bells(*given_[:2], bells, 2)
    assert found.dtype == dtype
    wide = [a.astype(np.float64) for a in given_]
    apart = (wide[2][:, None, :] - wide[0][:, :, None]) * wide[5][:, None, None]
    weights = wide[3][:, None, :] + wide[1][:, :, None] * wide[4][:, None, :]
    expected = (weights * np.exp(-(apart**2) / 2)).sum(2)
    near = 2e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)


def test_without_the_extension_they_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, worths = rng.normal(size=(2, 7, 33))
    bells = Bells(*rng.normal(size=(3, 7, 5)), scales=rng.random(7))
    found = first_places(scores, 4), sum_bells(scores, worths, bells)
    monkeypatch.setattr(native, "why_missing", "for this test")
    expected = first_places(scores, 4), sum_bells(scores, worths, bells)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-14)
