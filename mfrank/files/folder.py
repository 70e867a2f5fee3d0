"""A folder of named arrays and JSON metadata that is replaced atomically.

    <folder>/manifest.json                 format, shapes, dtypes, checksums, metadata
    <folder>/data-<16 hex digits>/<name>.npy   one generation of the arrays
    <folder>/data-<16 hex digits>/.files       its mark: names of its own files
    <folder>/versions.json                 manifests of kept earlier generations, newest first

Array files are never overwritten. A save writes a new generation, flushes it to disk, and then
renames the new manifest into place, which replaces the old contents. An interrupted save (a crash,
a full disk) leaves the old contents and some garbage, which the next save removes. A save may keep
earlier generations: they are listed before the new manifest is renamed, and the list is cut after
that, so that none is lost. To roll back, an earlier manifest is renamed into place. A lock on
``<folder>/.lock`` serializes saves, so the last one wins; readers need no lock. Memory maps of a
superseded generation stay valid on POSIX, where an open file outlives its name.

Only files that a save is known to have written are removed (:mod:`mfrank.files.folder`). All other
files stay, and a folder that contains other files and no manifest is not saved to. Only regular
files, or links to them, are read; nothing is written, locked or removed through a link.

A model that is loaded, changed and saved could undo another save in between. So an object knows its
origin: the generations of folders that it was loaded from or saved as. A save over any other
generation is refused.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
from collections.abc import Collection, Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from mfrank._system import replace, sync
from mfrank.errors import InputValueError, Notice, unreadable
from mfrank.files.atomic import (
    flush,
    is_file,
    is_folder,
    open_regular,
    replacing,
    sweep,
    wanting_room,
)
from mfrank.files.locks import LOCK, locked
from mfrank.files.manifest import (
    GENERATION,
    MANIFEST,
    Contents,
    Format,
    Manifest,
    dump_json,
    is_name,
    parse_json,
)
from mfrank.files.npy import read_array, write_array

VERSIONS = "versions.json"
"""Name of the file with the manifests of earlier generations."""

Origin: TypeAlias = dict[str, tuple[str, ...]]
"""Names of generations by the absolute path of their folder. There are several if a save was
interrupted at the rename, which may or may not have happened, or if the model's store was also
saved by itself."""

_log = logging.getLogger("mfrank")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!$)")
_PLACES = {MANIFEST: None, "_manifest.json": "mfrank lists"}
"""Paths of manifests in folders, with the format there; None for any."""


_STALE = getattr(errno, "ESTALE", None)
"""Of an open file on a network file system that another machine has removed."""


class ChangedFolderError(InputValueError):
    """The folder has changed since the object to save was loaded from it."""


def write(
    folder: Path,
    contents: Contents,
    format: Format,
    origin: Origin | None = None,
    overwrite: bool = False,
    keep: int = 1,
) -> None:
    """Replace the contents of a folder, or create it.

    Parameters
    ----------
    folder : Path
        Written before, empty, or missing; missing parents are created.
    contents : Contents
    format : Format
        Format of the contents; a folder of another format is not overwritten.
    origin : dict, optional
        Origin of the object. The new generation is added before the rename, so that the writer
        recognizes its own save even after a Ctrl-C.
    overwrite : bool, default False
        Whether to replace a generation that ``origin`` does not name, in a folder that it names.
    keep : int, default 1
        Number of generations that stay, with the new one; others are removed, which is logged.

    Raises
    ------
    ChangedFolderError
        If the folder has such a generation and ``overwrite`` is False.
    ValueError
        If the folder contains anything else; it is then left unchanged.
    OSError
        If writing fails; the folder then keeps its old contents.
    """
    metadata_of(folder, format)
    folder.mkdir(parents=True, exist_ok=True)
    sync(folder.parent)
    with locked(folder), wanting_room(folder):
        if origin and not overwrite:
            _refuse_changed(folder, format, origin)
        _sweep(folder, format)
        earlier = _earlier(folder, format)
        if keep > 1 and (current := _current(folder, format)) is not None:
            earlier = [current, *earlier]
            _list(folder, format, earlier)
        try:
            _publish(folder, contents, format, {} if origin is None else origin)
            _cut(folder, format, earlier, keep - 1)
        finally:
            _sweep(folder, format)


def roll_back(folder: Path, format: Format) -> None:
    """Make the generation before the current one current again, and remove the latter.

    Raises
    ------
    FileNotFoundError, ValueError
        As of :func:`read` with ``version=1`` and ``verify=True``; the folder is unchanged.
    OSError
        Writing fails; the folder is unchanged.
    """
    _manifest(folder, format)
    with locked(folder), wanting_room(folder):
        read(folder, format, version=1, mmap=True, verify=True)
        first, *others = _earlier(folder, format)
        _make_current(folder, first, format)
        _cut(folder, format, others, len(others))
        _sweep(folder, format)


def read(
    folder: Path,
    format: Format,
    *,
    mmap: bool = False,
    verify: bool = False,
    always_verify: Collection[str] = (),
    version: int = 0,
) -> Contents:
    """Read the contents of a folder written by :func:`write`.

    Parameters
    ----------
    folder : Path
    format : Format
        Format that the folder must have.
    mmap : bool, default False
        Memory-map the arrays, read-only, instead of reading them.
    verify : bool, default False
        Compare every array's file with its checksum. Shapes, dtypes and sizes are always checked.
    always_verify : names of arrays, default none
        Arrays whose checksums are compared even without ``verify``.
    version : int, default 0
        0 reads the current generation, 1 the one before it, as far as a save kept them.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it has another format or version, or is damaged; the message says how.
    """
    while True:
        manifest = _version(folder, format, version)
        data = folder / manifest.data
        try:
            arrays = {
                name: read_array(
                    data / f"{name}.npy", entry, mmap=mmap, verify=verify or name in always_verify
                )
                for name, entry in manifest.arrays.items()
            }
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            if not is_missing and error.errno != _STALE:
                raise
            if _version(folder, format, version).data != manifest.data:
                continue  # a save replaced the arrays after the manifest was read
            if not is_missing:
                raise
            raise unreadable(folder, "is damaged", f"{error.filename} is missing") from None
        return Contents(
            arrays, manifest.metadata, dict.fromkeys(paths_of(folder), (manifest.data,))
        )


def metadata_of(folder: Path, format: Format) -> Mapping[str, Any] | None:
    """Metadata of a folder's contents; None before the first save.

    That is: the folder is missing, empty, or has only remains of an interrupted first save.

    Raises
    ------
    ValueError
        If the folder contains anything else.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise InputValueError(
            f"cannot save to {folder}: it is a file", "pass a folder", place=folder
        )
    foreign = [
        entry.name
        for entry in folder.iterdir()
        if entry.name not in (LOCK, MARK)
        and not (GENERATION.fullmatch(entry.name) and is_own(entry))
    ]
    if MANIFEST in foreign:  # foreign files beside a manifest are allowed and stay
        return _manifest(folder, format).metadata
    if foreign:
        raise InputValueError(
            f"cannot save to {folder}: it holds other files, such as {min(foreign)!r}, and no "
            f"{MANIFEST}",
            "pass a new or an empty folder",
            place=folder,
        )
    return None


