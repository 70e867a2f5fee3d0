"""Files that grow and are checked when read: where a disk loses a bit, an error, not other data.

Each is known by its length and the CRC-32 of its bytes, which is updated as parts are appended.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CheckedFiles"]

_AT_ONCE = 1 << 22


class CheckedFiles:
    """Files of one folder to which parts are appended.

    Parameters
    ----------
    folder : Path
    known : mapping of name -> (length, CRC-32), optional
        Files that are there, as ``known`` of an earlier object; a longer file is cut back.

    Attributes
    ----------
    folder : Path
    known : dict of name -> [length, CRC-32]
        What all files are to have.

    Raises
    ------
    ValueError
        A file of ``known`` is missing, short or damaged.
    """

    def __init__(self, folder: Path, known: Mapping[str, Sequence[int]] | None = None) -> None:
        self.folder = folder
        self.known = {name: list(each) for name, each in (known or {}).items()}
        for name in self.known:
            self.check(name)
            with (folder / name).open("rb+") as file:
                file.truncate(self.size(name))

    def size(self, name: str) -> int:
        """Length of a file in bytes; 0 if there is none."""
        return self.known.get(name, (0,))[0]

    def append(self, name: str, part: bytes) -> None:
        """Append to a file, which is made if it is not there."""
        with (self.folder / name).open("ab") as file:  # opened anew: there may be very many
            file.write(part)
        size, checksum = self.known.get(name, (0, 0))
        self.known[name] = [size + len(part), zlib.crc32(part, checksum)]

    def take(self, name: str) -> None:
        """Know a file that something else wrote."""
        size = (self.folder / name).stat().st_size
        self.known[name] = [size, self._checksum(name, size) or 0]

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        (self.folder / name).unlink(missing_ok=True)
        self.known.pop(name, None)

    def read(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The records of a file, none if there is no such file; raise ValueError if damaged."""
        if not self.size(name):
            return np.empty(0, dtype)
        path = self.folder / name
        records = np.fromfile(path, dtype)
        if [records.nbytes, zlib.crc32(records.data)] != self.known[name]:
            raise _damaged(path)
        return records

    def mapped(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The same, mapped after it was read once."""
        size = self.size(name)
        if not size:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        self.check(name)
        return np.memmap(self.folder / name, dtype, "r", shape=(size // dtype.itemsize,))

    def check(self, name: str) -> None:
        """Raise ValueError unless a file begins with the bytes that were appended."""
        try:
            checksum = self._checksum(name, self.size(name))
        except FileNotFoundError:
            checksum = None
        if checksum != self.known[name][1]:
            raise _damaged(self.folder / name)

    def _checksum(self, name: str, left: int) -> int | None:
        """Of so many bytes; None if the file has fewer."""
        checksum = 0
        with (self.folder / name).open("rb") as file:
            while left and (part := file.read(min(left, _AT_ONCE))):
                left, checksum = left - len(part), zlib.crc32(part, checksum)
        return None if left else checksum


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"{path} is damaged: it is not what was written to it; check the disk, and make the same "
        "call again, which begins anew"
    )
