"""Interactions that come by blocks of users, written to the arrays of a folder.

Memory holds one block. The entries of users are appended as they come. They are also kept on the
disk by blocks of items, which are sorted when all entries have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import cells
from mfrank.data.cells import Cells
from mfrank.data.on_disk import Column, RowsOnDisk, Spill
from mfrank.files.checked import CheckedFiles

__all__ = ["ENTRIES_AT_ONCE", "FolderWriter", "even_bounds"]

ENTRIES_AT_ONCE = 1 << 23
"""Entries of a block, which take up to 140 bytes each while they are merged."""


def even_bounds(counts: NDArray[np.int64], at_once: int) -> NDArray[np.int64]:
    """Bounds of blocks of rows with about so many entries, or of one row."""
    ends = np.cumsum(counts)
    n_blocks = -(-int(ends[-1] if len(ends) else 0) // at_once)
    cuts = np.searchsorted(ends, at_once * np.arange(1, n_blocks), side="left") + 1
    return np.unique(np.concatenate([[0], cuts, [len(counts)]]))


class FolderWriter:
    """The matrix by users and by items, and the timestamps, in files of a temporary folder.

    Parameters
    ----------
    files : CheckedFiles
        Of an existing folder, which may be removed when the arrays mapped from it are no longer
        needed. Entries are appended to what the files already have.
    n_users : int
    of_items : int64, shape (n_items,)
        Maximum number of entries of each item; a wrong number costs only memory.
    dtype : float32 or float64
        Of the values.
    timestamps : bool
        Whether every block has timestamps.
    at_once : int, default 2^23
        Entries that are sorted at a time.
    """

    def __init__(
        self,
        files: CheckedFiles,
        n_users: int,
        of_items: NDArray[np.int64],
        *,
        dtype: np.dtype[Any] | type[np.generic],
        timestamps: bool,
        at_once: int = ENTRIES_AT_ONCE,
    ) -> None:
        turned = np.dtype([("row", np.int32), ("column", np.int32), ("value", dtype)])
        self._by_item = Spill(files, "transposed", even_bounds(of_items, at_once), turned)
        self._users = RowsOnDisk(files, "user_items", n_users, dtype)
        self._items = RowsOnDisk(files, "item_users", len(of_items), dtype)
        self._times = Column(files, "timestamps", np.int64) if timestamps else None
        self._seen_only = RowsOnDisk(files, "seen_only", n_users, np.float32)
        self._seen_times = Column(files, "seen_only.timestamps", np.int64)
        self._sums = Column(files, "summed.places", np.int64)
        self._largest = Column(files, "summed.largest", dtype)

    def add(self, begin: int, rows: sp.csr_array, times: NDArray[np.int64] | None) -> None:
        """Append the canonical rows of the users from ``begin`` on; blocks come in their order."""
        self._users.add(begin, np.diff(rows.indptr), rows.indices, rows.data)
        if self._times is not None and times is not None:
            self._times.add(times)
        turned = np.empty(len(rows.data), self._by_item.dtype)
        turned["row"], turned["value"] = rows.indices, rows.data
        turned["column"] = cells.entry_rows(rows) + begin
        self._by_item.add(turned, turned["row"])

    def add_seen_only(
        self, begin: int, rows: sp.csr_array, times: NDArray[np.int64] | None
    ) -> None:
        """Append cells of the users from ``begin`` on that are only seen."""
        self._seen_only.add(begin, np.diff(rows.indptr), rows.indices, rows.data)
        if times is not None:
            self._seen_times.add(times)

    def add_cells(self, begin: int, found: Cells) -> None:
        """Append the users from ``begin`` on, with all that is known of their cells."""
        if found.summed is not None:
            self._sums.add(found.summed.places + self._users.n_entries)
            self._largest.add(found.summed.largest)
        self.add(begin, found.rows, found.timestamps)
        if found.seen_only is not None:
            self.add_seen_only(begin, found.seen_only.rows, found.seen_only.timestamps)

    @property
    def n_seen_only(self) -> int:
        """Cells that are only seen, those of an earlier run included."""
        return self._seen_only.n_entries

    def sort_items(
        self, first: int = 0, done: Callable[[Path], None] | None = None
    ) -> Iterator[int]:
        """Write the entries by items, when all have come; yield their number after each block.

        ``first`` and ``done`` are those of :meth:`mfrank.data.on_disk.Spill.blocks`.
        """
        for begin, end, turned in self._by_item.blocks(first, *([done] if done else [])):
            # Stable, so that the users of an item ascend, as they do in the file.
            turned = turned[np.argsort(turned["row"], kind="stable")]
            counts = np.bincount(turned["row"] - begin, minlength=end - begin)
            self._items.add(begin, counts, turned["column"], turned["value"])
            yield len(turned)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of :func:`mfrank.data.interaction_folder.write_arrays`, mapped."""
        arrays = self._users.arrays() | self._items.arrays()
        if self._times is not None:
            arrays["timestamps"] = self._times.array()
        if self.n_seen_only:
            arrays |= self._seen_only.arrays()
            del arrays["seen_only.values"]  # all of them 1
            if self._times is not None:
                arrays["seen_only.timestamps"] = self._seen_times.array()
        if len(self._sums):
            arrays["summed.places"] = self._sums.array()
            arrays["summed.largest"] = self._largest.array()
        return arrays
