"""Checks for regular files and folders, as opposed to links, pipes and devices.

Reading follows links to regular files, because models may be stored once and linked to.
Overwriting, locking and removing never follow a link.
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

__all__ = ["check_replaceable", "is_file", "is_folder", "open_regular", "path_of"]


def path_of(given: str | os.PathLike[str]) -> Path:
    """The path that a caller gave; ``~`` at its beginning is the home folder, as in a shell."""
    return Path(os.path.expanduser(os.fspath(given)))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, for reading.

    Raises
    ------
    ValueError
        It is something else, such as a pipe, on which reading would block.
    OSError
        It is missing or cannot be read.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is damaged: it is not a regular file")
    return open(path, "rb", opener=_without_waiting)


def check_replaceable(path: Path) -> None:
    """Raise ValueError if a device, a pipe or a socket is there, or a link to one.

    A file renamed to its name would take its place: root would replace the machine's /dev/null, and
    the link /dev/stdout, behind which there may be a file.
    """
    in_dev = path.absolute().parent == Path("/dev")
    if in_dev or (path.exists() and not path.is_file() and not path.is_dir()):
        raise ValueError(f"cannot write {path}: it is a device, pipe or socket; pass a file")


def is_file(path: Path) -> bool:
    """Whether ``path`` is a regular file and not a link to one."""
    return _is(path, stat.S_IFREG)


def is_folder(path: Path) -> bool:
    """Whether ``path`` is a folder and not a link to one."""
    return _is(path, stat.S_IFDIR)


def _is(path: Path, kind: int) -> bool:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode) == kind
    except (FileNotFoundError, NotADirectoryError):
        return False


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows lacks it
