"""One BLAS thread for the small calls that more threads only slow down.

OpenBLAS's threads wait for each other by spinning. The eigenvectors of a 128 x 128 matrix took
1.0 ms with two threads and 1.1 with one on an idle machine of two cores; 220 ms and 1.1 ms while
two other processes kept it busy. Only numpy's own OpenBLAS is known here; other libraries
are left as they are.
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

__all__ = ["single_threaded"]

_lock = threading.Lock()
_inside: list[int] = []  # the thread of each block
_before = 1


class _Threads(NamedTuple):
    """How many threads the library takes: read it, set it."""

    read: Callable[[], int]
    write: Callable[[int], None]


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let numpy's BLAS take one thread; blocks may nest and overlap between Python threads."""
    global _before
    threads, own = _openblas(), threading.get_ident()
    if threads is None:
        yield
        return
    # Whenever a fork falls in: while the library has one thread, somebody is inside.
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
    """In the child of a fork: the other threads are gone, and may have held the lock."""
    global _lock
    _lock = threading.Lock()
    others = [thread for thread in _inside if thread != threading.get_ident()]
    for thread in others:
        _inside.remove(thread)
    if others and not _inside and (threads := _openblas()) is not None:
        threads.write(_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@cache
def _openblas() -> _Threads | None:
    """The library that numpy's wheel brings, if it is OpenBLAS; its symbols vary by build."""
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
