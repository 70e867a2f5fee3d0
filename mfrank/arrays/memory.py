"""The memory limit of this process, and tables whose memory is reused.

Work that needs more memory than is free now only warns: other processes may free some.
"""

from __future__ import annotations

import math
import mmap
import weakref
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank._system import limit_of_the_process, memory_of_the_machine
from mfrank.arrays.placement import empty_aligned, empty_beside
from mfrank.arrays.text import warn_caller
from mfrank.errors import InputMemoryError

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
        raise InputMemoryError(
            f"{what} would need {gibibytes(needed)} of memory, but this process may use "
            f"{gibibytes(limit)} in total",
            remedy,
        )
    free = _memory_free()
    if free is not None and needed > free:
        message = f"{what} needs {gibibytes(needed)} of memory, but {gibibytes(free)} are free"
        warn_caller(f"{message}; {remedy}")


def memory_there_is() -> int | None:
    """Bytes that this process may use in total, free or not; None if the system does not say.

    The smallest of the machine's memory and the limits of its container, its batch system and
    ``ulimit -v``.
    """
    limits = (memory_of_the_machine(), *_of_the_groups(), limit_of_the_process())
    return min((limit for limit in limits if limit is not None), default=None)


def address_space_left() -> float:
    """Bytes that ``ulimit -v`` leaves to this process; infinite if there is no such limit."""
    limit = limit_of_the_process()
    try:
        pages = int(_OWN_PAGES.read_text().split()[0])
    except OSError:
        return math.inf
    return math.inf if limit is None else limit - pages * mmap.PAGESIZE


def memory_free_now() -> float:
    """Bytes that this process can use now; infinite if the system does not say."""
    known = [bytes_ for bytes_ in (_memory_free(), memory_there_is()) if bytes_ is not None]
    return min(known, default=math.inf)


def _memory_free() -> int | None:
    """Bytes that could be used now without swapping; None if the system does not say."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    kibibytes = dict(line.split(":", 1) for line in lines).get("MemAvailable")
    return None if kibibytes is None else 1024 * int(kibibytes.split()[0])


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


def gibibytes(size: int) -> str:
    """A size formatted for errors."""
    return f"{Decimal(size) / 2**30:.4g} GiB"  # an absurd size is too large for a float


# Tables whose memory is reused, because the first touch of new pages costs system time.
#
# An epoch of ALS writes a new table of items while the previous one is still in use, then releases
# that one. Without reuse, page faults take about a twentieth of an epoch on two cores.
# The user table is overwritten in place unless somebody holds an array on it: its memory is lent,
# and returns when the last such array is gone.


class Recycled:
    """A pool of arrays: memory that nobody holds is reused for arrays of the same shape.

    Only the fit's thread calls :meth:`place_of`, :meth:`lend` and :meth:`end`. The last table that
    these received is the fit's own: it is never free, even after its loan has ended. Other threads
    may request and release arrays at any time. There is no lock: a loan may end inside any
    statement of any thread, even one that holds the lock.
    """

    def __init__(self) -> None:
        self._free: dict[int, NDArray[Any]] = {}
        self._lent: set[int] = set()
        self._own: NDArray[Any] | None = None

    def empty_beside(self, other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """As :func:`mfrank.arrays.placement.empty_beside`; GPU libraries have their own pools."""
        return self._loan(self._free_or_new(other, shape))

    def lend(self, memory: Any) -> NDArray[Any]:
        """An array on the fit's own memory; the fit does not write there while the array exists."""
        if isinstance(memory, np.ndarray):
            self._own = memory
        return self._loan(memory)

    def place_of(self, table: Any) -> NDArray[Any]:
        """Memory for the next version of a table: the table's own, or another if that is lent.

        Arrays of a GPU library are never overwritten: their holders are unknown.
        """
        is_own = self._own is None or table is self._own
        if isinstance(table, np.ndarray) and is_own and id(table) not in self._lent:
            self._own = table
        else:
            self._own = self._free_or_new(table, table.shape)
        return self._own

    def end(self) -> None:
        """Note that the fit's own table is no longer needed."""
        own, self._own = self._own, None
        if isinstance(own, np.ndarray) and id(own) not in self._lent:
            self._free[id(own)] = own

    def take_back(self, memory: NDArray[Any]) -> None:
        """Accept memory that nobody holds any more, for a later array."""
        if memory is not self._own:  # a race with `end` may lose one table, no more
            self._free[id(memory)] = memory
        self._lent.discard(id(memory))  # last: this tells the fit that the loan has ended

    def _loan(self, memory: Any) -> NDArray[Any]:
        if not isinstance(memory, np.ndarray):
            device_array: NDArray[Any] = memory
            return device_array
        self._lent.add(id(memory))
        return np.asarray(_Loan(memory, self))

    def _free_or_new(self, other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        if not isinstance(other, np.ndarray):
            return empty_beside(other, shape)
        for key, memory in list(self._free.items()):
            fits = memory.shape == shape and memory.dtype == other.dtype
            if fits and self._free.pop(key, None) is not None:  # else another thread has it
                return memory
        return empty_aligned(shape, other.dtype)


class _Loan:
    """Owner of lent memory: when the last array on it is deleted, the memory returns."""

    def __init__(self, memory: NDArray[Any], lender: Recycled) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._lender = memory, weakref.ref(lender)

    def __del__(self) -> None:
        lender = self._lender()
        if lender is not None:
            lender.take_back(self._memory)
