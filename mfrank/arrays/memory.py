"""The memory limit of this process, and a check that refuses work beyond it.

Work beyond the memory that is free now begins with a warning: other processes may free some.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path, PurePosixPath

from mfrank.arrays.warned import warn_caller

if sys.platform != "win32":
    import resource

__all__ = [
    "address_space_left",
    "check_memory",
    "gibibytes",
    "memory_free_now",
    "memory_there_is",
]

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_MEMORY = Path("/proc/meminfo")
_OWN_PAGES = Path("/proc/self/statm")


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise if work needs more memory than this process may use in total; warn if not free now.

    Parameters
    ----------
    needed : int
        Bytes.
    what, remedy : str
        The work, and advice to the caller, for the error.

    Raises
    ------
    MemoryError
        Names the work, the memory it needs, the limit, and the remedy.
    """
    limit = memory_there_is()
    if limit is not None and needed > limit:
        raise MemoryError(
            f"{what} would need {gibibytes(needed)} of memory, but this process may use "
            f"{gibibytes(limit)} in total; {remedy}"
        )
    free = _memory_free()
    if free is not None and needed > free:
        message = f"{what} needs {gibibytes(needed)} of memory, but {gibibytes(free)} are free"
        warn_caller(f"{message}; {remedy}")


def memory_there_is() -> int | None:
    """Bytes that this process may use in total, free or not; None if the system does not tell.

    The least of the machine's memory and the limits of its container, its batch system and
    ``ulimit -v``.
    """
    return min((*_of_the_machine(), *_of_the_groups(), *_of_the_process()), default=None)


def address_space_left() -> float:
    """Bytes that ``ulimit -v`` leaves to this process; infinite if there is no such limit."""
    limit = next(_of_the_process(), None)
    try:
        pages = int(_OWN_PAGES.read_text().split()[0])
    except OSError:
        return math.inf
    return math.inf if limit is None else limit - pages * os.sysconf("SC_PAGE_SIZE")


def memory_free_now() -> float:
    """Bytes that this process can use now; infinite if the system does not tell."""
    known = [bytes_ for bytes_ in (_memory_free(), memory_there_is()) if bytes_ is not None]
    return min(known, default=math.inf)


def _memory_free() -> int | None:
    """Bytes that could be used now without swapping; None if the system does not tell."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    kibibytes = dict(line.split(":", 1) for line in lines).get("MemAvailable")
    return None if kibibytes is None else 1024 * int(kibibytes.split()[0])


def _of_the_machine() -> Iterator[int]:
    names = "SC_PHYS_PAGES", "SC_PAGE_SIZE"
    if all(name in getattr(os, "sysconf_names", ()) for name in names):
        pages, size = map(os.sysconf, names)
        if pages > 0 and size > 0:
            yield pages * size


def _of_the_groups() -> Iterator[int]:
    """Memory limits of the control groups (version 2 or 1) of this process."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, limit = _CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, limit = _CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = PurePosixPath(path.lstrip("/"))
        for group in (own, *own.parents):  # a container may see its own group as the root
            try:
                text = (root / group / limit).read_text().strip()
            except OSError:
                continue
            if text.isdecimal():  # else "max"
                yield int(text)


def _of_the_process() -> Iterator[int]:
    if sys.platform != "win32":
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit


def gibibytes(size: int) -> str:
    """A size as it is told in errors."""
    return f"{Decimal(size) / 2**30:.4g} GiB"  # an absurd size is too large for a float
