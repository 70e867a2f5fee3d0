"""Folders that a save makes and a later one may remove, told from those that a person made.

The first file in such a folder is its mark: the folder's own name, and the names of all files that
will be written there. From the first moment on what a save left that was stopped is known by it,
and only that is ever removed. What stays:

- a folder without a mark, or with the mark of another, as a copy has it;
- in a marked folder, every file that the mark does not name, and the folder with it;
- whatever is reached through a link, and the link.

A folder that is empty, or holds nothing but the beginning of its mark, is where a save was stopped
at once: there is nothing in it to be lost.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from mfrank.store.durable import flush, sync
from mfrank.store.locks import LOCK
from mfrank.store.manifest import GENERATION, MANIFEST, is_name
from mfrank.store.regular import is_file, is_folder

__all__ = ["MARK", "is_own", "make", "remove"]

MARK = ".files"
"""Name of the file that says which others are the folder's own."""


def make(folder: Path, files: Iterable[str]) -> None:
    """Make a folder for files of these names; generations may come into it too."""
    folder.mkdir()
    with (folder / MARK).open("w", encoding="ascii") as mark:
        mark.write("\n".join([folder.name, *files]))
        flush(mark)
    sync(folder)


def is_own(folder: Path) -> bool:
    """Whether :func:`make` made it and nothing else is in it."""
    try:
        files = _files(folder)
        is_known = files is not None and all(_is_accounted(e, files) for e in folder.iterdir())
    except FileNotFoundError:  # removed meanwhile, by whoever made it
        return True
    return is_known or not os.path.lexists(folder)


def remove(folder: Path) -> None:
    """Remove what :func:`make` made and those who made it wrote; anything else stays."""
    with suppress(OSError):  # what cannot be removed now is by the next save
        files = _files(folder)
        if files is None:
            return
        for entry in folder.iterdir():
            if GENERATION.fullmatch(entry.name):
                remove(entry)
        for name in files:
            if is_file(folder / name):
                (folder / name).unlink()
        folder.rmdir()


def _files(folder: Path) -> list[str] | None:
    """Names of the files that may be the folder's own, its mark last; None if it is not marked."""
    if not is_folder(folder):
        return None
    mark = folder / MARK
    try:
        name, *files = (mark.read_text("ascii") if is_file(mark) else "").split("\n")
    except UnicodeDecodeError:
        return None
    if name == folder.name:
        return [*filter(_may_be_own, files), MARK]
    was_stopped_at_once = not files and folder.name.startswith(name)
    if was_stopped_at_once and all(entry.name == MARK for entry in folder.iterdir()):
        return [MARK]
    return None


def _is_accounted(entry: Path, files: Container[str]) -> bool:
    if GENERATION.fullmatch(entry.name):
        return is_own(entry)
    return (entry.name in files and is_file(entry)) or not os.path.lexists(entry)


def _may_be_own(name: str) -> bool:
    """Whether a mark may name the file: nothing outside the folder, nothing of another kind."""
    return name in (MANIFEST, LOCK) or (name.endswith(".npy") and is_name(name[: -len(".npy")]))