def generation_of(folder: Path, format: Format) -> str:
    """Unique name of the generation of a folder's contents.

    Raises
    ------
    FileNotFoundError, ValueError
        If the folder does not have the format.
    """
    return _manifest(folder, format).data


def n_earlier(folder: Path, format: Format) -> int:
    """Number of the kept generations before the current one; errors as of :func:`read`."""
    _manifest(folder, format)
    return len(_earlier(folder, format))


def refuse_other(folder: Path, format: Format) -> None:
    """Raise ValueError if something of another format was saved to a folder, and name its reader.

    Unreadable contents are left to the reader.
    """
    for place, format_there in _PLACES.items():
        try:
            with open_regular(folder / place) as file:
                name = parse_json(file.read(), folder)["format"]
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if name != format.name and format_there in (None, name):
            format.check(name, 1, folder)


def joined_origins(*each: Mapping[str, tuple[str, ...]]) -> Origin:
    """The origin of an object that contains all objects with these origins."""
    joined: Origin = {}
    for origin in each:
        for path, names in origin.items():
            joined[path] = tuple(dict.fromkeys((*joined.get(path, ()), *names)))
    return joined


def paths_of(folder: Path) -> set[str]:
    """Absolute paths of a folder: its name, which may be a link, and the resolved path."""
    return {os.path.abspath(folder), os.path.realpath(folder)}


