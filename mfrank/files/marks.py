"""Marks of folders that a save created, so that a later save removes these and no others.

The first file written to such a folder is its mark: the folder's name and the names of all files
that will be written there. So the remains of an interrupted save can always be identified, and
nothing else is ever removed. The following stay:

- a folder without a mark, or with the mark of another folder, such as a copy;
- in a marked folder, every file that the mark does not name, and then also the folder;
- links and their targets.

A folder that is empty, or contains only the beginning of its mark, is left by a save that stopped
at once; it may be removed, because it contains no data.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from mfrank.files.durable import flush, sync
from mfrank.files.locks import LOCK
from mfrank.files.manifest import GENERATION, MANIFEST, is_name
from mfrank.files.regular import is_file, is_folder

__all__ = ["MARK", "is_own", "make", "remove"]

MARK = ".files"
"""Name of the file that lists the files of the folder."""


def make(folder: Path, files: Iterable[str]) -> None:
    """Create a marked folder for files of these names; generations may be added too."""
    folder.mkdir()
    with (folder / MARK).open("w", encoding="ascii") as mark:
        mark.write("\n".join([folder.name, *files]))
        flush(mark)
    sync(folder)


def is_own(folder: Path) -> bool:
    """Whether :func:`make` created the folder and it contains only files that its mark names."""
    try:
        files = _files(folder)
        is_known = files is not None and all(_is_accounted(e, files) for e in folder.iterdir())
    except FileNotFoundError:  # removed meanwhile by the save that created it
        return True
    return is_known or not os.path.lexists(folder)


def remove(folder: Path) -> None:
    """Remove a folder that :func:`make` created and the files its mark names, nothing else."""
    with suppress(OSError):  # the next save tries again
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
    """Names of the files that a save may have written, the mark last; None without a mark."""
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
    """Whether a mark may name the file: only kinds of files that saves write, in this folder."""
    return name in (MANIFEST, LOCK) or (name.endswith(".npy") and is_name(name))
