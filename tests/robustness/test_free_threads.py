"""Threads of Python change no result, as at once as a free-threaded Python lets them run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from children import run
from small_world import data

import mfrank
from mfrank.backends import cpu

N_THREADS = 6

LOCK = """
import sys
import mfrank
mfrank.ALS(factors=2, iterations=1, backend="cpu").fit(mfrank.synthetic(9, 9, 30))
assert "mfrank._ext" in sys.modules
sys.exit(sys._is_gil_enabled())
"""


@pytest.mark.skipif(
    getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this Python has its global lock"
)
@pytest.mark.skipif(bool(cpu.why_unavailable()), reason="the C++ extension is not there")
def test_the_kernels_do_not_bring_the_lock_back() -> None:
    """Python would take it for the whole process, on account of one module that asks for it."""
    child = run(LOCK)
    assert child.returncode == 0, child.stderr


def together(work: Callable[[], Any]) -> list[Any]:
    """What every thread has of the same work, begun at once."""
    start = Barrier(N_THREADS)

    def begun() -> Any:
        start.wait()
        return work()

    with ThreadPoolExecutor(N_THREADS) as pool:
        return [each.result() for each in [pool.submit(begun) for _ in range(N_THREADS)]]


def als() -> mfrank.ALS:
    return mfrank.ALS(factors=4, iterations=3, random_state=0, n_threads=2).fit(data())


def test_fits_at_the_same_time_are_the_fit_alone() -> None:
    alone = als().item_factors
    for one in together(als):
        np.testing.assert_array_equal(one.item_factors, alone)


def test_descents_at_the_same_time_are_the_descent_alone() -> None:
    def descent() -> mfrank.Descent:
        return mfrank.Descent(factors=4, iterations=3, random_state=0, n_threads=2).fit(data())

    alone = descent().item_factors
    for one in together(descent):
        np.testing.assert_array_equal(one.item_factors, alone)


def test_what_a_model_computes_once_is_the_same_for_all_who_ask_first() -> None:
    model, rows = als(), data().to_scipy()
    users = np.arange(rows.shape[0])
    alone = als().recommend(users, rows, N=3)
    for ids, scores in together(lambda: model.recommend(users, rows, N=3)):
        np.testing.assert_array_equal(ids, alone[0])
        np.testing.assert_array_equal(scores, alone[1])


def test_names_that_are_imported_when_used_are_one_object() -> None:
    """The first use of each, from all threads of a new process."""
    child = run(f"""
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import mfrank
start = Barrier({N_THREADS})
def used(_):
    start.wait()
    return [getattr(mfrank, name) for name in mfrank.__all__]
with ThreadPoolExecutor({N_THREADS}) as pool:
    first, *others = pool.map(used, range({N_THREADS}))
assert all(one is own for other in others for one, own in zip(other, first, strict=True))
""")
    assert child.returncode == 0, child.stderr
