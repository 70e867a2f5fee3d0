"""Records, columns and rows on disk that grow part by part and are checked when read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.files import CheckedFiles


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


class Spill:
    """Records on disk, by blocks of rows; existing records of a file stay."""

    def __init__(
        self, files: CheckedFiles, name: str, bounds: NDArray[np.int64], dtype: np.dtype[Any]
    ) -> None:
        self.dtype = dtype
        self._files, self._bounds = files, bounds
        self._names = [f"{name}-{number}" for number in range(len(bounds) - 1)]

    def add(self, records: NDArray[Any], rows: NDArray[Any]) -> None:
        """Append records to the files of their rows' blocks; their order stays."""
        block = np.searchsorted(self._bounds, rows, side="right") - 1
        order = np.argsort(block, kind="stable")
        ends = np.cumsum(np.bincount(block, minlength=len(self._names)))
        for name, part in zip(self._names, np.split(records[order], ends[:-1]), strict=True):
            if len(part):
                self._files.append(name, part.tobytes())

    def blocks(
        self, first: int = 0, done: Callable[[Path], None] = _remove
    ) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Bounds and records of each block from the ``first`` on.

        ``done`` is called with the block's file, if there is one, when the next block is requested.

        Raises
        ------
        ValueError
            A file is damaged.
        """
        for number in range(first, len(self._names)):
            name = self._names[number]
            records = self._files.read(name, self.dtype)
            yield int(self._bounds[number]), int(self._bounds[number + 1]), records
            done(self._files.folder / name)

    def __len__(self) -> int:
        """Records of all blocks whose files are there."""
        return sum(map(self._files.size, self._names)) // self.dtype.itemsize


class GrowingArray:
    """An array on disk to which parts are appended; existing contents of its file stay."""

    def __init__(
        self, files: CheckedFiles, name: str, dtype: np.dtype[Any] | type[np.generic]
    ) -> None:
        self._files, self._name, self._dtype = files, name, np.dtype(dtype)

    def __len__(self) -> int:
        return self._files.size(self._name) // self._dtype.itemsize

    def add(self, part: NDArray[Any]) -> None:
        """Append a part."""
        self._files.append(self._name, part.astype(self._dtype, copy=False).tobytes())

    def array(self) -> NDArray[Any]:
        """All parts, mapped; raise ValueError if the file is damaged."""
        return self._files.mapped(self._name, self._dtype)


class RowsOnDisk:
    """The arrays of a CSR on disk to which blocks of rows are appended, in order."""

    def __init__(
        self,
        files: CheckedFiles,
        name: str,
        n_rows: int,
        dtype: np.dtype[Any] | type[np.generic],
    ) -> None:
        self._name, self._n_rows = name, n_rows
        self._counts = GrowingArray(files, f"{name}.counts", np.int64)
        self._columns = GrowingArray(files, f"{name}.indices", np.int32)
        self._values = GrowingArray(files, f"{name}.values", dtype)

    @property
    def n_entries(self) -> int:
        """Entries of all rows."""
        return len(self._columns)

    def add(
        self, begin: int, counts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Append the rows from ``begin`` on, with these numbers of entries."""
        self._counts.add(np.zeros(begin - len(self._counts)))
        self._counts.add(counts)
        self._columns.add(columns)
        self._values.add(values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Offsets, columns and values by their names, the last two mapped."""
        indptr = np.zeros(self._n_rows + 1, np.int64)
        counts = self._counts.array()
        np.cumsum(counts, out=indptr[1 : len(counts) + 1])
        indptr[len(counts) + 1 :] = indptr[len(counts)]
        return {
            f"{self._name}.indptr": indptr,
            f"{self._name}.indices": self._columns.array(),
            f"{self._name}.values": self._values.array(),
        }
