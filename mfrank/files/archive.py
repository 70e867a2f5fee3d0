"""The contents of a stored folder in one file object: an uncompressed zip of the folder's files.

Unlike a folder, the file is not replaced atomically: an interrupted write leaves a part of it.
Reading writes nothing to the disk and trusts nothing: names are looked up, never followed, memory
is bounded by the length of the file, and every checksum is compared.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from mfrank.errors import InputTypeError, InputValueError, unreadable
from mfrank.files.atomic import path_of
from mfrank.files.manifest import MANIFEST, Contents, Format, Manifest
from mfrank.files.npy import read_array_from, write_array_to

Place: TypeAlias = str | os.PathLike[str] | IO[bytes]
"""Where a model is saved: a folder, or a file object opened for bytes."""

_GENERATION = f"data-{0:016x}"  # always the same: equal contents are equal bytes
_DAMAGE = (
    zipfile.BadZipFile,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
    struct.error,
)
"""Errors of zipfile for a file that is damaged or not a zip."""


def place_of(given: Place) -> Path | IO[bytes]:
    """The path, or the file object.

    Raises
    ------
    TypeError
        If it is neither, or a file object for text.
    """
    if isinstance(given, io.TextIOBase):
        raise InputTypeError(
            "a file object must be opened for bytes:", 'open(path, "wb"), or "rb" to load it'
        )
    return cast(IO[bytes], given) if _is_file(given) else path_of(cast(str, given), "folder")


def name_of(place: Place) -> str:
    """The path of a folder or file, for error messages."""
    return str(getattr(place, "name", "the file object") if _is_file(place) else place)


def write_to(file: IO[bytes], contents: Contents, format: Format) -> None:
    """Write contents to a file object, from its position on."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        entries = {}
        for name, array in contents.arrays.items():
            member = zipfile.ZipInfo(_path(_GENERATION, name))
            with archive.open(member, "w", force_zip64=True) as npy:
                entries[name] = write_array_to(npy, array)
        manifest = Manifest(_GENERATION, entries, contents.metadata)
        archive.writestr(zipfile.ZipInfo(MANIFEST), manifest.dump(format))


def read_from(file: IO[bytes], format: Format) -> Contents:
    """Read contents written by :func:`write_to`; errors as in :func:`mfrank.files.folder.read`."""
    where = name_of(file)
    if not (hasattr(file, "seekable") and file.seekable()):
        raise InputValueError("a file object must be seekable:", "read it into an io.BytesIO first")
    length = file.seek(0, os.SEEK_END)
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(archive, length, where)
            manifest = Manifest.parse(archive.read(MANIFEST), format, f"{MANIFEST} of {where}")
            arrays = {}
            for name, entry in manifest.arrays.items():
                path = _path(manifest.data, name)
                with archive.open(path) as npy:
                    size = archive.getinfo(path).file_size
                    arrays[name] = read_array_from(npy, size, entry, f"{path} of {where}")
    except _DAMAGE as error:
        raise unreadable(where, "is damaged, or no model was saved to it", error) from None
    return Contents(arrays, manifest.metadata)


def _is_file(place: Any) -> bool:
    return hasattr(place, "read") or hasattr(place, "write")


def _path(generation: str, array: str) -> str:
    return f"{generation}/{array}.npy"


def _check_members(archive: zipfile.ZipFile, length: int, where: str) -> None:
    """Refuse members that are compressed, or that claim more bytes than the file has."""
    members = archive.infolist()
    stored = all(m.compress_type == zipfile.ZIP_STORED and m.header_offset >= 0 for m in members)
    same = all(member.file_size == member.compress_size for member in members)
    if not (stored and same and sum(member.file_size for member in members) <= length):
        raise unreadable(
            where,
            "is damaged",
            "its members must be stored without compression, and lie in it",
        )
