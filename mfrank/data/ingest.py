"""Turns files of any number and size into a folder of interactions, in bounded memory.

Each file is read twice, in portions: first for its ids, which are numbered in sorted order, and
then for its entries, which are put on the disk by blocks of users. Every block is merged as data in
memory are; its entries are written by users, and by blocks of items, which are sorted in turn.
Files are taken in the order of their names, so that the result does not depend on the order in
which they are given. A run that was killed is resumed after the last file or block that is noted in
its journal. What was put on the disk is checked when it is read back; a run whose files are damaged
begins anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.counted import sized
from mfrank.arrays.progress import Advance, progress_bar
from mfrank.data import cells, interaction_folder
from mfrank.data.cells import Duplicates, ValuesFrom
from mfrank.data.columns import BadRow, Chosen, in_column
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.folder_writer import ENTRIES_AT_ONCE, FolderWriter, even_bounds
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical
from mfrank.data.layouts import Dialect
from mfrank.data.numbering import Numbering
from mfrank.data.odd_ids import check_ids
from mfrank.data.on_disk import Spill
from mfrank.data.table_files import Portion, read_portions
from mfrank.data.table_kinds import is_stream
from mfrank.data.text_files import local_file
from mfrank.data.time_units import (
    FractionsError,
    TimeKind,
    TimestampUnit,
    Unit,
    check_parts,
    in_seconds,
    tell_of_fractions,
    tell_of_odd_times,
)
from mfrank.data.unknown_ids import UnknownIdError
from mfrank.files.atomic import resuming_beside
from mfrank.files.journal import Journal
from mfrank.files.regular import path_of
from mfrank.files.room import wanting_room

__all__ = ["check_files", "ingest"]

_USUAL_DIALECT = Dialect()
_ENTRIES_AT_ONCE = ENTRIES_AT_ONCE
_ROWS_AT_ONCE = 1 << 18
"""Rows of a portion of a file."""
_LAYOUT = 5
"""Version of the files of a run that can be resumed."""
_TO_ONE_UNIT = "convert the times of all files to one unit, such as dates like 2024-01-31"


@dataclass(frozen=True)
class _Source:
    """The files, and how their columns are read."""

    paths: Sequence[Path]
    chosen: Chosen
    ids: IdsAs
    dialect: Dialect
    unit: TimestampUnit | None
    said: set[str] = field(default_factory=set)

    def portions(self, path: Path, times: TimeKind | None) -> Iterator[Portion]:
        yield from read_portions(
            path,
            self.chosen,
            self.ids,
            self.dialect,
            n_rows=_ROWS_AT_ONCE,
            times=times,
            said=self.said,
        )

    def told(self) -> dict[str, Any]:
        """All that the result depends on, as JSON: a file by its name, size and time."""
        stats = [(os.path.abspath(path), path.stat()) for path in self.paths]
        files = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
        chosen = [[role, name] for role, name in sorted(self.chosen.items())]
        how = {"ids": self.ids, "unit": self.unit, **asdict(self.dialect)}
        return {"files": files, "chosen": chosen, **how}


def check_files(files: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files in the order in which they are read.

    Raises
    ------
    ValueError
        There are none, or one is a stream, a folder or a URL.
    FileNotFoundError
        One is missing.
    """
    if not files:
        raise ValueError("files must have at least one file")
    for file in files:
        if is_stream(path_of(file)):
            raise ValueError(
                f"files are read twice, and {file} can be only once: save it as a file"
            )
        local_file(file)
    return sorted({path_of(file) for file in files})


