"""Files that are replaced atomically and durably, on disks that may be full; regular files."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from mfrank._system import close_folder, lock, open_folder, replace
from mfrank.errors import InputTypeError, InputValueError, unreadable

# Errors of a full disk name the path, because the system does not name an open file.

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # not on Windows


@contextmanager
def wanting_room(path: Path) -> Iterator[None]:
    """Name ``path`` in the error if the disk is full, a quota is used up or a file cannot grow."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno not in _FULL or error.filename is not None:
            raise
        message = f"{os.strerror(error.errno)}; make room and do the same again"
        raise OSError(error.errno, message, str(path)) from error


# Checks for regular files and folders, as opposed to links, pipes and devices.
#
# Reading follows links to regular files, because models may be stored once and linked to.
# Overwriting, locking and removing never follow a link.


_LONGEST = 4096
"""Letters of a path: PATH_MAX of Linux."""


def path_of(given: str | os.PathLike[str], argument: str = "path") -> Path:
    """The path that a caller gave; ``~`` at its beginning is the home folder, as in a shell.

    Raises
    ------
    TypeError, ValueError
        It is something else, such as an open file, bytes or the text of a file; the message names
        the argument.
    """
    text: Any = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise _no_path(given, argument)
    if "\0" in text or len(text) > _LONGEST:
        raise InputValueError(
            f"`{argument}` must be a path, got text of {len(text):,} letters, which begins with "
            f"{text[:30]!r}:",
            "write what is to be read to a file",
        )
    return Path(os.path.expanduser(text))


def _no_path(given: Any, argument: str) -> InputTypeError:
    name, kind = path_of_open(given), type(given).__name__
    if isinstance(given, bytes):
        remedy = "decode it by os.fsdecode if it is a path, or write it to a file"
    elif hasattr(given, "readline"):
        kind = f"an open file ({kind})"
        remedy = f"pass its path, {name!r}" if name else "write what it has to a file"
    else:
        remedy = "pass the name of a file or folder"
    return InputTypeError(f"`{argument}` must be a path, got {kind}:", remedy)


def path_of_open(given: Any) -> str | None:
    """The path of an open file; None if it has none, as those in memory."""
    name = getattr(given, "name", None)
    is_named = hasattr(given, "readline") and isinstance(name, str) and os.path.isfile(name)
    return name if is_named else None


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
        raise unreadable(path, "is damaged", "it is not a regular file")
    return open(path, "rb", opener=_without_waiting)


def check_replaceable(path: Path) -> None:
    """Raise ValueError if a device, a pipe or a socket is there, or a link to one.

    Renaming a file to its name would replace it: as root, the machine's /dev/null, or the link
    /dev/stdout, even if that leads to a regular file.
    """
    in_dev = path.absolute().parent == Path("/dev")
    if in_dev or (path.exists() and not path.is_file() and not path.is_dir()):
        raise InputValueError(
            f"cannot write {path}: it is a device, pipe or socket", "pass a file", place=path
        )


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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a draft; after the block, flush it to the disk and rename it to ``path``.

    If the block fails, the draft is deleted and ``path`` keeps its old contents. The draft has the
    name of ``path`` and lies in a folder of :func:`working_beside`, so that temporary files which
    libraries write beside the draft lie there too.

    Raises
    ------
    ValueError
        A device, a pipe or a socket is there, or a link to one.
    """
    check_replaceable(path)
    with working_beside(path) as folder, wanting_room(path):
        draft = folder / path.name
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        replace(draft, path)


@contextmanager
def working_beside(path: Path) -> Iterator[Path]:
    """Yield a folder ``.<16 hex digits>.<name of path>`` beside ``path``; remove it afterwards.

    It may contain only files, and is locked while it is in use. A killed process leaves it
    unlocked; the next process that works beside ``path`` removes it.
    """
    sweep(path)
    with _locked_folder(path) as folder:
        try:
            yield folder
        finally:
            _remove(folder)


@contextmanager
def resuming_beside(path: Path, serves: Callable[[Path], bool]) -> Iterator[Path]:
    """As :func:`working_beside`, for work that a later run can resume.

    Yield the folder that a killed run left, if ``serves(folder)`` is true, else a new one. If the
    block raises anything but a TypeError or ValueError, the folder stays if it still serves.
    """
    left = _left(path, serves)
    sweep(path)
    with left or _locked_folder(path) as folder:
        stays = False
        try:
            yield folder
        except (TypeError, ValueError):
            raise
        except BaseException:
            stays = serves(folder)
            raise
        finally:
            if not stays:
                _remove(folder)


def _make(path: Path) -> Path:
    """Create a folder beside ``path``, by a unique name that sweeps recognize."""
    folder = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
    folder.mkdir()
    return folder


def _remove(folder: Path) -> None:
    with suppress(OSError):  # anything but a regular file is not a draft and stays
        for entry in folder.iterdir():
            if entry.is_symlink() or not entry.is_file():
                return
            entry.unlink()
        folder.rmdir()


@contextmanager
def _locked_folder(path: Path) -> Iterator[Path]:
    """Create a folder, locked if the file system has locks."""
    locked = None
    while locked is None:
        locked = _lock(_make(path))
    with _held(*locked) as folder:
        yield folder


@contextmanager
def _held(folder: Path, descriptor: int) -> Iterator[Path]:
    try:
        yield folder
    finally:
        close_folder(folder, descriptor)


def _lock(folder: Path) -> tuple[Path, int] | None:
    """Lock a folder and return both; None if another writer removed the folder first."""
    with suppress(FileNotFoundError):
        descriptor = open_folder(folder)
        with suppress(OSError):
            lock(descriptor)
        if folder.exists():
            return folder, descriptor
        close_folder(folder, descriptor)
    return None


def sweep(path: Path) -> None:
    """Remove abandoned folders beside ``path``."""
    for folder in _folders(path):
        with suppress(OSError), _unused(folder) as unused:
            if unused:
                _remove(folder)


def _left(path: Path, serves: Callable[[Path], bool]) -> AbstractContextManager[Path] | None:
    """An abandoned folder beside ``path`` that serves, locked."""
    for folder in _folders(path):
        with suppress(OSError), ExitStack() as stack:
            if stack.enter_context(_unused(folder)) and serves(folder):
                return _kept(folder, stack.pop_all())
    return None


@contextmanager
def _kept(folder: Path, lock_of_it: ExitStack) -> Iterator[Path]:
    with lock_of_it:
        yield folder


def _folders(path: Path) -> list[Path]:
    """All folders beside ``path`` that were made for it."""
    of_path = re.compile(rf"\.[0-9a-f]{{16}}\.{re.escape(path.name)}")
    with suppress(OSError):  # the folder is missing or cannot be listed
        return [entry for entry in path.parent.iterdir() if of_path.fullmatch(entry.name)]
    return []


@contextmanager
def _unused(folder: Path) -> Iterator[bool]:
    """Lock a folder unless it is in use, and yield whether it is locked.

    Raises
    ------
    OSError
        It is not a folder, has been removed, or the file system has no locks.
    """
    descriptor = open_folder(folder)
    with _held(folder, descriptor):
        yield lock(descriptor, wait=False)


# Durable writes: files flushed to the disk; _system.sync does so for folders.


def flush(file: IO[Any]) -> None:
    """Write a file's buffered contents to the disk."""
    file.flush()
    os.fsync(file.fileno())