def has_changed(folder: Path, format: Format, origin: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a folder that the origin names has another generation than it knows."""
    known = {name for path in paths_of(folder) for name in origin.get(path, ())}
    current = _current(folder, format) if known else None
    return current is not None and current.data not in known


def _refuse_changed(folder: Path, format: Format, origin: Origin) -> None:
    """Raise ChangedFolderError if the folder has another generation than the origin knows."""
    if has_changed(folder, format, origin):
        raise ChangedFolderError(
            f"{folder} has changed since this was loaded from it or saved to it, and what others "
            "saved there would be lost:",
            "load it again and repeat the change, or pass `overwrite=True`",
        )


def _current(folder: Path, format: Format) -> Manifest | None:
    """The current generation; None before the first."""
    return _manifest(folder, format) if os.path.lexists(folder / MANIFEST) else None


def _version(folder: Path, format: Format, version: int) -> Manifest:
    """The current generation, or one before it."""
    current = _manifest(folder, format)
    if version == 0:
        return current
    earlier = _earlier(folder, format)
    if version > len(earlier):
        raise InputValueError(
            f"`version`: {folder} has no version {version}; {len(earlier)} before the current one "
            "are kept:",
            "save with `keep=3` to keep the last three",
            place=folder,
        )
    return earlier[version - 1]


def _earlier(folder: Path, format: Format) -> list[Manifest]:
    """The kept generations before the current one, the newest first."""
    path = folder / VERSIONS
    try:
        with open_regular(path) as file:
            texts = parse_json(file.read(), path)
    except FileNotFoundError:
        return []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise unreadable(path, "is damaged", "it must be a list of manifests")
    current = _current(folder, format)  # listed while a save is under way
    listed = [Manifest.parse(text, format, path) for text in texts]
    return [each for each in listed if current is None or each.data != current.data]


def _list(folder: Path, format: Format, earlier: list[Manifest]) -> None:
    with replacing(folder / VERSIONS) as draft:
        draft.write_text(dump_json([each.dump(format) for each in earlier]), encoding="utf-8")


def _cut(folder: Path, format: Format, earlier: list[Manifest], most: int) -> None:
    """Keep so many of the earlier generations on the list, after a new manifest is in place."""
    if not os.path.lexists(folder / VERSIONS):
        return
    sync(folder)
    if most:
        _list(folder, format, earlier[:most])
    else:
        (folder / VERSIONS).unlink()
        if earlier:
            _log.info(
                Notice(
                    f"{folder}: all earlier versions ({len(earlier)}) are removed; `keep=3` keeps "
                    "the last three"
                )
            )


def _manifest(folder: Path, format: Format) -> Manifest:
    path = folder / MANIFEST
    try:
        with open_regular(path) as file:
            text = file.read()
    except FileNotFoundError:
        if not folder.exists():
            raise _missing(folder) from None
        refuse_other(folder, format)
        raise InputValueError(
            f"{folder} does not hold {format.name!r}: no {MANIFEST} in it",
            format.otherwise,
            place=folder,
        ) from None
    except NotADirectoryError:
        remedy = format.otherwise or (
            f"pass the folder that was saved, or the opened file, open({str(folder)!r}, 'rb'), if "
            "a model was saved to one"
        )
        raise InputValueError(f"{folder} is a file", remedy, place=folder) from None
    return Manifest.parse(text, format, path)


def _missing(folder: Path) -> FileNotFoundError:
    if _URL.match(str(folder)):
        is_here = str(folder).lower().startswith("file:")
        remedy = "pass the path without file://" if is_here else "download the folder first"
        return FileNotFoundError(f"{folder} is a URL, and only folders here are read; {remedy}")
    return FileNotFoundError(f"there is no folder {folder}")


def _sweep(folder: Path, format: Format) -> None:
    """Remove every generation but the current one and those that are kept."""
    # Old generations may be removed only when the new manifest is on the disk.
    sync(folder)
    sweep(folder / VERSIONS)
    current = _current(folder, format)
    kept = {each.data for each in _earlier(folder, format)} | {current.data if current else ""}
    for entry in folder.iterdir():
        if GENERATION.fullmatch(entry.name) and entry.name not in kept:
            remove(entry)


def _publish(folder: Path, contents: Contents, format: Format, origin: Origin) -> None:
    """Write a new generation, make it the current one, and record it in the origin."""
    generation = folder / f"data-{secrets.token_hex(8)}"
    make(generation, [*(f"{name}.npy" for name in contents.arrays), MANIFEST])
    entries = {
        name: write_array(generation / f"{name}.npy", array)
        for name, array in contents.arrays.items()
    }
    manifest = Manifest(generation.name, entries, contents.metadata)
    paths, replaced = paths_of(folder), _current(folder, format)
    may_be_there = (generation.name,) if replaced is None else (replaced.data, generation.name)
    origin |= dict.fromkeys(paths, may_be_there)
    _make_current(folder, manifest, format)
    origin |= dict.fromkeys(paths, (generation.name,))


def _make_current(folder: Path, manifest: Manifest, format: Format) -> None:
    """Rename the manifest into place when it and its generation are on the disk."""
    generation = folder / manifest.data
    draft = generation / MANIFEST
    with draft.open("wb") as file:
        file.write(manifest.dump(format).encode())
        flush(file)
    sync(generation)
    sync(folder)
    replace(draft, folder / MANIFEST)


# Marks of folders that a save created, so that a later save removes these and no others.
#
# The first file written to such a folder is its mark: the folder's name and the names of all files
# that will be written there. So the remains of an interrupted save can always be identified, and
# nothing else is ever removed. These stay:
#
# - a folder without a mark, or with the mark of another folder, such as a copy;
# - in a marked folder, every file that the mark does not name, and then also the folder;
# - links and their targets.
#
# An empty folder, or one with only the beginning of its mark, comes from a save that stopped at
# once; it may be removed, because it contains no data.


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
