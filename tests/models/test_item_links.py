"""The largest entries of rows of a product: as if the product were dense, natively or not."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

links: Any = importlib.import_module("mfrank.models.item_links")

WAYS = [
    pytest.param(
        True, marks=pytest.mark.skipif(not links._is_native, reason="needs the extension")
    ),
    False,
]


def by_dense(
    left: NDArray[Any], right: NDArray[Any], most: int, items: NDArray[Any], signed: bool
) -> NDArray[Any]:
    product, expected = left @ right, np.zeros((len(items), right.shape[1]))
    for row, item in enumerate(items):
        sizes = np.abs(product[item]) if signed else product[item].clip(0)
        sizes[item : item + 1] = 0
        best = np.lexsort((np.arange(len(sizes)), -sizes))[:most]
        best = best[sizes[best] > 0]
        expected[row, best] = product[item, best]
    return expected


def drawn(rng: np.random.Generator, shape: tuple[int, int], density: float) -> NDArray[Any]:
    """Small whole numbers: many sums are equal, some are 0, and all are exact."""
    return rng.integers(-2, 4, shape) * (rng.random(shape) < density).astype(np.float64)


@pytest.mark.parametrize("is_native", WAYS)
@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 8), st.integers(1, 12), st.integers(1, 9) | st.just(700)),
    most=st.integers(1, 10) | st.just(300),
    density=st.sampled_from([0.02, 0.3, 1.0]),
    signed=st.booleans(),
    divided=st.booleans(),
    seed=st.integers(0, 999),
)
def test_they_are_the_largest(is_native, shape, most, density, signed, divided, seed):
    rng, (n_rows, n_between, n_columns) = np.random.default_rng(seed), shape
    left = drawn(rng, (n_rows, n_between), density)
    right = drawn(rng, (n_between, n_columns), density)
    items = np.flatnonzero(rng.random(n_rows) < 0.7)
    divisor = 2.0 ** rng.integers(-2, 3, n_columns) if divided else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "_is_native", is_native)
        found = links.largest_products(
            *map(sp.csr_array, (left, right)), most, items, divisor, is_signed=signed
        )
    expected = by_dense(left, right if divisor is None else right / divisor, most, items, signed)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.has_canonical_format
    assert found.nnz == np.count_nonzero(expected)
    assert found.data.dtype == np.float64


@pytest.mark.skipif(not links._is_native, reason="needs the extension")
@pytest.mark.parametrize("most", [1, 30, 400, 5000])
@pytest.mark.parametrize("density", [0.002, 0.05])
def test_of_many_columns_they_are_the_same_natively(most, density, monkeypatch):
    """Looking through all columns or those met, with more of them than there is room for."""
    rng = np.random.default_rng(int(1e4 * density) + most)
    rows = sp.random_array((400, 5000), density=density, rng=rng, format="csr")
    rows.data = np.ceil(5 * rows.data)
    both = sp.csr_array(rows.T), sp.csr_array(rows)
    natively = links.linked(*both, most)
    monkeypatch.setattr(links, "_is_native", False)
    assert (natively != links.linked(*both, most)).nnz == 0
    assert natively.nnz > 2000
