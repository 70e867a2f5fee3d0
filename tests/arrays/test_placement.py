"""Arrays of either side: sums at places are numpy's, also where they are made without atomics."""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

import numpy as np
import pytest
from emulated_gpu import DeviceArray
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.arrays import (
    beside,
    contracted,
    copied,
    empty_aligned,
    empty_beside,
    in_one_piece,
    on_host,
    reachable,
    subtract_at,
    sums_at,
)


def on_device(array: Any) -> Any:
    return DeviceArray(np.array(array))


@pytest.mark.parametrize(
    "subscripts",
    ["bn->b", "rk,rk->r", "btn,bn->bt", "btn,bt->bn", "bln,bln->bl", "bk,bkj->bj", "fk,fk->k"],
)
def test_contractions_on_a_device_are_those_of_einsum(subscripts: str) -> None:
    """Of whole numbers, whose sums have no rounding."""
    rng, sizes = (
        np.random.default_rng(1),
        dict(zip("btnrkljf", (4, 3, 5, 6, 2, 3, 7, 4), strict=True)),
    )
    shapes = [[sizes[letter] for letter in name] for name in subscripts.split("->")[0].split(",")]
    arrays = [rng.integers(-9, 9, shape).astype(float) for shape in shapes]
    there = contracted(subscripts, *map(on_device, arrays))
    np.testing.assert_array_equal(there.get(), np.einsum(subscripts, *arrays))
    np.testing.assert_array_equal(contracted(subscripts, *arrays), np.einsum(subscripts, *arrays))


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


def test_numbers_of_one_place_are_added_in_their_order() -> None:
    """Else the last bits of a sum would depend on how a library sorts."""
    rng = np.random.default_rng(0)
    places, values = rng.integers(0, 9, 500), rng.normal(size=500)
    order = np.argsort(places, kind="stable")
    found, expected = (
        sums_at(on_device(places[at]), [on_device(values[at])], 9).get()
        for at in (np.arange(500), order)
    )
    np.testing.assert_array_equal(found, expected)


def test_places_given_twice_are_subtracted_twice() -> None:
    array, places, values = np.ones(4), np.array([[3, 0], [3, 3]]), np.array([[1.0, 2], [3, 4]])
    there = on_device(array)
    subtract_at(there, on_device(places), on_device(values))
    subtract_at(array, places, values)
    np.testing.assert_array_equal(array, [-1, 1, 1, -7])
    np.testing.assert_array_equal(there.get(), array)


def test_a_new_array_is_beside_the_other_and_of_its_dtype() -> None:
    here, there = np.ones(3, np.float32), on_device(np.ones(3, np.float32))
    for other in (here, there):
        made = empty_beside(other, (2, 5))
        assert isinstance(made, type(other))
        assert (made.shape, made.dtype) == ((2, 5), np.float32)
        copy = copied(other)
        assert isinstance(copy, type(other))
        assert on_host(copy).tolist() == [1, 1, 1]
        assert copy is not other
    assert not np.shares_memory(copied(here), here)


def test_an_array_comes_to_the_side_of_the_other_and_gets_the_dtype() -> None:
    here, there = np.arange(3), on_device(np.arange(3))
    for array, other in ((here, here), (here, there), (there, here), (there, there)):
        moved = beside(array, other, np.float32)
        assert isinstance(moved, type(other))
        assert moved.dtype == np.float32
        assert on_host(moved).tolist() == [0, 1, 2]
    assert beside(here, here) is here
    assert in_one_piece(here) is here
    piece = in_one_piece(on_device(np.arange(6).reshape(2, 3)).T)
    assert isinstance(piece, DeviceArray)
    assert piece.get().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_only_what_is_no_array_of_numpys_is_placed() -> None:
    array, there = np.arange(3), on_device(np.arange(3))
    assert reachable(array, on_device) is array
    assert reachable(there, on_host).tolist() == [0, 1, 2]


@pytest.mark.parametrize("n_rows", [1, 3, (1 << 18) - 1, 1 << 18])
def test_new_memory_is_aligned_and_can_be_written(n_rows: int) -> None:
    """Small tables are on the heap, and large ones on pages of their own."""
    tables = [empty_aligned((n_rows, 2), np.float64) for _ in range(9)]
    for table in tables:
        assert (table.shape, table.dtype, table.ctypes.data % 64) == ((n_rows, 2), np.float64, 0)
        table[:] = 3
        assert table.flags.c_contiguous
        assert (table == 3).all()
    if sys.platform == "linux":
        on_pages = [table.ctypes.data % mmap.PAGESIZE == 0 for table in tables]
        assert all(on_pages) == (n_rows == 1 << 18)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
@pytest.mark.parametrize("n_rows", [3, 1 << 18])
def test_a_forked_child_writes_to_its_own_memory(n_rows: int) -> None:
    table = empty_aligned((n_rows, 2), np.float64)
    table[:] = 3
    child = os.fork()
    if not child:
        table[:] = 4
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (table == 3).all()


def test_memory_that_there_is_not_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        empty_aligned((1 << 50, 64), np.float64)


def test_the_emulated_device_refuses_sums_without_an_order() -> None:
    with pytest.raises(TypeError, match="whatever order"):
        np.bincount(on_device([0, 1]), on_device([1.0, 2.0]))
    with pytest.raises(TypeError, match="whatever order"):
        np.cumsum(on_device([1.0, 2.0]))
    assert np.cumsum(on_device([1, 2])).get().tolist() == [1, 3]
    assert np.cumsum(on_device([1.0, 2.0]), axis=0).get().tolist() == [1, 3]
