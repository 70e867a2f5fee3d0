"""A lock file that serializes saves to a folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mfrank.files.regular import is_file

if sys.platform != "win32":
    import fcntl

__all__ = ["LOCK", "locked"]

LOCK = ".lock"
"""Name of the lock file; the file stays when the lock is released."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder during the block, waiting for other savers.

    Windows has no flock: saves must not overlap there.

    Raises
    ------
    ValueError
        The lock file is not a regular file. Opening a link would touch or create its target.
    OSError
        The lock file cannot be created or opened.
    """
    descriptor = _opened(folder / LOCK)
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT
    for only_here in ("O_NOFOLLOW", "O_NONBLOCK"):  # Windows lacks them
        flags |= getattr(os, only_here, 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if os.path.lexists(path) and not is_file(path):
            raise _no_lock(path) from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise _no_lock(path)


def _no_lock(path: Path) -> ValueError:
    return ValueError(
        f"cannot save to {path.parent}: its {path.name} is not a regular file; remove it, or "
        "pass another folder"
    )
