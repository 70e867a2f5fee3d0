"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft to write, renamed to ``path`` when it is complete and durable.

    If the block fails, the draft vanishes and what ``path`` held is still there. The draft has the
    name of ``path``, in a folder ``.<16 hex digits>.<name>`` beside it, where libraries that write
    to files of their own first have these too. A process that is killed leaves that folder, and
    the next one to replace ``path`` removes it: it is locked while somebody writes there.
    """
    _sweep(path)
    with _locked_folder(path) as folder:
        draft = folder / path.name
        try:
            yield draft
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
        finally:
            _remove(folder)


def _make(path: Path) -> Path:
    """A new folder beside ``path``; no name is ever used twice, so that sweeps may go by it."""
    folder = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
    folder.mkdir()
    return folder


def _remove(folder: Path) -> None:
    with suppress(OSError):  # what is no file, and so no draft, stays
        for entry in folder.iterdir():
            if entry.is_symlink() or not entry.is_file():
                return
            entry.unlink()
        folder.rmdir()


if sys.platform == "win32":  # where no lock says who is still writing

    @contextmanager
    def _locked_folder(path: Path) -> Iterator[Path]:
        yield _make(path)

    def _sweep(path: Path) -> None:
        pass

else:

    @contextmanager
    def _locked_folder(path: Path) -> Iterator[Path]:
        """A folder for the draft, locked where the file system has locks."""
        taken = None
        while taken is None:
            taken = _taken(_make(path))
        try:
            yield taken[0]
        finally:
            os.close(taken[1])

    def _taken(folder: Path) -> tuple[Path, int] | None:
        """The folder and its lock; None where another writer removed it before it was locked."""
        with suppress(FileNotFoundError):
            descriptor = _opened(folder)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)
        return None

    def _sweep(path: Path) -> None:
        """Remove the drafts of ``path`` that nobody writes any more."""
        of_path = re.compile(rf"\.[0-9a-f]{{16}}\.{re.escape(path.name)}")
        with suppress(OSError):  # no such folder, or one that cannot be listed
            for entry in path.parent.iterdir():
                if of_path.fullmatch(entry.name):
                    _remove_unlocked(entry)

    def _remove_unlocked(folder: Path) -> None:
        with suppress(OSError):  # it is no folder, or somebody writes there, or it is gone
            descriptor = _opened(folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(descriptor)

    def _opened(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