def ingest(
    files: Sequence[str | os.PathLike[str]],
    folder: Path,
    chosen: Chosen,
    *,
    unit: TimestampUnit | None = None,
    ids: IdsAs = "auto",
    dialect: Dialect = _USUAL_DIALECT,
    duplicates: Duplicates = "sum",
    show_progress: bool = False,
) -> None:
    """Write the interactions of all files to a folder (:mod:`mfrank.data.interaction_folder`).

    Parameters
    ----------
    files : sequence of path
        At least one, none of them a stream. Either all have timestamps or none.
    folder : Path
    chosen, ids, dialect, unit
        As in :func:`mfrank.data.table_files.read_columns`. If one file has whole numbers as ids and
        another has text, all become text.
    duplicates : {"sum", "max", "last"}
        How cells that occur more than once are merged, in the same file or in several.
    show_progress : bool, default False

    Raises
    ------
    ValueError, TypeError
        As for a single file; the message names the file. The folder is unchanged.
    OSError
        If a file cannot be read or the disk is full; the folder is unchanged, too. If there is work
        with which the same call can go on, the message tells where it is.
    """
    dialect.check()
    source = _Source(check_files(files), chosen, ids, dialect, unit)
    interaction_folder.check_takes(folder)
    origin = {"layout": _LAYOUT, "at_once": _ENTRIES_AT_ONCE, "duplicates": duplicates}
    origin |= source.told()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(os.path.abspath(folder))
    with resuming_beside(beside, lambda place: Journal.serves(place, origin)) as place:
        try:
            with wanting_room(folder):
                journal = Journal(place, origin)
                known = _numbered(source, journal, place, show_progress)
                arrays = _arrays(source, known, duplicates, journal, show_progress)
                values_from: ValuesFrom = "given"
                if duplicates == "sum" and known.are_ones:
                    values_from = "repeats"
                interaction_folder.write_arrays(
                    arrays, known.user_ids, known.item_ids, folder, values_from
                )
        except OSError as error:
            if error.errno is None or not Journal.serves(place, origin):
                raise
            raise OSError(error.errno, _kept(error, place), error.filename) from error


def _kept(error: OSError, place: Path) -> str:
    size = sum(path.stat().st_size for path in place.iterdir())
    return (
        f"{error.strerror}; what is done stays in {place} ({sized(size)}), with which the same "
        "call goes on; else remove it"
    )


@dataclass(frozen=True)
class _Known:
    """Results of the first pass: the ids, how often each occurs, and the kind of the timestamps.

    ``times`` has the kind of each file; ``timestamps`` is whether there are any that are kept, and
    ``unit`` the unit of those that are numbers; ``are_ones`` is whether all values are 1.
    """

    user_ids: Ids
    item_ids: Ids
    of_users: NDArray[np.int64]
    of_items: NDArray[np.int64]
    timestamps: bool
    times: Mapping[str, TimeKind]
    unit: Unit
    are_ones: bool

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return int(self.of_users.sum())

    @property
    def entry(self) -> np.dtype[Any]:
        """What is kept of a row."""
        fields = [("user", np.int32), ("item", np.int32), ("value", np.float64)]
        return np.dtype(fields + [("time", np.int64)] * self.timestamps)


def _numbered(source: _Source, journal: Journal, place: Path, show_progress: bool) -> _Known:
    """Number the ids of all files, and check their values."""
    done, seen = journal.done["ids"], Numbering()
    if done:
        seen = Numbering.load(place / f"ids-{done}", journal.facts)
    with progress_bar(None, "reading ids", "row", shown=show_progress) as advance:
        for number, path in enumerate(source.paths[done:], done + 1):
            for portion in source.portions(path, None):
                seen.add(path, portion)
                advance(portion.n_rows)
            journal.facts = seen.facts
            journal.advance(
                "ids",
                gone=place / f"ids-{number - 1}",
                save=partial(seen.save, place / f"ids-{number}"),
                last=number == len(source.paths),
            )
    (user_ids, of_users), (item_ids, of_items) = seen.users.numbered(), seen.items.numbered()
    check_ids("user", user_ids, lambda row: int(of_users[row]))
    check_ids("item", item_ids, lambda row: int(of_items[row]))
    timestamps, unit = _unit_of(source, seen)
    seen.values.tell()
    are_ones = seen.values.lowest >= 1 >= seen.values.highest
    return _Known(user_ids, item_ids, of_users, of_items, timestamps, seen.times, unit, are_ones)


def _unit_of(source: _Source, seen: Numbering) -> tuple[bool, Unit]:
    """Whether timestamps are kept, and the unit of those that are numbers."""
    if not seen.timed[True]:
        return False, "as is"
    if source.unit is not None:
        if source.unit != "s":  # that leaves numbers as they are
            _check_files_times(seen, source.unit)
        seen.magnitudes.check(source.unit)
        return True, source.unit
    try:
        unit = seen.magnitudes.unit()
    except FractionsError as error:
        if source.chosen.get("timestamp") is None:
            tell_of_fractions(error)
            return False, "as is"
        raise ValueError(in_column(error.what, "timestamp", source.chosen["timestamp"])) from error
    except BadRow as error:
        remedy = f"; or {_TO_ONE_UNIT}" if len(seen.spans) > 1 else ""
        raise ValueError(error.what + remedy) from error
    if unit == "as is" and seen.magnitudes.counts and "date" in seen.times.values():
        raise ValueError(
            f"timestamps are dates in some files and numbers such as {seen.magnitudes.lowest} in "
            "others; name the unit of numbers with timestamp_unit="
        )
    _check_files_times(seen, unit)
    seen.magnitudes.tell()
    return True, unit


