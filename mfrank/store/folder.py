"""A folder of named arrays and JSON metadata that is replaced as a whole or not at all.

    <folder>/manifest.json                 format, shapes, dtypes, checksums, metadata
    <folder>/data-<16 hex digits>/<name>.npy   one generation of the arrays

No file is ever written over. A save writes a new generation, makes it durable, and then renames
one file, the new manifest, into place: that rename is the moment at which the old contents
become the new. Whatever stops a save earlier (a crash, a full disk) leaves the old contents and
some garbage, which the next save removes. Savers take turns by a lock on ``<folder>/.lock``, so
the last one wins; readers need no lock. Maps of a superseded generation stay valid on POSIX,
where an open file outlives its name.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.store.manifest import GENERATION, ArrayEntry, Contents, Format, Manifest

if sys.platform != "win32":
    import fcntl

__all__ = ["read", "write"]

_MANIFEST = "manifest.json"
_LOCK = ".lock"


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
    _refuse_foreign(folder, format)
    folder.mkdir(parents=True, exist_ok=True)
    _sync(folder.parent)
    with _locked(folder):
        _sweep(folder, format)
        try:
            _publish(folder, contents, format)
        finally:
            _sweep(folder, format)


def read(folder: Path, format: Format, *, mmap: bool = False, verify: bool = False) -> Contents:
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

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it does not hold that format and version, or is damaged; the message says how.
    """
    while True:
        manifest = _manifest(folder, format)
        files = {name: _file(folder, manifest, name) for name in manifest.arrays}
        try:
            arrays = {
                name: _read_array(files[name], entry, mmap=mmap, verify=verify)
                for name, entry in manifest.arrays.items()
            }
        except FileNotFoundError as error:
            if _manifest(folder, format).data == manifest.data:
                raise ValueError(f"{folder} is damaged: {error.filename} is missing") from None
            continue  # a save came between the manifest and its arrays
        return Contents(arrays, manifest.metadata)


def _refuse_foreign(folder: Path, format: Format) -> None:
    """Refuse a folder that holds files and is not of this format."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"cannot save to {folder}: it is a file, name a folder")
    if (folder / _MANIFEST).exists():
        _manifest(folder, format)
        return
    names = (entry.name for entry in folder.iterdir())
    foreign = sorted(name for name in names if name != _LOCK and not GENERATION.fullmatch(name))
    if foreign:
        raise ValueError(
            f"cannot save to {folder}: it holds other files, such as {foreign[0]!r}, and no "
            f"{_MANIFEST}; name a new or an empty folder"
        )


def _manifest(folder: Path, format: Format) -> Manifest:
    path = folder / _MANIFEST
    try:
        return Manifest.parse(path.read_bytes(), format, path)
    except FileNotFoundError:
        if not folder.exists():
            raise
        raise ValueError(f"{folder} does not hold {format.name!r}: no {_MANIFEST} in it") from None
    except NotADirectoryError:
        raise ValueError(f"{folder} is a file; name the folder that was saved") from None


def _file(folder: Path, manifest: Manifest, name: str) -> Path:
    return folder / manifest.data / f"{name}.npy"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for other savers; where there is no flock (Windows) they must not overlap."""
    with (folder / _LOCK).open("ab") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(folder: Path, format: Format) -> None:
    """Remove every generation but the current one."""
    # What the manifest superseded may go only when the manifest itself is on the disk.
    _sync(folder)
    kept = _manifest(folder, format).data if (folder / _MANIFEST).exists() else None
    for entry in folder.iterdir():
        if GENERATION.fullmatch(entry.name) and entry.name != kept:
            shutil.rmtree(entry, ignore_errors=True)


def _publish(folder: Path, contents: Contents, format: Format) -> None:
    """Write a new generation and make it the current one."""
    generation = folder / f"data-{secrets.token_hex(8)}"
    generation.mkdir()
    entries = {
        name: _write_array(generation / f"{name}.npy", array)
        for name, array in contents.arrays.items()
    }
    manifest = Manifest(generation.name, entries, contents.metadata)
    draft = generation / _MANIFEST
    with draft.open("wb") as file:
        file.write(manifest.dump(format).encode())
        _flush(file)
    _sync(generation)
    _sync(folder)
    os.replace(draft, folder / _MANIFEST)


class _Hashing:
    """Writes through to a file and hashes what passes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, part: bytes) -> int:
        self.sha256.update(part)
        return self._file.write(part)


def _write_array(path: Path, array: NDArray[Any]) -> ArrayEntry:
    with path.open("wb") as file:
        hashing = _Hashing(file)
        np.lib.format.write_array(hashing, array, version=(1, 0), allow_pickle=False)
        _flush(file)
    return ArrayEntry(array.shape, array.dtype.str, hashing.sha256.hexdigest())


def _read_array(path: Path, entry: ArrayEntry, *, mmap: bool, verify: bool) -> NDArray[Any]:
    with path.open("rb") as file:
        if verify and hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise ValueError(f"{path} is damaged: its checksum is not the one it was saved with")
        file.seek(0)
        _check_file(file, entry, path)
        if mmap:
            offset, dtype = file.tell(), np.dtype(entry.dtype)
            return np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=entry.shape)
        count = math.prod(entry.shape)
        return np.fromfile(file, dtype=entry.dtype, count=count).reshape(entry.shape)


def _check_file(file: IO[bytes], entry: ArrayEntry, path: Path) -> None:
    """Compare header and size with the manifest; leaves the file at its data."""
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"its .npy version is {version}, not (1, 0)")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if (shape, dtype.str, fortran_order) != (entry.shape, entry.dtype, False):
        raise ValueError(
            f"{path} holds {dtype.str} of shape {shape}{' transposed' if fortran_order else ''}; "
            f"the manifest says {entry.dtype} of shape {entry.shape}"
        )
    expected = file.tell() + math.prod(shape) * dtype.itemsize
    size = os.fstat(file.fileno()).st_size
    if size != expected:
        raise ValueError(f"{path} is damaged: it has {size} bytes instead of {expected}")


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make a folder's own entries durable; Windows has no such call."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
