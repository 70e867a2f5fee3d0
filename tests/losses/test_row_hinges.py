"""Hinges of rows: sums as they are written, and derivatives, in C++ and in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from both_sums import EITHER
from hypothesis import given
from hypothesis import strategies as st
from loss_lists import Scores, derivative

from mfrank.losses import ListSums, RowHinges


def found(apart: Scores, rest: tuple[Scores, Scores, Scores], sums: ListSums) -> RowHinges:
    """Of scores that are a part of a larger array."""
    return sums.row_hinges(apart[:, 1:, 2:], *rest)


@EITHER
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.integers(0, 20), st.integers(0, 4), st.integers(0, 40), st.booleans())
def test_sums_and_slopes(
    sums: ListSums, dtype: str, n_lists: int, n_rows: int, n_places: int, tied: bool
) -> None:
    rng = np.random.default_rng([n_lists, n_rows, n_places])
    apart = rng.normal(size=(n_lists, 1 + n_rows, 2 + n_places)).astype(dtype)
    thresholds, own = rng.normal(size=(2, n_lists, n_rows)).astype(dtype)
    if tied:
        apart, thresholds = np.round(apart), np.round(thresholds)
    weights = rng.random((n_lists, n_places)).astype(dtype)
    totals, slope_sums, gradients = found(apart, (thresholds, own, weights), sums)
    lead = apart[:, 1:, 2:].astype(float) - thresholds[:, :, None]
    terms = own[:, :, None] * weights[:, None].astype(float) * np.maximum(lead, 0)
    np.testing.assert_allclose(totals, terms.sum(2), atol=2e-5)
    np.testing.assert_allclose(slope_sums, gradients.sum(2), atol=2e-5)
    np.testing.assert_allclose(
        gradients, (lead > 0) * own[:, :, None] * weights[:, None], rtol=1e-6, atol=0
    )
    assert {part.dtype for part in (totals, slope_sums, gradients)} == {np.dtype(dtype)}


@EITHER
def test_slopes_are_derivatives(sums: ListSums) -> None:
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(3, 4, 9))
    thresholds, own = rng.normal(size=(2, 3, 3))
    rest = own, rng.random((3, 7))

    def of_scores(scores: Scores) -> float:
        return float(found(scores, (thresholds, *rest), sums).sums.sum())

    def of_thresholds(at: Scores) -> float:
        return float(found(apart, (at, *rest), sums).sums.sum())

    at = found(apart, (thresholds, *rest), sums)
    np.testing.assert_allclose(at.gradients, derivative(of_scores, apart)[:, 1:, 2:], atol=1e-7)
    np.testing.assert_allclose(-at.slope_sums, derivative(of_thresholds, thresholds), atol=1e-7)
