"""Displacements: half of the bytes, to the nearest number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.backends import extrapolate, half_of, halved, widened

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_bfloat16_is_the_nearest_of_its_neighbors(numbers: list[float]) -> None:
    values = np.array(numbers, np.float32)
    half = halved(values)
    assert half.dtype == half_of(np.float32)
    found = widened(half).astype(np.float64)
    finite = np.isfinite(found)  # the largest float32 round to infinity
    assert (np.abs(values[~finite]) > 3.38e38).all()
    for neighbor in (half[finite] - np.uint16(1), half[finite] + np.uint16(1)):
        others = widened(neighbor).astype(np.float64)
        exact = values[finite].astype(np.float64)
        nearer = np.abs(found[finite] - exact) <= np.abs(others - exact)
        assert (nearer | ~np.isfinite(others)).all()


def test_bfloat16_ties_go_to_even() -> None:
    ties = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8], np.float32)
    np.testing.assert_array_equal(widened(halved(ties)), [1, 1 + 2.0**-6, -1])


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_what_is_half_already_stays(numbers: list[float]) -> None:
    half = np.array(numbers, np.float32).view(np.uint32) >> 16
    table = half.astype(np.uint16)
    np.testing.assert_array_equal(halved(widened(table)), table)


def test_large_tables_are_moved_in_parts() -> None:
    rng = np.random.default_rng(0)
    solved, before = rng.normal(size=(2, 40_000, 2))
    basis = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    displacements, truth = np.zeros(solved.shape, np.float32), 1.5 * solved - 0.5 * before @ basis
    extrapolate(solved, 0.5, before, basis, displacements, basis)
    np.testing.assert_allclose(solved, truth, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_takes_half_of_the_bytes(dtype: type) -> None:
    assert 2 * half_of(dtype).itemsize == np.dtype(dtype).itemsize
