"""Memory is lent again once nobody holds it, and never before."""

import threading
import weakref

import numpy as np
import pytest

from mfrank.arrays import Recycled
from mfrank.arrays import memory as recycled

LIKE = np.empty(0, np.float32)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_the_last_view_is_gone():
    lender = Recycled()
    first = lender.empty_beside(LIKE, (6, 4))
    view, where = first[2:, ::2], address(first)
    del first
    other = lender.empty_beside(LIKE, (6, 4))
    assert address(other) != where  # a view is still held
    view[:] = 1
    del view
    assert address(lender.empty_beside(LIKE, (6, 4))) == where


@pytest.mark.parametrize(("shape", "dtype"), [((4, 6), np.float32), ((6, 4), np.float64)])
def test_another_shape_or_dtype_gets_its_own_memory(shape, dtype):
    lender = Recycled()
    where = address(lender.empty_beside(LIKE, (6, 4)))
    other = lender.empty_beside(np.empty(0, dtype), shape)
    assert (other.shape, other.dtype, other.flags.c_contiguous) == (shape, dtype, True)
    assert address(lender.empty_beside(LIKE, (6, 4))) == where


def test_arrays_are_writable_and_aligned():
    array = Recycled().empty_beside(LIKE, (5, 3))
    array[:] = 7
    assert address(array) % 64 == 0
    assert (array == 7).all()


def test_what_is_not_lent_goes_with_the_lender_and_loans_outlive_it(monkeypatch):
    made, empty = [], recycled.empty_aligned

    def noted(shape, dtype):
        made.append(weakref.ref(memory := empty(shape, dtype)))
        return memory

    monkeypatch.setattr(recycled, "empty_aligned", noted)
    lender = Recycled()
    held, _spare = lender.empty_beside(LIKE, (6, 4)), lender.empty_beside(LIKE, (6, 4))
    del _spare
    held[:] = 3
    del lender
    assert [memory() is None for memory in made] == [False, True]
    assert (held == 3).all()
    del held
    assert made[0]() is None


def test_a_table_that_came_back_is_overwritten_where_it_is():
    lender, table = Recycled(), np.zeros((6, 4), np.float32)
    assert lender.place_of(table) is table  # never lent
    held = lender.lend(table)
    view = held[1:]
    del held
    other = lender.place_of(table)
    assert not np.shares_memory(other, view)
    table[:] = 3
    assert (view == 3).all()
    del view
    assert lender.place_of(table) is table
    assert not np.shares_memory(lender.empty_beside(LIKE, (6, 4)), table)


def test_the_table_at_work_serves_again_only_after_the_end():
    lender, table = Recycled(), np.zeros((6, 4), np.float32)
    lender.place_of(table)
    other = lender.empty_beside(LIKE, (6, 4))
    assert not np.shares_memory(other, table)
    lender.end()
    assert np.shares_memory(lender.empty_beside(LIKE, (6, 4)), table)


def test_a_table_that_is_lent_at_the_end_serves_again_only_when_it_is_back():
    lender, table = Recycled(), np.zeros((6, 4), np.float32)
    held = lender.lend(lender.place_of(table))
    lender.end()
    other = lender.empty_beside(LIKE, (6, 4))
    assert not np.shares_memory(other, table)
    del held
    assert np.shares_memory(lender.empty_beside(LIKE, (6, 4)), table)


def test_a_table_that_was_lent_before_all_else_is_nobody_else_s():
    lender, table = Recycled(), np.zeros((6, 4), np.float32)
    lender.lend(table)  # and let go at once
    assert not np.shares_memory(lender.empty_beside(LIKE, (6, 4)), table)
    assert lender.place_of(table) is table


def test_arrays_on_a_gpu_have_the_pool_of_their_library(device):
    lender, table = Recycled(), device.asarray(np.ones((6, 4), np.float32))
    assert lender.lend(table) is table
    for other in (lender.empty_beside(table, (2, 3)), lender.place_of(table)):
        assert isinstance(other, type(table))
        assert other is not table
        assert other.dtype == np.float32
    assert lender.empty_beside(table, (2, 3)).shape == (2, 3)
    assert lender.place_of(table).shape == (6, 4)
    lender.end()


def test_threads_never_share_memory():
    """Each writes its number to all that it gets, and finds it there."""
    lender, wrong = Recycled(), []

    def work(number):
        for _ in range(2_000):
            mine = lender.empty_beside(LIKE, (3, 2))
            mine[:] = number
            wrong.extend(mine[mine != number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(lender._free) <= 2 * len(threads)  # a thread gets one before it lets one go
