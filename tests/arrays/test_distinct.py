"""Distinct numbers are numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from mfrank.arrays import distinct


@given(
    arrays(
        st.sampled_from([np.int32, np.int64, np.uint32]),
        array_shapes(max_dims=3, min_side=0),
        elements=st.integers(0, 9),
    )
)
def test_they_are_numpys(numbers: NDArray[Any]) -> None:
    given = numbers.copy()
    found = distinct(numbers)
    np.testing.assert_array_equal(found, np.unique(numbers))
    np.testing.assert_array_equal(numbers, given)
    assert found.dtype == numbers.dtype
