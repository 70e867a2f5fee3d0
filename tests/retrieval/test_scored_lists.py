"""The best columns of dense rows are those of a stable sort, whatever is equal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mfrank.retrieval.scored_lists import _first


@given(
    arrays(np.float64, (4, 9), elements=st.sampled_from([-1.0, 0.0, 0.0, 2.0, np.inf])),
    st.integers(1, 12),
)
def test_ties_are_by_lower_column(order: np.ndarray, n: int) -> None:
    expected = np.argsort(order, axis=1, kind="stable")[:, :n]
    np.testing.assert_array_equal(_first(order, n), expected)
