"""The cores there are, and how many threads may be asked for."""

from __future__ import annotations

import os

from mfrank.amounts import check_count

__all__ = ["check_threads", "usable_cores"]

_MOST_THREADS = 1024  # as in cext/parallel.h


def usable_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(n_threads: int) -> None:
    """Raise unless it is a number of threads, of which 0 means every usable core."""
    check_count("n_threads", n_threads, 0, _MOST_THREADS, "0 takes every core")
