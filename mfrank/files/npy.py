"""Arrays as ``.npy`` files of version 1.0, and parts of them that another process can read."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.errors import RESTORE, InputValueError, unreadable
from mfrank.files.atomic import flush, open_regular
from mfrank.files.manifest import ArrayEntry

_ALIGNED = 64  # bytes; numpy pads headers so that values begin at a multiple
_MAGIC = np.lib.format.magic(1, 0)
_HEADER = re.compile(
    rb"\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': (\([0-9, ]*\)), \} *\n"
)
"""The header as numpy writes it. numpy's reader evaluates any literal and may raise any error."""


class _Hashing:
    """A file wrapper that hashes the bytes written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, part: bytes) -> int:
        self.sha256.update(part)
        return self._file.write(part)


def write_array(path: Path, array: NDArray[Any]) -> ArrayEntry:
    """Write an array to a new file, flushed to the disk; return its manifest entry."""
    with path.open("xb") as file:
        entry = write_array_to(file, array)
        flush(file)
    return entry


def write_array_to(file: IO[bytes], array: NDArray[Any]) -> ArrayEntry:
    """Write an array to an open file; return its manifest entry."""
    hashing = _Hashing(file)
    np.lib.format.write_array(hashing, array, version=(1, 0), allow_pickle=False)
    return ArrayEntry(array.shape, array.dtype.str, hashing.sha256.hexdigest())


def read_array(path: Path, entry: ArrayEntry, *, mmap: bool, verify: bool) -> NDArray[Any]:
    """Read the array of a manifest entry; options as in :func:`mfrank.files.folder.read`.

    Raises
    ------
    ValueError
        The file is damaged or contains something else.
    OSError
        The file is missing or cannot be read.
    """
    with open_regular(path) as file:
        if verify:
            _verify(file, entry, path)
        _check(file, os.fstat(file.fileno()).st_size, entry, path)
        offset, dtype, size = file.tell(), np.dtype(entry.dtype), math.prod(entry.shape)
        # Kernels refuse unaligned arrays, and an empty map is an error.
        if mmap and size and offset % _ALIGNED == 0:
            return np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=entry.shape)
        return np.fromfile(file, dtype=dtype, count=size).reshape(entry.shape)


def read_array_from(file: IO[bytes], size: int, entry: ArrayEntry, where: str) -> NDArray[Any]:
    """Read the array of a manifest entry from an open, seekable file of ``size`` bytes.

    The checksum is always compared; ``where`` names the file in errors.

    Raises
    ------
    ValueError
        The file is damaged or contains something else.
    """
    _verify(file, entry, where)
    _check(file, size, entry, where)
    return np.frombuffer(file.read(), dtype=entry.dtype).reshape(entry.shape)


def _verify(file: IO[bytes], entry: ArrayEntry, where: object) -> None:
    """Compare the checksum of the whole file; leave the file at its start."""
    if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:  # type: ignore[arg-type]
        raise unreadable(where, "is damaged", "its checksum is not the one it was saved with")
    file.seek(0)


def _check(file: IO[bytes], size: int, entry: ArrayEntry, path: object) -> None:
    """Compare header and size with the manifest; leave the file at the start of its data."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise unreadable(path, "is damaged", "it is not an .npy file of version 1.0")
    header = _HEADER.fullmatch(file.read(int.from_bytes(file.read(2), "little")))
    if header is None:
        raise unreadable(path, "is damaged", "its header does not describe an array of numbers")
    dtype, transposed, shape = (part.decode("ascii", "replace") for part in header.groups())
    if (dtype, transposed, shape) != (entry.dtype, "False", str(entry.shape)):
        order = " transposed" * (transposed == "True")
        raise InputValueError(
            f"{path} holds {dtype} of shape {shape}{order}, and the manifest says {entry.dtype} of "
            f"shape {entry.shape}",
            RESTORE,
            place=path,
        )
    expected = file.tell() + math.prod(entry.shape) * np.dtype(dtype).itemsize
    if size != expected:
        raise unreadable(path, "is damaged", f"it has {size} bytes instead of {expected}")


# Parts of arrays in files, described so that another process can read them.


@dataclass(frozen=True, slots=True)
class FilePart:
    """``size`` numbers in a file, from byte ``offset`` on."""

    path: str
    dtype: str
    offset: int
    size: int

    def read(self) -> NDArray[Any]:
        """Read the numbers.

        Raises
        ------
        OSError
            The file is missing here, or shorter.
        """
        try:
            numbers = np.fromfile(self.path, self.dtype, self.size, offset=self.offset)
        except OSError as error:
            raise OSError(
                f"a worker cannot read {self.path} ({error}): interactions that were opened from "
                "a folder need a disk that all workers see, at the same path, and a folder that "
                "is not replaced meanwhile; else fit to interactions in memory"
            ) from error
        if len(numbers) < self.size:
            raise OSError(f"{self.path} is shorter here than where the fit began")
        return numbers


def part_in_file(array: NDArray[Any]) -> FilePart | None:
    """The part of a file that a contiguous array is mapped from; None if it lies in memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.filename is None:
        return None
    offset = owner.offset + array.ctypes.data - owner.ctypes.data
    return FilePart(str(owner.filename), array.dtype.str, offset, len(array))
