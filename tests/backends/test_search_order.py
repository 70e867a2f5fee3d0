"""Items that are read-only are sorted once by length: lists keep their bits, searches end early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mfrank.arrays import CSR, installed
from mfrank.backends.cpu import search_order
from mfrank.backends.cpu.search_order import ArrayCache, shelves_for

pytestmark = pytest.mark.skipif(
    installed.why_missing is not None, reason=str(installed.why_missing)
)

if installed.why_missing is None:
    from mfrank.backends import cpu


def falling(n: int, k: int, *, biased: bool = False) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Items of many lengths, some alike, and their biases: read-only."""
    random = np.random.default_rng(n)
    items = random.normal(0, 1, (n, k)) * random.pareto(0.7, (n, 1))
    items[random.integers(0, n, n // 3)] = items[0]
    items = items.astype(np.float32)
    bias = random.normal(0, 1, n).astype(np.float32) if biased else None
    for array in (items, *(() if bias is None else (bias,))):
        array.flags.writeable = False
    return items, bias


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("n_queries", [1, 3, 8, 40, 300])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_lists_have_the_bits_of_those_of_unsorted_items(
    threads: int, n_queries: int, biased: bool
) -> None:
    items, bias = falling(3000, 48, biased=biased)
    random = np.random.default_rng(1)
    queries = random.normal(0, 1, (n_queries, 48)).astype(np.float32)
    queries[0] = 0
    chosen = random.random((n_queries, 3000)) < 0.3
    indptr = np.concatenate([[0], chosen.sum(1).cumsum()])
    seen = CSR(indptr, np.nonzero(chosen)[1].astype(np.int32), None, 3000)
    for n in (10, 2500):
        options: dict[str, Any] = {"item_bias": bias, "exclude": (seen,), "n_threads": threads}
        wanted = cpu.top_k(queries, items.copy(), n, **options)
        for _ in range(3):  # sorted from the second call on
            found = cpu.top_k(queries, items, n, **options)
            for mine, theirs in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(mine, theirs)
    order = shelves_for(1, items, bias, None, None, 1)
    assert order.lengths is not None
    assert (np.diff(order.lengths) <= 0).all()


def test_items_alike_in_length_are_not_taken_by_length() -> None:
    items, _ = falling(3000, 48)
    alike = np.where(items == 0, 1, np.sign(items)).astype(np.float32)
    alike.flags.writeable = False
    for _ in range(3):
        assert shelves_for(20, alike, None, None, None, 1).lengths is None
    assert [shelves_for(1, alike, None, None, None, 1).sketch is None for _ in range(2)] == [
        True,
        False,
    ]
    for n_queries in (1, 20, 300):
        shelves_for(n_queries, items, None, None, None, 1)
        assert shelves_for(n_queries, items, None, None, None, 1).lengths is not None


def test_filters_for_all_and_writable_items_are_not_sorted_before() -> None:
    items, _ = falling(3000, 48)
    for _ in range(3):
        none = shelves_for(1, items, None, None, np.arange(3, dtype=np.int32), 1)
        assert none.lengths is None
        assert shelves_for(1, items.copy(), None, None, None, 1).lengths is None


def test_what_is_kept_goes_with_any_of_its_arrays() -> None:
    kept: ArrayCache[int] = ArrayCache()
    one, two = np.ones(3), np.ones(3)
    assert kept.of(one, make=lambda: 1) is None  # may be changed
    one.flags.writeable = two.flags.writeable = False
    assert [kept.of(one, two, make=lambda: 7) for _ in range(3)] == [None, 7, 7]
    assert [kept.of(one, make=lambda: 8) for _ in range(2)] == [None, 8]
    assert len(kept) == 2
    del two
    assert len(kept) == 1
    del one
    assert len(kept) == 0


def test_orders_are_not_kept_for_longer_than_their_items() -> None:
    items, bias = falling(3000, 8, biased=True)
    before = len(search_order._ORDERS)
    for _ in range(2):
        shelves_for(1, items, bias, None, None, 1)
    assert len(search_order._ORDERS) == before + 1
    del items
    assert len(search_order._ORDERS) == before
