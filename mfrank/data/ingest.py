"""Files of any number to a folder of interactions, in memory that does not grow with them.

Each file is read twice: for its ids, which are numbered in sorted order, and for its entries, which
are then on the disk by blocks of users. Every block is merged as in memory; its entries are written
by users, and by blocks of items, which are sorted in turn. Files are taken in the order of their
names, so that the result does not depend on the order in which they are given.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data import cells, interaction_folder
from mfrank.data.cells import Duplicates
from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs, as_text, spelled_like
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects
from mfrank.data.on_disk import Column, RowsOnDisk, Spill
from mfrank.data.table_files import read_columns

__all__ = ["ingest"]

_ENTRIES_AT_ONCE = 1 << 23
"""Entries of a block, which take about 100 bytes each while they are merged."""

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Files:
    """The files, and how their columns are read."""

    paths: Sequence[Path]
    chosen: Chosen
    ids: IdsAs
    sep: str | None

    def columns(self) -> Iterator[tuple[Path, Columns]]:
        for path in self.paths:
            yield path, read_columns(path, self.chosen, self.ids, self.sep)


def ingest(
    files: Sequence[str | os.PathLike[str]],
    folder: Path,
    chosen: Chosen,
    *,
    ids: IdsAs = "auto",
    sep: str | None = None,
    duplicates: Duplicates = "sum",
) -> None:
    """Write the interactions of all files to a folder (:mod:`mfrank.data.interaction_folder`).

    Parameters
    ----------
    files : sequence of path
        At least one; each must fit in memory. Either all have timestamps or none.
    folder : Path
    chosen, ids, sep
        As in :func:`mfrank.data.table_files.read_columns`. Where one file has whole numbers as ids
        and another has text, all become text.
    duplicates : {"sum", "max", "last"}
        How cells that occur more than once are merged, in whatever files they are.

    Raises
    ------
    ValueError, TypeError
        As for a single file; the message names it. What the folder held is unchanged.
    OSError
        If a file cannot be read or the disk is full; the folder is unchanged, too.
    """
    paths = sorted({Path(file) for file in files})
    if not paths:
        raise ValueError("files must have at least one file")
    source = _Files(paths, chosen, ids, sep)
    known = _numbered(source)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.ingest.") as place:
        arrays = _arrays(source, known, duplicates, Path(place))
        interaction_folder.write_arrays(arrays, known.user_ids, known.item_ids, folder)


@dataclass(frozen=True)
class _Known:
    """What the first pass tells: the ids, their numbers of entries, and if there are timestamps."""

    user_ids: Ids
    item_ids: Ids
    of_users: NDArray[np.int64]
    of_items: NDArray[np.int64]
    timestamps: bool


def _numbered(source: _Files) -> _Known:
    """Number the ids of all files."""
    users, items = _Labels(), _Labels()
    timed: dict[bool, Path] = {}
    for path, columns in source.columns():
        timed.setdefault("timestamp" in columns, path)
        if len(timed) > 1:
            raise ValueError(
                f"{timed[True]} has timestamps and {timed[False]} has none; read all without "
                "them: timestamp=False"
            )
        for labels, role in ((users, "user"), (items, "item")):
            try:
                labels.add(columns[role])
            except (TypeError, ValueError) as error:
                raise type(error)(f"{path}: {error}") from None
    (user_ids, of_users), (item_ids, of_items) = users.numbered(), items.numbered()
    return _Known(user_ids, item_ids, of_users, of_items, True in timed)


class _Labels:
    """How often each id occurs; whole numbers become text where one file has text."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.int64)
        self._occurrences = np.empty(0, np.int64)
        self._text = Counter[Any]()

    def add(self, raw: NDArray[Any]) -> None:
        labels = canonical(raw)
        if labels.dtype != np.int64:
            self._text.update(labels.tolist())
            return
        new, occurrences = np.unique(labels, return_counts=True)
        both = np.concatenate([self._numbers, new])
        self._numbers, place = np.unique(both, return_inverse=True)
        before, self._occurrences = self._occurrences, np.zeros(len(self._numbers), np.int64)
        np.add.at(self._occurrences, place, np.concatenate([before, occurrences]))

    def numbered(self) -> tuple[Ids, NDArray[np.int64]]:
        """The ids in the order of their rows, and how often each occurs."""
        if not self._text:
            return Ids.factorize(self._numbers)[0], self._occurrences
        text = Counter(dict(zip(as_text(self._numbers), self._occurrences.tolist(), strict=True)))
        text.update(self._text)
        ids = Ids.factorize(objects(text))[0]
        return ids, np.array([text[label] for label in ids.labels], np.int64)