def _check_files_times(seen: Numbering, unit: Unit) -> None:
    """Raise ValueError if the timestamps of a file are of another unit than those of others."""
    if unit == "digits":  # a number that is no such date is refused where it is read
        return
    spans = dict[str, tuple[int, int]]()
    for name, ends in seen.spans.items():
        numbers = np.array(ends)
        seconds = numbers if seen.times[name] == "date" else in_seconds(numbers, unit)
        spans[name] = int(seconds[0]), int(seconds[1])
    check_parts(spans, _TO_ONE_UNIT)


def _arrays(
    source: _Source,
    known: _Known,
    duplicates: Duplicates,
    journal: Journal,
    show_progress: bool,
) -> dict[str, NDArray[Any]]:
    """The folder's arrays, mapped from files of the journal's folder."""
    bounds = even_bounds(known.of_users, _ENTRIES_AT_ONCE)
    by_user = Spill(journal.files, "entries", bounds, known.entry)
    done = journal.done
    with progress_bar(known.n_rows, "reading entries", "row", shown=show_progress) as advance:
        advance(known.n_rows if done["users"] else len(by_user))
        for path in source.paths[done["entries"] :]:
            for portion in source.portions(path, known.times.get(str(path))):
                entries = _entries(path, portion, known)
                by_user.add(entries, entries["user"])
                advance(len(entries))
            journal.advance("entries")
    writer = FolderWriter(
        journal.files,
        len(known.user_ids),
        known.of_items,
        dtype=np.float32,
        timestamps=known.timestamps,
        at_once=_ENTRIES_AT_ONCE,
    )
    with progress_bar(known.n_rows, "merging by users", "row", shown=show_progress) as advance:
        advance(known.n_rows - len(by_user))
        _merge(by_user, writer, known, duplicates, journal, advance)
    with progress_bar(None, "sorting by items", "entry", shown=show_progress) as advance:
        for n_sorted in writer.sort_items(done["items"], partial(journal.advance, "items")):
            advance(n_sorted)
    arrays = writer.arrays()
    # Counted at the end, because an earlier run may have merged some of the blocks.
    values = arrays["user_items.values"]
    n_cells = len(values) + writer.n_seen_only
    n_merged = known.n_rows - n_cells
    cells.Tally(duplicates, n_merged, n_cells, writer.n_seen_only).tell(values)
    if "timestamps" in arrays:
        tell_of_odd_times(arrays["timestamps"])
    return arrays


def _merge(
    by_user: Spill,
    writer: FolderWriter,
    known: _Known,
    duplicates: Duplicates,
    journal: Journal,
    advance: Advance,
) -> None:
    """Merge the entries of each block of users, and give them to the writer."""
    done = journal.done["users"]
    untold = cells.Tally(duplicates)
    for begin, end, entries in by_user.blocks(done, partial(journal.advance, "users")):
        block = cells.from_triples(
            entries["user"] - begin,
            entries["item"],
            entries["value"],
            entries["time"] if known.timestamps else None,
            shape=(end - begin, len(known.item_ids)),
            duplicates=duplicates,
            tally=untold,
        )
        if not np.isfinite(block.rows.data).all():
            raise ValueError("a merged value is beyond the range of float32")
        writer.add_cells(begin, block)
        advance(len(entries))


def _entries(path: Path, portion: Portion, known: _Known) -> NDArray[Any]:
    """The entries of a portion with row numbers in place of ids."""
    columns = portion.columns
    entries = np.empty(portion.n_rows, known.entry)
    for role, ids in (("user", known.user_ids), ("item", known.item_ids)):
        labels = canonical(columns[role])
        is_text = ids.table is not None and ids.table.dtype == object
        try:
            entries[role] = ids.rows(as_text(labels) if is_text else labels)
        except UnknownIdError as error:
            raise ValueError(f"{path} was changed while it was read: {error}") from None
    entries["value"] = columns.get("value", np.float64(1))
    if known.timestamps:
        entries["time"] = _times(path, portion, known)
    return entries


def _times(path: Path, portion: Portion, known: _Known) -> NDArray[np.int64]:
    when = portion.moments
    assert when is not None  # all files have timestamps
    if when.kind == "date":
        return when.numbers
    try:
        return in_seconds(when.numbers, known.unit)
    except BadRow as error:
        raise ValueError(f"{path}: {error.what} in row {portion.first_row + error.row}") from None
