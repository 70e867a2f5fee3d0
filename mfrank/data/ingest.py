"""Files of any number and size to a folder of interactions, in memory that does not grow with them.

Each file is read twice, by portions: for its ids, which are numbered in sorted order, and for its
entries, which are then on the disk by blocks of users. Every block is merged as in memory; its
entries are written by users, and by blocks of items, which are sorted in turn. Files are taken in
the order of their names, so that the result does not depend on the order in which they are given.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.progress import progress_bar
from mfrank.data import cells, interaction_folder
from mfrank.data.cells import Duplicates
from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs, TimeKind, as_text
from mfrank.data.folder_writer import ENTRIES_AT_ONCE, FolderWriter, even_bounds
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects
from mfrank.data.on_disk import Spill
from mfrank.data.table_files import Portion, is_stream, read_portions
from mfrank.data.unknown_ids import UnknownIdError
from mfrank.files.atomic import working_beside

__all__ = ["ingest"]

_ENTRIES_AT_ONCE = ENTRIES_AT_ONCE
_ROWS_AT_ONCE = 1 << 18
"""Rows of a portion of a file."""
_LABELS_AT_ONCE = 1 << 20
"""Whole numbers of which it is not yet told which are new, at least."""


@dataclass(frozen=True)
class _Source:
    """The files, and how their columns are read."""

    paths: Sequence[Path]
    chosen: Chosen
    ids: IdsAs
    sep: str | None

    def portions(self, path: Path, times: TimeKind | None) -> Iterator[Portion]:
        yield from read_portions(
            path, self.chosen, self.ids, self.sep, n_rows=_ROWS_AT_ONCE, times=times
        )


def ingest(
    files: Sequence[str | os.PathLike[str]],
    folder: Path,
    chosen: Chosen,
    *,
    ids: IdsAs = "auto",
    sep: str | None = None,
    duplicates: Duplicates = "sum",
    show_progress: bool = False,
) -> None:
    """Write the interactions of all files to a folder (:mod:`mfrank.data.interaction_folder`).

    Parameters
    ----------
    files : sequence of path
        At least one, none of them a stream. Either all have timestamps or none.
    folder : Path
    chosen, ids, sep
        As in :func:`mfrank.data.table_files.read_columns`. Where one file has whole numbers as ids
        and another has text, all become text.
    duplicates : {"sum", "max", "last"}
        How cells that occur more than once are merged, in whatever files they are.
    show_progress : bool, default False

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
    for path in filter(is_stream, paths):
        raise ValueError(f"files are read twice, and {path} can be only once: save it as a file")
    source = _Source(paths, chosen, ids, sep)
    known = _numbered(source, show_progress)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_beside(Path(os.path.abspath(folder))) as place:
        arrays = _arrays(source, known, duplicates, place, show_progress)
        interaction_folder.write_arrays(arrays, known.user_ids, known.item_ids, folder)


@dataclass(frozen=True)
class _Known:
    """What the first pass tells: the ids, how often each occurs, and of what kind timestamps are.

    ``times`` has the kind of each file that is text; ``timestamps`` is whether there are any.
    """

    user_ids: Ids
    item_ids: Ids
    of_users: NDArray[np.int64]
    of_items: NDArray[np.int64]
    timestamps: bool
    times: dict[Path, TimeKind]

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return int(self.of_users.sum())


def _numbered(source: _Source, show_progress: bool) -> _Known:
    """Number the ids of all files, and check their values."""
    users, items = _Labels(), _Labels()
    timed: dict[bool, Path] = {}
    kinds: dict[Path, TimeKind] = {}
    with progress_bar(None, "reading ids", "row", shown=show_progress) as advance:
        for path in source.paths:
            for portion in source.portions(path, None):
                timed.setdefault(portion.is_timed, path)
                if len(timed) > 1:
                    raise ValueError(
                        f"{timed[True]} has timestamps and {timed[False]} has none; read all "
                        "without them: timestamp=False"
                    )
                if portion.times is not None:
                    kinds[path] = max(kinds.get(path, portion.times), portion.times, key=_WIDER)
                for labels, role in ((users, "user"), (items, "item")):
                    try:
                        labels.add(canonical(portion.columns[role], portion.first_row))
                    except (TypeError, ValueError) as error:
                        raise type(error)(f"{path}: {error}") from None
                _check_values(path, portion)
                advance(portion.n_rows)
    (user_ids, of_users), (item_ids, of_items) = users.numbered(), items.numbered()
    return _Known(user_ids, item_ids, of_users, of_items, True in timed, kinds)