def _arrays(
    source: _Files, known: _Known, duplicates: Duplicates, place: Path
) -> dict[str, NDArray[Any]]:
    """The folder's arrays, mapped from files in ``place``."""
    n_users, n_items = len(known.user_ids), len(known.item_ids)
    user_bounds, item_bounds = map(_even_bounds, (known.of_users, known.of_items))
    by_user = Spill(place, "entries", user_bounds, _entry_type(known.timestamps))
    with by_user:
        for path, columns in source.columns():
            entries = _entries(path, columns, known, by_user.dtype)
            by_user.add(entries, entries["user"])
    transposed = np.dtype([("row", np.int32), ("column", np.int32), ("value", np.float32)])
    by_item = Spill(place, "transposed", item_bounds, transposed)
    users = RowsOnDisk(place, "user_items", n_users)
    times = Column(place, "timestamps", np.int64)
    with by_item:
        for begin, end, entries in by_user.blocks():
            block, moments = cells.from_triples(
                entries["user"] - begin,
                entries["item"],
                entries["value"],
                entries["time"] if known.timestamps else None,
                shape=(end - begin, n_items),
                duplicates=duplicates,
            )
            if not np.isfinite(block.data).all():
                raise ValueError("a merged value is beyond the range of float32")
            users.add(begin, np.diff(block.indptr), block.indices, block.data)
            if moments is not None:
                times.add(moments)
            turned = np.empty(block.nnz, transposed)
            turned["row"], turned["value"] = block.indices, block.data
            turned["column"] = cells.entry_rows(block) + begin
            by_item.add(turned, turned["row"])
    items = RowsOnDisk(place, "item_users", n_items)
    for begin, end, turned in by_item.blocks():
        # Stable, so that the users of an item ascend, as they do in the file.
        turned = turned[np.argsort(turned["row"], kind="stable")]
        counts = np.bincount(turned["row"] - begin, minlength=end - begin)
        items.add(begin, counts, turned["column"], turned["value"])
    arrays = users.arrays() | items.arrays()
    return arrays | ({"timestamps": times.array()} if known.timestamps else {})


def _entry_type(timestamps: bool) -> np.dtype[Any]:
    fields = [("user", np.int32), ("item", np.int32), ("value", np.float64)]
    return np.dtype(fields + [("time", np.int64)] * timestamps)


def _entries(path: Path, columns: Columns, known: _Known, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The entries of a file with row numbers in place of ids."""
    entries = np.empty(len(columns["user"]), dtype)
    for role, ids in (("user", known.user_ids), ("item", known.item_ids)):
        entries[role] = ids.rows(spelled_like(columns[role], ids))
    entries["value"] = columns.get("value", np.float64(1))
    if known.timestamps:
        entries["time"] = columns["timestamp"]
    infinite = np.flatnonzero(~np.isfinite(entries["value"]))
    if len(infinite):
        row = int(infinite[0])
        raise ValueError(f"{path}: the value of row {row} is {entries['value'][row]}, not finite")
    return entries


def _even_bounds(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds of blocks of rows with about as many entries as are merged at once, or of one row."""
    ends = np.cumsum(counts)
    n_blocks = -(-int(ends[-1]) // _ENTRIES_AT_ONCE)
    cuts = np.searchsorted(ends, _ENTRIES_AT_ONCE * np.arange(1, n_blocks), side="left") + 1
    return np.unique(np.concatenate([[0], cuts, [len(counts)]]))
