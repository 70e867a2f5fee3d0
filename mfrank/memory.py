"""The memory there is for this process, and the refusal of work that needs more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

if sys.platform != "win32":
    import resource

__all__ = ["check_memory", "memory_there_is"]

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise where work needs more memory than there is, used or not: it could never be done.

    Raises
    ------
    MemoryError
        With what it takes, what there is, and the remedy.
    """
    there = memory_there_is()
    if there is not None and needed > there:
        raise MemoryError(
            f"{what} would take {_gibibytes(needed)} of memory, and this process may have "
            f"{_gibibytes(there)} in all; {remedy}"
        )


def memory_there_is() -> int | None:
    """Bytes that this process may have in all, used or not; None where the system does not tell.

    The machine's memory, or what its container, its batch system or ``ulimit -v`` leaves it.
    """
    return min((*_of_the_machine(), *_of_the_groups(), *_of_the_process()), default=None)


def _of_the_machine() -> Iterator[int]:
    names = "SC_PHYS_PAGES", "SC_PAGE_SIZE"
    if all(name in getattr(os, "sysconf_names", ()) for name in names):
        pages, size = map(os.sysconf, names)
        if pages > 0 and size > 0:
            yield pages * size


def _of_the_groups() -> Iterator[int]:
    """Limits of the control groups, version 2 or 1, that the process is in."""
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


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:.4g} GiB"