_WIDER = get_args(TimeKind).index
"""A file with numbers and dates has dates, one with fractions has numbers."""


def _check_values(path: Path, portion: Portion) -> None:
    values = portion.columns.get("value", np.empty(0))
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        row = int(infinite[0])
        raise ValueError(
            f"{path}: the value of row {portion.first_row + row} is {values[row]}, not finite"
        )


class _Labels:
    """How often each id occurs; whole numbers become text where another portion has text."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.int64)
        self._occurrences = np.empty(0, np.int64)
        self._new: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._text = Counter[Any]()

    def add(self, labels: NDArray[Any]) -> None:
        """Count canonical labels."""
        if labels.dtype != np.int64:
            self._text.update(labels.tolist())
            return
        self._new.append(np.unique(labels, return_counts=True))
        # As many new ones as there are before all are sorted again.
        if sum(len(new) for new, _ in self._new) >= max(_LABELS_AT_ONCE, len(self._numbers)):
            self._merge()

    def _merge(self) -> None:
        parts = [(self._numbers, self._occurrences), *self._new]
        labels, occurrences = (np.concatenate(part) for part in zip(*parts, strict=True))
        self._numbers, place = np.unique(labels, return_inverse=True)
        self._occurrences = np.zeros(len(self._numbers), np.int64)
        np.add.at(self._occurrences, place, occurrences)
        self._new = []

    def numbered(self) -> tuple[Ids, NDArray[np.int64]]:
        """The ids in the order of their rows, and how often each occurs."""
        self._merge()
        if not self._text:
            return Ids.factorize(self._numbers)[0], self._occurrences
        text = Counter(dict(zip(as_text(self._numbers), self._occurrences.tolist(), strict=True)))
        text.update(self._text)
        ids = Ids.factorize(objects(text))[0]
        return ids, np.array([text[label] for label in ids.labels], np.int64)


def _arrays(
    source: _Source, known: _Known, duplicates: Duplicates, place: Path, show_progress: bool
) -> dict[str, NDArray[Any]]:
    """The folder's arrays, mapped from files in ``place``."""
    n_users, n_items = len(known.user_ids), len(known.item_ids)
    bounds = even_bounds(known.of_users, _ENTRIES_AT_ONCE)
    by_user = Spill(place, "entries", bounds, _entry_type(known.timestamps))
    with progress_bar(known.n_rows, "reading entries", "row", shown=show_progress) as advance:
        for path in source.paths:
            for portion in source.portions(path, known.times.get(path)):
                entries = _entries(path, portion, known, by_user.dtype)
                by_user.add(entries, entries["user"])
                advance(len(entries))
    writer = FolderWriter(
        place,
        n_users,
        known.of_items,
        dtype=np.float32,
        timestamps=known.timestamps,
        at_once=_ENTRIES_AT_ONCE,
    )
    with progress_bar(known.n_rows, "merging by users", "row", shown=show_progress) as advance:
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
            writer.add(begin, block, moments)
            advance(len(entries))
    with progress_bar(None, "sorting by items", "entry", shown=show_progress) as advance:
        for sorted_entries in writer.sort_items():
            advance(sorted_entries)
    return writer.arrays()


def _entry_type(timestamps: bool) -> np.dtype[Any]:
    fields = [("user", np.int32), ("item", np.int32), ("value", np.float64)]
    return np.dtype(fields + [("time", np.int64)] * timestamps)


def _entries(path: Path, portion: Portion, known: _Known, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The entries of a portion with row numbers in place of ids."""
    columns = portion.columns
    entries = np.empty(portion.n_rows, dtype)
    for role, ids in (("user", known.user_ids), ("item", known.item_ids)):
        labels = canonical(columns[role])
        is_text = ids.table is not None and ids.table.dtype == object
        try:
            entries[role] = ids.rows(as_text(labels) if is_text else labels)
        except UnknownIdError as error:
            raise ValueError(f"{path} was changed while it was read: {error}") from None
    entries["value"] = columns.get("value", np.float64(1))
    if known.timestamps:
        entries["time"] = columns["timestamp"]
    return entries
