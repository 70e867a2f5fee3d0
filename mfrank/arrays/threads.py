"""Threads: the number that may be requested, and a single one for small BLAS calls.

OpenBLAS's threads wait for each other by spinning. The eigenvectors of a 128 x 128 matrix took
1.0 ms with two threads and 1.1 ms with one on an idle machine of two cores, but 220 ms and 1.1 ms
while two other processes kept it busy. Only the OpenBLAS of numpy's wheel is controlled; other
libraries keep their settings.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mfrank.arrays.checks import check_count

__all__ = [
    "check_threads",
    "single_threaded",
    "usable_cores",
]

_lock = threading.Lock()
_inside: list[int] = []  # the thread of each active block
_before = 1  # BLAS threads to restore after the last block


class _Threads(NamedTuple):
    """Functions that read and set the library's number of threads."""

    read: Callable[[], int]
    write: Callable[[int], None]


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit numpy's BLAS to one thread; blocks may nest, and overlap across Python threads."""
    global _before
    threads, own = _openblas(), threading.get_ident()
    if threads is None:
        yield
        return
    # In this order for a fork in between: while BLAS is limited, _inside is not empty.
    with _lock:
        if not _inside:
            _before = threads.read()
        _inside.append(own)
        if len(_inside) == 1:
            threads.write(1)
    try:
        yield
    finally:
        with _lock:
            if len(_inside) == 1:
                threads.write(_before)
            _inside.remove(own)


def _renew() -> None:
    """Reset the state in a forked child: the other threads, which may hold the lock, are gone."""
    global _lock
    _lock = threading.Lock()
    gone = [thread for thread in _inside if thread != threading.get_ident()]
    for thread in gone:
        _inside.remove(thread)
    if gone and not _inside and (threads := _openblas()) is not None:
        threads.write(_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@cache
def _openblas() -> _Threads | None:
    """The OpenBLAS of numpy's wheel, if there is one; its symbol names vary by build."""
    package = Path(np.__file__).parent
    folders = package.with_name("numpy.libs"), package / ".dylibs"
    for path in (path for folder in folders for path in folder.glob("*openblas*")):
        library = ctypes.CDLL(str(path))
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            read = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            write = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if read is not None and write is not None:
                return _Threads(read, write)
    return None


_MOST_THREADS = 1024  # as in cext/host/parallel.h


def usable_cores() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(n_threads: int) -> None:
    """Raise unless ``n_threads`` is an int from 0, which means every usable core, to 1024."""
    check_count("n_threads", n_threads, 0, _MOST_THREADS, "0 uses every core")
