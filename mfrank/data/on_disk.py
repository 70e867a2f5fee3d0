"""Records, columns and rows on the disk that grow by parts, and are then mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "RowsOnDisk", "Spill"]


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


class Spill:
    """Records on the disk, by blocks of rows; the records that a file already has are kept."""

    def __init__(
        self, place: Path, name: str, bounds: NDArray[np.int64], dtype: np.dtype[Any]
    ) -> None:
        self.dtype = dtype
        self._bounds = bounds
        self._paths = [place / f"{name}-{number}" for number in range(len(bounds) - 1)]

    def add(self, records: NDArray[Any], rows: NDArray[Any]) -> None:
        """Append records to the files of their rows' blocks; their order stays."""
        block = np.searchsorted(self._bounds, rows, side="right") - 1
        order = np.argsort(block, kind="stable")
        ends = np.cumsum(np.bincount(block, minlength=len(self._paths)))
        for path, part in zip(self._paths, np.split(records[order], ends[:-1]), strict=True):
            if len(part):  # opened anew each time: there may be more blocks than open files
                with path.open("ab") as file:
                    file.write(part.tobytes())

    def blocks(
        self, first: int = 0, done: Callable[[Path], None] = _remove
    ) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Bounds and records of each block from the ``first`` on.

        ``done`` is called with its file, if it has any, when the next one is asked for.
        """
        for number in range(first, len(self._paths)):
            path = self._paths[number]
            records = np.fromfile(path, self.dtype) if path.exists() else np.empty(0, self.dtype)
            yield int(self._bounds[number]), int(self._bounds[number + 1]), records
            done(path)

    def __len__(self) -> int:
        """Records of all blocks whose files are there."""
        return sum(p.stat().st_size for p in self._paths if p.exists()) // self.dtype.itemsize


class Column:
    """An array on the disk to which parts are appended, after what its file has."""

    def __init__(self, place: Path, name: str, dtype: np.dtype[Any] | type[np.generic]) -> None:
        self._path, self._dtype = place / name, np.dtype(dtype)
        self._path.touch()
        self._size = self._path.stat().st_size // self._dtype.itemsize

    def __len__(self) -> int:
        return self._size

    def add(self, part: NDArray[Any]) -> None:
        """Append a part."""
        with self._path.open("ab") as file:
            file.write(part.astype(self._dtype, copy=False).tobytes())
        self._size += len(part)

    def array(self) -> NDArray[Any]:
        """All parts, mapped."""
        if not self._size:  # an empty file cannot be mapped
            return np.empty(0, self._dtype)
        return np.memmap(self._path, self._dtype, "r", shape=(self._size,))


class RowsOnDisk:
    """The arrays of a CSR on the disk to which blocks of rows are appended, in their order."""

    def __init__(
        self, place: Path, name: str, n_rows: int, dtype: np.dtype[Any] | type[np.generic]
    ) -> None:
        self._name, self._n_rows = name, n_rows
        self._counts = Column(place, f"{name}.counts", np.int64)
        self._columns = Column(place, f"{name}.indices", np.int32)
        self._values = Column(place, f"{name}.values", dtype)

    def add(
        self, begin: int, counts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Append the rows from ``begin`` on, with so many entries each."""
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
