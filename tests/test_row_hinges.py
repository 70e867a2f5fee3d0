"""Hinges of rows: sums as they are written, and derivatives, in C++ and in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loss_lists import Scores, derivative

from mfrank import native
from mfrank.row_hinges import RowHinges, row_hinges

WAYS = [
    pytest.param(True, marks=pytest.mark.skipif(native.why_missing is not None, reason="no C++")),
    False,
]


def found(apart: Scores, rest: tuple[Scores, Scores, Scores], in_cpp: bool) -> RowHinges:
    """Of scores that are a part of a larger array."""
    with pytest.MonkeyPatch.context() as patch:
        if not in_cpp:
            patch.setattr(native, "why_missing", "for this test")
        return row_hinges(apart[:, 1:, 2:], *rest, n_threads=2)


@pytest.mark.parametrize("in_cpp", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.integers(0, 20), st.integers(0, 4), st.integers(0, 40))
def test_sums_and_slopes(
    in_cpp: bool, dtype: str, n_lists: int, n_rows: int, n_places: int
) -> None:
    rng = np.random.default_rng([n_lists, n_rows, n_places])
    apart = rng.normal(size=(n_lists, 1 + n_rows, 2 + n_places)).astype(dtype)
    thresholds, own = rng.normal(size=(2, n_lists, n_rows)).astype(dtype)
    weights = rng.random((n_lists, n_places)).astype(dtype)
    sums, slope_sums, slopes = found(apart, (thresholds, own, weights), in_cpp)
    lead = apart[:, 1:, 2:].astype(float) - thresholds[:, :, None]
    terms = own[:, :, None] * weights[:, None].astype(float) * np.maximum(lead, 0)
    np.testing.assert_allclose(sums, terms.sum(2), atol=2e-5)
    np.testing.assert_allclose(slope_sums, slopes.sum(2), atol=2e-5)
    np.testing.assert_allclose(
        slopes, (lead > 0) * own[:, :, None] * weights[:, None], rtol=1e-6, atol=0
    )
    assert {part.dtype for part in (sums, slope_sums, slopes)} == {np.dtype(dtype)}


@pytest.mark.parametrize("in_cpp", WAYS)
def test_slopes_are_derivatives(in_cpp: bool) -> None:
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(3, 4, 9))
    thresholds, own = rng.normal(size=(2, 3, 3))
    rest = own, rng.random((3, 7))

    def of_scores(scores: Scores) -> float:
        return float(found(scores, (thresholds, *rest), in_cpp).sums.sum())

    def of_thresholds(at: Scores) -> float:
        return float(found(apart, (at, *rest), in_cpp).sums.sum())

    at = found(apart, (thresholds, *rest), in_cpp)
    np.testing.assert_allclose(at.slopes, derivative(of_scores, apart)[:, 1:, 2:], atol=1e-7)
    np.testing.assert_allclose(-at.slope_sums, derivative(of_thresholds, thresholds), atol=1e-7)
