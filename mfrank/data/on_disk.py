"""Records, columns and rows on the disk that grow by parts, and are then mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "RowsOnDisk", "Spill"]


class Spill:
    """Records on the disk, by blocks of rows."""

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

    def blocks(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Each block's bounds and records, whose file is then removed."""
        for path, begin, end in zip(
            self._paths, self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True
        ):
            if path.exists():
                yield begin, end, np.fromfile(path, self.dtype)
                path.unlink()
            else:
                yield begin, end, np.empty(0, self.dtype)


class Column:
    """An array on the disk to which parts are appended."""

    def __init__(self, place: Path, name: str, dtype: np.dtype[Any] | type[np.generic]) -> None:
        self._path, self._dtype, self._size = place / name, np.dtype(dtype), 0
        self._path.touch()

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
        self._name, self._counts = name, np.zeros(n_rows, dtype=np.int64)
        self._columns = Column(place, f"{name}.indices", np.int32)
        self._values = Column(place, f"{name}.values", dtype)

    def add(
        self, begin: int, counts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Append the rows from ``begin`` on, with so many entries each."""
        self._counts[begin : begin + len(counts)] = counts
        self._columns.add(columns)
        self._values.add(values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Offsets, columns and values by their names, the last two mapped."""
        return {
            f"{self._name}.indptr": np.concatenate([[0], np.cumsum(self._counts)]),
            f"{self._name}.indices": self._columns.array(),
            f"{self._name}.values": self._values.array(),
        }
