"""What operating systems do differently: locks, renames, processes, memory.

The only file that asks which system it runs on, and that uses what another one lacks.
``mypy --platform win32`` and ``--platform darwin`` check that all others get by without.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

if sys.platform == "win32":
    import ctypes
    import msvcrt
else:
    import fcntl
    import resource

INHERITS_PIPES = sys.platform != "win32"
"""Whether a program inherits open pipes by number, as workers of :mod:`mfrank.cluster` do."""
BLOCKS_SIGNALS = sys.platform != "win32"
"""Whether a process can let signals wait."""
_PAUSE = 0.02
"""Seconds between two attempts where Windows does not let a program wait."""
_PATIENCE = 2.0
"""Seconds for which a rename waits for programs that have the file open, on Windows."""


# Locks. A process that ends in any way releases its own. Each open file locks for itself: a thread
# that opens a file which another thread of its process has locked waits for it.


def lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file, for one holder at a time; False if it is locked and ``wait`` is false.

    Raises
    ------
    OSError
        The file system has no locks.
    """
    if sys.platform == "win32":
        while True:
            with contextlib.suppress(PermissionError):  # another holds it
                os.lseek(descriptor, 0, os.SEEK_SET)
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return True
            if not wait:
                return False
            time.sleep(_PAUSE)
    else:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


def unlock(descriptor: int) -> None:
    """Release the lock of an open file."""
    if sys.platform == "win32":
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def open_folder(folder: Path) -> int:
    """Open what stands for a folder in :func:`lock`; :func:`close_folder` closes it.

    Windows does not open folders. There a file ``<name>.lock`` beside the folder is created.

    Raises
    ------
    OSError
        The folder is missing, or is not a folder.
    """
    if sys.platform == "win32":
        os.scandir(folder).close()
        return os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT)
    else:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def close_folder(folder: Path, descriptor: int) -> None:
    """Close what :func:`open_folder` opened, which releases its lock."""
    os.close(descriptor)
    if sys.platform == "win32":
        with contextlib.suppress(OSError):  # another process waits for it, or has removed it
            os.unlink(f"{folder}.lock")


# Renames and durable writes.


def replace(draft: Path, path: Path) -> None:
    """Rename a file to ``path``, in place of the file that is there.

    Windows refuses while a program has that file open: it is tried for two seconds.
    """
    if sys.platform == "win32":
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(PermissionError):
                os.replace(draft, path)
                return
            time.sleep(_PAUSE)
    os.replace(draft, path)


def sync(folder: Path) -> None:
    """Write a folder's entries to the disk. Windows has no such call, and does so itself."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Processes.


def has_ended(process: int) -> bool:
    """Whether there is certainly no process with this number."""
    if sys.platform == "win32":  # os.kill would end it, whatever the signal
        synchronize, no_such_process = 0x00100000, 87
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(synchronize, False, process)
        if not handle:
            return ctypes.get_last_error() == no_such_process
        ended: bool = kernel.WaitForSingleObject(ctypes.c_void_p(handle), 0) == 0
        kernel.CloseHandle(ctypes.c_void_p(handle))
        return ended
    else:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


@contextlib.contextmanager
def signals_blocked(numbers: Collection[int]) -> Iterator[None]:
    """Within, signals wait; a process that is begun here inherits that."""
    if sys.platform == "win32":
        yield
    else:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals(numbers: Collection[int]) -> None:
    """Let signals wait no more, which the process inherited blocked."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def leave_group() -> None:
    """Let Ctrl-C in a terminal no longer reach this process."""
    if sys.platform != "win32":
        os.setpgid(0, 0)


def pipe_that_does_not_block() -> tuple[int, int]:
    """The ends of a pipe: reading an empty or writing to a full one raises BlockingIOError."""
    ends = os.pipe()
    if sys.platform != "win32":
        for end in ends:
            os.set_blocking(end, False)
    return ends


# Memory.


def own_pages(size: int) -> mmap.mmap | None:
    """Memory that returns to the system when it is freed, unlike a fragmented heap; on Linux.

    Raises
    ------
    OSError
        There is not enough.
    """
    if sys.platform == "linux":
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
        return pages
    else:
        return None


def memory_of_the_machine() -> int | None:
    """Its bytes; None if the system does not say."""
    if sys.platform == "win32":
        return None
    else:
        names = "SC_PHYS_PAGES", "SC_PAGE_SIZE"
        known = all(name in os.sysconf_names for name in names)
        pages, size = map(os.sysconf, names) if known else (-1, -1)
        return pages * size if pages > 0 and size > 0 else None


def limit_of_the_process() -> int | None:
    """Bytes of its address space, if ``ulimit -v`` limits it."""
    if sys.platform == "win32":
        return None
    else:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if limit == resource.RLIM_INFINITY else limit
