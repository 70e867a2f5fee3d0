"""A lock file that serializes saves to a folder.

A thread that holds the lock may take it again: it can load the contents of the folder, change and
save them, while all others wait to save.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mfrank._system import lock, unlock
from mfrank.errors import InputValueError
from mfrank.files.atomic import is_file

LOCK = ".lock"
"""Name of the lock file; the file stays when the lock is released."""

_WITHOUT_LOCKS = {
    getattr(errno, name, errno.ENOSYS) for name in ("ENOSYS", "ENOLCK", "ENOTSUP", "EOPNOTSUPP")
}

_log = logging.getLogger("mfrank")


class _Locked(threading.local):
    """The lock files that this thread has locked, by device and inode."""

    def __init__(self) -> None:
        self.files = set[tuple[int, int]]()


_by_this_thread = _Locked()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder during the block, waiting for other savers; a wait is logged.

    Blocks of one thread may nest.

    Raises
    ------
    ValueError
        The lock file is not a regular file. Opening a link would touch or create its target.
    OSError
        The lock file cannot be created or opened.
    """
    files = _by_this_thread.files
    while True:
        with _opened(folder / LOCK) as descriptor:
            file = _file(os.fstat(descriptor))
            if file in files:
                yield
                return
            _wait_for(descriptor, folder)
            if not _is_at(folder / LOCK, file):
                continue  # meanwhile another folder, with its own lock, took this one's place
            process = os.getpid()
            try:
                files.add(file)
                yield
            finally:
                files.discard(file)
                # Closing is not enough: a forked child has the file open, and would keep the lock.
                if process == os.getpid():
                    unlock(descriptor)
            return


def _file(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_at(path: Path, file: tuple[int, int]) -> bool:
    try:
        return _file(os.lstat(path)) == file
    except (FileNotFoundError, NotADirectoryError):
        return False


def _wait_for(descriptor: int, folder: Path) -> None:
    """Lock an open lock file; an error names the folder and the remedy."""
    try:
        is_free = lock(descriptor, wait=False)
    except OSError as error:
        if error.errno is None or error.errno not in _WITHOUT_LOCKS:
            raise
        remedy = "without locks, savers would mix their files: save to another disk, and copy that"
        message = f"{os.strerror(error.errno)}; {remedy}"
        raise OSError(error.errno, message, str(folder)) from error
    if not is_free:
        _log.info("waiting for another save to %s, or change of it, to end", folder)
        lock(descriptor)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    flags = os.O_RDWR | os.O_CREAT
    for only_here in ("O_NOFOLLOW", "O_NONBLOCK"):  # Windows lacks them
        flags |= getattr(os, only_here, 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if os.path.lexists(path) and not is_file(path):
            raise _no_lock(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_lock(path)
        yield descriptor
    finally:
        os.close(descriptor)


def _no_lock(path: Path) -> ValueError:
    return InputValueError(
        f"cannot save to {path.parent}: its {path.name} is not a regular file",
        "remove it, or pass another folder",
        place=path.parent,
    )
