"""Arrays that nobody can write to, and which are copied only where somebody could."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from emulated_gpu import EmulatedGPU

from mfrank.arrays import freeze, read_only, read_only_rows, unshared
from tests.support.errors import refuses


def can_write(array: Any) -> bool:
    try:
        array[...] = array
    except ValueError:
        return False
    return True


def test_a_view_is_read_only_and_the_array_stays_writable() -> None:
    array = np.arange(6.0)
    view = read_only(array)
    assert np.shares_memory(view, array)
    assert (can_write(view), can_write(array)) == (False, True)
    strided = read_only(array[::2])
    assert not np.shares_memory(strided, array)
    assert not can_write(strided)
    np.testing.assert_array_equal(strided, [0, 2, 4])


def test_arrays_on_a_gpu_are_handed_on(device: EmulatedGPU) -> None:
    there = device.asarray(np.arange(3.0))
    assert read_only(there) is there


def test_a_frozen_array_and_its_owner_are_read_only() -> None:
    array = np.arange(6.0)
    view = array[1:][::2]
    freeze(view)
    assert not any(map(can_write, (view, view.base, array)))


def test_only_what_somebody_can_write_to_is_copied() -> None:
    array = np.arange(6.0)
    view = read_only(array)
    assert not np.shares_memory(unshared(view), array)  # through the array itself
    assert not np.shares_memory(unshared(array), array)
    freeze(array)
    assert unshared(array) is array
    assert unshared(view) is view


def test_rows_share_their_arrays_and_are_read_only() -> None:
    matrix = sp.csr_array(np.eye(3))
    rows = read_only_rows(matrix, "m")
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(rows, name), getattr(matrix, name))
        assert not can_write(getattr(rows, name))
        assert can_write(getattr(matrix, name))


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_only_canonical_rows_are_taken(format: str) -> None:
    matrix = sp.csr_array((np.ones(2), np.array([1, 0]), np.array([0, 2])), (1, 2))
    matrix = matrix if format == "csr" else sp.csr_array(np.eye(3)).asformat(format)
    if format == "csc":  # which is made a canonical CSR
        assert read_only_rows(matrix, "m").format == "csr"
        return
    with refuses(ValueError, "m"):
        read_only_rows(matrix, "m")
