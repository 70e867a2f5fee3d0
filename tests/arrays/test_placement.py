"""Arrays of either side: sums at places are numpy's, also where they are made without atomics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated_gpu import DeviceArray
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.arrays.placement import subtract_at, sums_at


def on_device(array: Any) -> Any:
    return DeviceArray(np.array(array))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(10, 20), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_sums_on_a_device_are_those_of_bincount(places: list[int], size: int, m: int) -> None:
    """Of whole numbers, whose sums have no rounding."""
    values = np.random.default_rng(len(places)).integers(-50, 50, (m, len(places))).astype(float)
    there = sums_at(on_device(places), [on_device(each) for each in values], size)
    here = sums_at(np.array(places), list(values), size)
    np.testing.assert_array_equal(there.get(), here)
    np.testing.assert_array_equal(here[0], np.bincount(places, values[0], size))


def test_sums_of_positive_numbers_cancel_nothing() -> None:
    """Small sums behind large ones keep their digits, as differences of one long sum would not."""
    values = np.array([1e16, 1e-3, 2e-3, 1e16, 4e-3])
    sums = sums_at(on_device([0, 1, 1, 0, 3]), [on_device(values)], 4)
    np.testing.assert_array_equal(sums.get(), [[2e16, 1e-3 + 2e-3, 0, 4e-3]])


def test_places_given_twice_are_subtracted_twice() -> None:
    array, places, values = np.ones(4), np.array([[3, 0], [3, 3]]), np.array([[1.0, 2], [3, 4]])
    there = on_device(array)
    subtract_at(there, on_device(places), on_device(values))
    subtract_at(array, places, values)
    np.testing.assert_array_equal(array, [-1, 1, 1, -7])
    np.testing.assert_array_equal(there.get(), array)


def test_the_emulated_device_refuses_sums_without_an_order() -> None:
    with pytest.raises(TypeError, match="whatever order"):
        np.bincount(on_device([0, 1]), on_device([1.0, 2.0]))
    with pytest.raises(TypeError, match="whatever order"):
        np.cumsum(on_device([1.0, 2.0]))
    assert np.cumsum(on_device([1, 2])).get().tolist() == [1, 3]
    assert np.cumsum(on_device([1.0, 2.0]), axis=0).get().tolist() == [1, 3]
