"""BLAS threads are limited inside the block, and what they were after it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mfrank.arrays import _openblas, check_threads, single_threaded, threads, usable_cores
from tests.support.errors import refuses

threadpoolctl = pytest.importorskip("threadpoolctl", reason="reads how many threads BLAS takes")


@pytest.fixture(autouse=True)
def looked_up_anew() -> None:
    """Each test finds the library itself, not what an earlier one found."""
    _openblas.cache_clear()


def numpy_blas_threads() -> int:
    np.linalg.eigh(np.eye(2))
    found = [p for p in threadpoolctl.threadpool_info() if "numpy.libs" in p["filepath"]]
    if not found or found[0]["internal_api"] != "openblas":
        pytest.skip("numpy does not bring an OpenBLAS of its own here")
    return int(found[0]["num_threads"])


@pytest.mark.parametrize("before", [1, 2])
def test_one_thread_inside_and_as_many_as_before_after_it(before: int) -> None:
    numpy_blas_threads()
    with threadpoolctl.threadpool_limits(before, "blas"):
        with single_threaded():
            assert numpy_blas_threads() == 1
            with single_threaded():
                assert numpy_blas_threads() == 1
            assert numpy_blas_threads() == 1
        assert numpy_blas_threads() == before


def test_an_exception_restores_them() -> None:
    numpy_blas_threads()
    with threadpoolctl.threadpool_limits(2, "blas"):
        with pytest.raises(KeyError), single_threaded():
            raise KeyError
        assert numpy_blas_threads() == 2


@contextmanager
def another_thread_inside() -> Iterator[Callable[[], None]]:
    """Run another thread within a block; yield the function that lets it leave."""
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with single_threaded():
            entered.set()
            leave.wait(10)

    def end() -> None:
        leave.set()
        other.join()

    other = threading.Thread(target=stay)
    with threadpoolctl.threadpool_limits(2, "blas"):
        other.start()
        assert entered.wait(10)
        yield end
        end()
        assert numpy_blas_threads() == 2


def test_overlapping_blocks_of_threads_restore_them_once_all_have_left() -> None:
    numpy_blas_threads()
    with another_thread_inside() as end:
        with single_threaded():
            end()
            assert numpy_blas_threads() == 1
        assert numpy_blas_threads() == 2
    with another_thread_inside():
        with single_threaded():
            assert numpy_blas_threads() == 1
        assert numpy_blas_threads() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_forked_child_is_limited_only_by_its_own_block(is_inside: bool) -> None:
    """The threads of its parent, which would restore the number, are gone."""
    numpy_blas_threads()
    with another_thread_inside():
        with single_threaded() if is_inside else nullcontext():
            child = os.fork()
            good = numpy_blas_threads() == (1 if is_inside or child else 2)
        good &= numpy_blas_threads() == (1 if child else 2)
        with single_threaded():
            good &= numpy_blas_threads() == 1
        if not child:
            os._exit(0 if good else 1)
        assert good
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("folder", ["numpy.libs", "numpy/.dylibs"])
@pytest.mark.parametrize(
    "name", ["scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}"]
)
def test_the_wheels_library_is_found_under_any_of_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "libopenblas-r0.so").touch()
    monkeypatch.setattr(np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    both = {name.format(f"{verb}_num_threads"): verb for verb in ("get", "set")}
    for found, expected in ((both, ("get", "set")), (dict([*both.items()][:1]), None)):
        _openblas.cache_clear()
        library = SimpleNamespace(**found)
        monkeypatch.setattr(threads.ctypes, "CDLL", lambda path, library=library: library)
        assert _openblas() == expected
    _openblas.cache_clear()


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7} if pid == 0 else {0})
        assert usable_cores() == 3
        monkeypatch.delattr(os, "sched_getaffinity")
    for known, cores in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda known=known: known)
        assert usable_cores() == cores


def test_threads_are_counted_from_0_to_1024() -> None:
    for n in (0, 1, 1024, np.int64(3)):
        check_threads(n)
    with refuses(ValueError, "n_threads"):
        check_threads(-1)
    with refuses(ValueError, "n_threads", remedy="0 uses every core"):
        check_threads(1025)
