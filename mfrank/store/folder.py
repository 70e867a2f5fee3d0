"""A folder of named arrays and JSON metadata that is replaced as a whole or not at all.

    <folder>/manifest.json                 format, shapes, dtypes, checksums, metadata
    <folder>/data-<16 hex digits>/<name>.npy   one generation of the arrays
    <folder>/data-<16 hex digits>/.files       its mark: names of its own files

No file is ever written over. A save writes a new generation, makes it durable, and then renames
one file, the new manifest, into place: that rename is the moment at which the old contents
become the new. Whatever stops a save earlier (a crash, a full disk) leaves the old contents and
some garbage, which the next save removes. Savers take turns by a lock on ``<folder>/.lock``, so
the last one wins; readers need no lock. Maps of a superseded generation stay valid on POSIX,
where an open file outlives its name.

Only what a save is known to have written is removed (:mod:`mfrank.store.marks`). Any other file
stays where it is, and a folder that holds such files and no manifest is not saved to. Only regular
files, or links to them, are read; nothing is written, locked or removed through a link.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mfrank.store import marks
from mfrank.store.durable import flush, sync
from mfrank.store.locks import LOCK, locked
from mfrank.store.manifest import GENERATION, MANIFEST, Contents, Format, Manifest
from mfrank.store.npy import read_array, write_array
from mfrank.store.regular import open_regular

__all__ = ["metadata_of", "read", "write"]


def write(folder: Path, contents: Contents, format: Format) -> None:
    """Replace what the folder holds, or make the folder.

    Parameters
    ----------
    folder : Path
        A folder written before, an empty one, or none; missing parents are made.
    contents : Contents
    format : Format
        What the contents are; a folder of another format is not overwritten.

    Raises
    ------
    ValueError
        If the folder holds anything else, which is then left as it was.
    OSError
        If writing fails; the folder then still holds what it held.
    """
    metadata_of(folder, format)
    folder.mkdir(parents=True, exist_ok=True)
    sync(folder.parent)
    with locked(folder):
        _sweep(folder, format)
        try:
            _publish(folder, contents, format)
        finally:
            _sweep(folder, format)


def read(
    folder: Path,
    format: Format,
    *,
    mmap: bool = False,
    verify: bool = False,
    always_verify: Collection[str] = (),
) -> Contents:
    """Read what :func:`write` wrote.

    Parameters
    ----------
    folder : Path
    format : Format
        What the folder must hold.
    mmap : bool, default False
        Map the arrays, read-only, instead of reading them.
    verify : bool, default False
        Compare every array's file with its checksum. Shapes, dtypes and sizes are always checked.
    always_verify : names of arrays, default none
        Those whose checksums are compared in any case.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it does not hold that format and version, or is damaged; the message says how.
    """
    while True:
        manifest = _manifest(folder, format)
        data = folder / manifest.data
        try:
            arrays = {
                name: read_array(
                    data / f"{name}.npy", entry, mmap=mmap, verify=verify or name in always_verify
                )
                for name, entry in manifest.arrays.items()
            }
        except (FileNotFoundError, NotADirectoryError) as error:
            if _manifest(folder, format).data == manifest.data:
                raise ValueError(f"{folder} is damaged: {error.filename} is missing") from None
            continue  # a save came between the manifest and its arrays
        return Contents(arrays, manifest.metadata)


def metadata_of(folder: Path, format: Format) -> Mapping[str, Any] | None:
    """Metadata of what was written; None where a save would be the first.

    That is where there is no folder, an empty one, or one with what a first save left that was
    stopped.

    Raises
    ------
    ValueError
        If the folder holds anything else.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise ValueError(f"cannot save to {folder}: it is a file, name a folder")
    foreign = [
        entry.name
        for entry in folder.iterdir()
        if entry.name not in (LOCK, marks.MARK)
        and not (GENERATION.fullmatch(entry.name) and marks.is_own(entry))
    ]
    if MANIFEST in foreign:  # files that were put beside it stay
        return _manifest(folder, format).metadata
    if foreign:
        raise ValueError(
            f"cannot save to {folder}: it holds other files, such as {min(foreign)!r}, and no "
            f"{MANIFEST}; name a new or an empty folder"
        )
    return None


def _manifest(folder: Path, format: Format) -> Manifest:
    path = folder / MANIFEST
    try:
        with open_regular(path) as file:
            text = file.read()
    except FileNotFoundError:
        if not folder.exists():
            raise
        raise ValueError(f"{folder} does not hold {format.name!r}: no {MANIFEST} in it") from None
    except NotADirectoryError:
        raise ValueError(f"{folder} is a file; name the folder that was saved") from None
    return Manifest.parse(text, format, path)


def _sweep(folder: Path, format: Format) -> None:
    """Remove every generation but the current one."""
    # What the manifest superseded may go only when the manifest itself is on the disk.
    sync(folder)
    kept = _manifest(folder, format).data if os.path.lexists(folder / MANIFEST) else None
    for entry in folder.iterdir():
        if GENERATION.fullmatch(entry.name) and entry.name != kept:
            marks.remove(entry)


def _publish(folder: Path, contents: Contents, format: Format) -> None:
    """Write a new generation and make it the current one."""
    generation = folder / f"data-{secrets.token_hex(8)}"
    marks.make(generation, [*(f"{name}.npy" for name in contents.arrays), MANIFEST])
    entries = {
        name: write_array(generation / f"{name}.npy", array)
        for name, array in contents.arrays.items()
    }
    manifest = Manifest(generation.name, entries, contents.metadata)
    draft = generation / MANIFEST
    with draft.open("xb") as file:
        file.write(manifest.dump(format).encode())
        flush(file)
    sync(generation)
    sync(folder)
    os.replace(draft, folder / MANIFEST)
