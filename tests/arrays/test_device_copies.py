"""What is known to be a copy of an array elsewhere, and for how long."""

from __future__ import annotations

import gc

import numpy as np
import scipy.sparse as sp

from mfrank.arrays import CSR, converted, device_copy_of, register_copy
from mfrank.arrays import device as device_copies


class There:
    """An array of another library."""


def test_an_array_is_known_by_its_memory() -> None:
    here, there = np.arange(6), There()
    register_copy(here, there)
    for same in (here, here[:], here[:6], here.view(), here.reshape(2, 3)):
        assert device_copy_of(same) is there
    for other in (here.copy(), here[:5], here[1:], here[::-1], here.view(np.float64)):
        assert device_copy_of(other) is None


def test_parts_of_one_memory_are_told_apart() -> None:
    whole, twins = np.arange(12), [There(), There()]
    for part, there in zip((whole[:4], whole[4:]), twins, strict=True):
        register_copy(part, there)
    assert [device_copy_of(whole[:4]), device_copy_of(whole[4:])] == twins
    assert device_copy_of(whole) is None
    assert device_copy_of(whole[4:8]) is None


def test_a_copy_in_another_dtype_has_the_same_twin() -> None:
    here, there = np.arange(6, dtype=np.int32), There()
    register_copy(here, there)
    wide = converted(here, np.int64)
    assert wide.dtype == np.int64
    assert device_copy_of(wide) is there
    assert converted(here, np.int32) is here
    assert device_copy_of(converted(np.arange(3), np.float32)) is None


def test_neither_is_kept_alive() -> None:
    n_known = len(device_copies._copies)
    here, there = np.arange(6), There()
    register_copy(here, there)
    del there
    gc.collect()
    assert device_copy_of(here) is None
    there = There()
    for _ in range(100):  # arrays that get the places of others have not got their twins
        register_copy(np.arange(1000), there)
        assert device_copy_of(np.arange(1000)) is None
    del here
    assert len(device_copies._copies) == n_known  # nor is anything kept of them


def test_rows_made_of_a_matrix_keep_it() -> None:
    matrix = sp.csr_array(np.eye(4))
    twins = {name: There() for name in ("data", "indices", "indptr")}
    for name, there in twins.items():
        register_copy(getattr(matrix, name), there)
    rows = CSR.from_scipy(matrix, np.float32)
    assert device_copy_of(rows.indptr) is twins["indptr"]
    assert device_copy_of(rows.indices) is twins["indices"]
    assert rows.data is not None
    assert device_copy_of(rows.data) is twins["data"]
