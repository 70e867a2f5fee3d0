"""Parts of arrays in files, named so that another process can read them."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FilePart", "part_in_file"]


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
    """Where a contiguous array is mapped from; None if it lies in memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.filename is None:
        return None
    offset = owner.offset + array.ctypes.data - owner.ctypes.data
    return FilePart(str(owner.filename), array.dtype.str, offset, len(array))
