"""The row of somebody new is the row that their interactions would have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.retrieval import LikedItems
from tests.support.errors import refuses

N_ITEMS = 6
LIKES = st.lists(st.tuples(st.integers(-1, N_ITEMS - 1), st.integers(-2, 3)), max_size=12)


@settings(max_examples=100, deadline=None)
@given(likes=LIKES, counted=st.booleans(), dtype=st.sampled_from(["float32", "float64"]))
def test_a_row_is_that_of_interactions(
    likes: list[tuple[int, int]], counted: bool, dtype: Any
) -> None:
    columns, values = np.array(likes, dtype=np.int64).reshape(-1, 2).T
    own = LikedItems.of(columns, values if counted else None, N_ITEMS, dtype)
    known = columns >= 0
    given_ = values[known] if counted else None
    data = mfrank.Interactions.from_arrays(
        np.zeros(known.sum(), int), columns[known], given_, shape=(1, N_ITEMS)
    )
    np.testing.assert_array_equal(own.items.indices, np.unique(columns[known]))
    for got, expected in (
        (own.likes.indptr, data.user_items.indptr),
        (own.likes.indices, data.user_items.indices),
        (own.values, data.user_items.data),
    ):
        np.testing.assert_array_equal(got, expected)
    assert own.likes.data is own.values
    assert own.values.dtype == dtype
    assert own.items.indices.dtype == own.likes.indices.dtype == np.int32


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([1.0], {"argument": "values"}),
        ([1.0, np.inf], {"argument": "values", "remedy": "drop or replace"}),
        ([1.0, 1e300], {"argument": "values", "remedy": "drop or replace"}),
        (["a", "b"], {"argument": "values"}),
    ],
)
def test_values_are_checked(values: Any, fault: dict[str, str]) -> None:
    with refuses(ValueError, **fault):
        LikedItems.of(np.array([1, 2]), values, N_ITEMS, "float32")


def test_values_that_are_not_real_are_refused() -> None:
    with refuses(TypeError, "values"):
        LikedItems.of(np.array([1]), [1j], N_ITEMS, "float32")
