"""Threads: how many are used, and work on parts of arrays.

OpenBLAS's threads wait for each other by spinning. The eigenvectors of a 128 x 128 matrix took
1.0 ms with two threads and 1.1 ms with one on an idle machine of two cores, but 220 ms and 1.1 ms
while two other processes kept it busy. Only the OpenBLAS of numpy's wheel is controlled; other
libraries keep their settings.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

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


def usable_cores() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Work on parts of arrays by several threads, with numpy functions that release the GIL.


Part = TypeVar("Part")

MOST_PARTS = 16
_LEAST = 32
_BYTES_WORTH_A_THREAD = 1 << 20


def parts_of(size: int) -> list[slice]:
    """Up to 16 parts of about the same size, which do not depend on the number of threads."""
    step = max(_LEAST, -(-size // MOST_PARTS))
    return [slice(begin, begin + step) for begin in range(0, size, step)]


def run_parts(work: Callable[[Part], None], parts: Sequence[Part], n_threads: int) -> None:
    """Run ``work`` on all parts with ``n_threads`` threads, including this one.

    Not by an executor: after the main thread has ended, it refuses work from other threads.
    """
    left = iter(parts)
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            for part in left:
                work(part)
        except BaseException as error:
            errors.append(error)
            for _ in left:  # so that no thread begins another part
                pass

    helpers: list[Thread] = []
    for _ in range(1, min(n_threads, len(parts))):
        helper = Thread(target=serve)
        try:
            helper.start()
        except RuntimeError:  # no more threads can be started: the existing ones do the work
            break
        helpers.append(helper)
    serve()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]


def copy_rows(
    table: NDArray[Any],
    out: NDArray[Any],
    rows: NDArray[np.int64] | None = None,
    n_threads: int = 0,
) -> None:
    """Copy a table, or some of its rows, to ``out``; new memory is first touched by all threads.

    ``rows`` are not checked.
    """

    def one(part: slice) -> None:
        if rows is None:
            out[part] = table[part]
        else:
            np.take(table, rows[part], axis=0, out=out[part], mode="clip")

    helping = min(n_threads or usable_cores(), out.nbytes // _BYTES_WORTH_A_THREAD)
    run_parts(one, parts_of(len(out)), helping)
