"""Items that are read-only are sorted once by length: lists keep their bits, searches end early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


@st.composite
def filters(draw: st.DrawFn, n_queries: int, n_items: int) -> dict[str, Any]:
    """Filters of all kinds, of which those of all queries keep much or little."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    share = draw(st.sampled_from([0, 0.02, 0.2, 0.9, 1]))
    made: dict[str, Any] = {}
    if draw(st.booleans()):
        rows = np.flatnonzero(random.random(n_items) < share).astype(np.int32)
        rows.flags.writeable = draw(st.booleans())
        made["candidates"] = CSR(np.array([0, len(rows)]), rows, None, n_items)
    if draw(st.booleans()):
        rows = np.flatnonzero(random.random(n_items) < 0.5).astype(np.int32)
        made["exclude_all"] = rows[: draw(st.sampled_from([0, 2, n_items]))]
    if draw(st.booleans()):
        chosen = random.random((n_queries, n_items)) < 0.3
        indptr = np.concatenate([[0], chosen.sum(1).cumsum()])
        made["exclude"] = (CSR(indptr, np.nonzero(chosen)[1].astype(np.int32), None, n_items),)
    return made


ITEMS = {"of many lengths": falling(3000, 48), "with biases": falling(3000, 48, biased=True)}
ITEMS["alike in length"] = np.where(ITEMS["with biases"][0] > 0, 1, -1).astype(np.float32), None
for _each in ITEMS.values():
    _each[0].flags.writeable = False


@given(
    st.data(),
    st.sampled_from(sorted(ITEMS)),
    st.sampled_from([1, 2, 17, 300]),
    st.sampled_from([10, 2500]),
    st.sampled_from([1, 3]),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_filtered_lists_have_the_bits_of_those_of_unsorted_items(
    data: st.DataObject, kind: str, n_queries: int, n: int, threads: int
) -> None:
    items, bias = ITEMS[kind]
    queries = np.random.default_rng(n_queries).normal(0, 1, (n_queries, 48)).astype(np.float32)
    options = data.draw(filters(n_queries, 3000)) | {"item_bias": bias, "n_threads": threads}
    wanted = cpu.top_k(queries, items.copy(), n, **options)
    for _ in range(3):  # sorted, or sketched, from the second call on; marked from the third
        found = cpu.top_k(queries, items, n, **options)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def single(rows: NDArray[Any]) -> CSR:
    """Candidates for all queries."""
    return CSR(np.array([0, len(rows)]), rows.astype(np.int32, copy=False), None, 3000)


def test_items_of_which_a_filter_keeps_much_are_searched_by_length() -> None:
    items, _ = falling(3000, 48)
    shelves_for(1, items, None, None, None, 1)
    gone = np.arange(3, dtype=np.int32)
    found = shelves_for(1, items, None, None, gone, 1)
    assert found.lengths is not None
    assert found.allowed is not None
    assert np.flatnonzero(~found.allowed).tolist() == gone.tolist()
    assert shelves_for(1, items, None, single(np.arange(0, 3000, 2)), None, 1).lengths is not None
    assert shelves_for(1, items, None, single(np.arange(0, 3000, 60)), None, 1).lengths is None
    assert shelves_for(1, items.copy(), None, None, gone, 1).lengths is None


def test_a_filter_that_keeps_only_items_alike_in_length_is_not_searched_by_length() -> None:
    items, _ = falling(3000, 48)
    shelves_for(1, items, None, None, None, 1)
    rows = shelves_for(1, items, None, None, None, 1).rows
    assert rows is not None
    alike = np.sort(rows.indices[1000:1500])
    lengths = [shelves_for(1, items, None, single(alike), None, 1).lengths for _ in range(3)]
    assert lengths == [None] * 3


def test_marks_of_a_read_only_filter_are_kept_with_it() -> None:
    items, _ = falling(3000, 48)
    shelves_for(1, items, None, None, None, 1)
    rows = np.arange(1000, dtype=np.int32)
    rows.flags.writeable = False
    found = [shelves_for(1, items, None, single(rows), None, 1).allowed for _ in range(3)]
    assert found[1] is found[2]
    before = len(search_order._MASKS)
    del rows, found
    assert len(search_order._MASKS) == before - 1


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
