"""BLAS threads are limited inside the block, and what they were after it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mfrank.arrays.threads import _openblas, single_threaded

threadpoolctl = pytest.importorskip("threadpoolctl", reason="reads how many threads BLAS takes")


def numpy_blas_threads() -> int:
    np.linalg.eigh(np.eye(2))
    found = [p for p in threadpoolctl.threadpool_info() if "numpy" in p["filepath"]]
    if not found or _openblas() is None:
        pytest.skip("numpy does not bring an OpenBLAS of its own here")
    return int(found[0]["num_threads"])


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_inside_and_as_many_as_before_after_it(threads: int) -> None:
    numpy_blas_threads()
    with threadpoolctl.threadpool_limits(threads, "blas"):
        with single_threaded():
            assert numpy_blas_threads() == 1
            with single_threaded():
                assert numpy_blas_threads() == 1
            assert numpy_blas_threads() == 1
        assert numpy_blas_threads() == threads


def test_an_exception_restores_them() -> None:
    numpy_blas_threads()
    with threadpoolctl.threadpool_limits(2, "blas"):
        with pytest.raises(KeyError), single_threaded():
            raise KeyError
        assert numpy_blas_threads() == 2


def test_overlapping_blocks_of_threads_restore_them_once_all_have_left() -> None:
    numpy_blas_threads()
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with single_threaded():
            entered.set()
            leave.wait(10)

    with threadpoolctl.threadpool_limits(2, "blas"):
        other = threading.Thread(target=stay)
        with single_threaded():
            other.start()
            assert entered.wait(10)
        assert numpy_blas_threads() == 1
        leave.set()
        other.join()
        assert numpy_blas_threads() == 2
