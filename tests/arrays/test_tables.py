"""Tables of numbers: the covariance of their columns, and their rows at length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import covariance_of, directions_of
from mfrank.arrays import placement as covariance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 4, 9, 40])
def test_covariance_is_numpys_however_many_rows_are_taken_at_once(
    monkeypatch: pytest.MonkeyPatch, n_rows: int, dtype: Any
) -> None:
    """Also far from 0, where sums of squares would cancel."""
    monkeypatch.setattr(covariance, "_ROWS_AT_ONCE", 4)
    table = (np.random.default_rng(n_rows).normal(size=(n_rows, 3)) + 1000).astype(dtype)
    found = covariance_of(table)
    assert found.dtype == np.float64
    expected = np.cov(table.astype(np.float64).T, ddof=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_no_rows_have_no_covariance() -> None:
    np.testing.assert_array_equal(covariance_of(np.empty((0, 3))), np.zeros((3, 3)))


@given(st.lists(st.integers(-300, 300), min_size=6, max_size=6), st.booleans())
def test_rows_of_any_size_get_length_one_and_keep_their_direction(
    powers: list[int], double: bool
) -> None:
    dtype, near = (np.float64, 2e-15) if double else (np.float32, 2e-6)
    sizes = 10.0 ** (np.array(powers)[:, None] / (1 if double else 8.5))
    drawn = np.random.default_rng(0).normal(size=(6, 4))
    drawn[2] = 0
    factors = (drawn * sizes).astype(dtype)
    before = factors.copy()
    found = directions_of(factors)
    assert found.dtype == dtype
    lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
    np.testing.assert_allclose(found, drawn / np.where(lengths > 0, lengths, 1), atol=near)
    np.testing.assert_array_equal(factors, before)


def test_rows_across_memory_are_laid_out_one_after_another() -> None:
    assert directions_of(np.asfortranarray(np.ones((3, 4)))).flags.c_contiguous
