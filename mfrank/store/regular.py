"""Files and folders that are just that, not links, pipes or devices under their names.

What is read may be a link to a regular file, as where models are kept once and linked to. What is
written over, locked or removed is never reached through a link.
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

__all__ = ["is_file", "is_folder", "open_regular"]


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, for reading.

    Raises
    ------
    ValueError
        It is something else, such as a pipe, which would keep the reader waiting.
    OSError
        It is not there or cannot be read.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is damaged: it is no regular file")
    return open(path, "rb", opener=_without_waiting)


def is_file(path: Path) -> bool:
    """Whether there is a regular file of that name, and no link to one."""
    return _is(path, stat.S_IFREG)


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name, and no link to one."""
    return _is(path, stat.S_IFDIR)


def _is(path: Path, kind: int) -> bool:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode) == kind
    except (FileNotFoundError, NotADirectoryError):
        return False


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes
