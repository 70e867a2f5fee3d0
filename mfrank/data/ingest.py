"""Read files of any number and size into a folder of interactions, in bounded memory.

Each file is read twice, in portions. The first pass collects ids, which are numbered in sorted
order. The second pass spills entries to disk by blocks of users. Each block is then merged, as in
memory, and written by users and by blocks of items; the blocks of items are sorted last. Files are
read in the order of their names, whatever the order of the argument. A killed run resumes after the
last file or block in its journal. Spilled data are checked when they are read back; a run with
damaged files starts over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Advance, progress_bar, sized
from mfrank.data import cells, interaction_folder
from mfrank.data.cells import Duplicates, ValuesFrom
from mfrank.data.columns import BadRow, Chosen, IdsAs, as_text, in_column
from mfrank.data.ids import Ids, UnknownIdError
from mfrank.data.interaction_folder import ENTRIES_AT_ONCE, FolderWriter, even_bounds
from mfrank.data.labels import canonical, objects
from mfrank.data.layouts import Dialect
from mfrank.data.odd_ids import check_ids, tell_converted
from mfrank.data.on_disk import Spill
from mfrank.data.sources import check_duplicates
from mfrank.data.tables import Portion, is_stream, read_portions
from mfrank.data.text_files import local_file
from mfrank.data.time_units import (
    FractionsError,
    Magnitudes,
    Moments,
    TimeKind,
    TimestampUnit,
    Unit,
    check_parts,
    check_unit,
    in_seconds,
    tell_of_fractions,
    tell_of_odd_times,
)
from mfrank.data.values import Extent
from mfrank.files import Journal, path_of, resuming_beside, wanting_room

# The first pass over files: their ids, how often each occurs, and the kind of timestamps.


_LABELS_AT_ONCE = 1 << 20
"""Minimum number of whole numbers that are collected before the new ones among them are found."""
_WIDER = get_args(TimeKind).index
"""A file with numbers and dates has dates, one with fractions has numbers."""


class Numbering:
    """Ids, times and values of the files read so far; a resumed run can load it.

    Attributes
    ----------
    users, items : Labels
    times : dict of str to TimeKind
        Kind of timestamps of each text file, by name.
    magnitudes : Magnitudes
        Magnitudes of all numeric timestamps.
    spans : dict of str to list of two ints
        Lowest and highest timestamp of each file, by name.
    values : Extent
    timed : list of str
        The first file without timestamps, and the first with timestamps; empty if none so far.
    """

    def __init__(self) -> None:
        self.users, self.items = Labels(), Labels()
        self.times: dict[str, TimeKind] = {}
        self.magnitudes = Magnitudes()
        self.spans: dict[str, list[int]] = {}
        self.values = Extent()
        self.timed = ["", ""]

    @property
    def facts(self) -> dict[str, Any]:
        """Everything outside the arrays, as JSON."""
        magnitudes = self.magnitudes.to_dict()
        facts = {"times": self.times, "timed": self.timed, "magnitudes": magnitudes}
        facts["spans"] = self.spans
        return facts | {"values": self.values.to_dict()}

    @classmethod
    def load(cls, file: Path, facts: Mapping[str, Any]) -> Self:
        """Read what :meth:`save` wrote."""
        made = cls()
        with np.load(file, allow_pickle=False) as arrays:
            for side in ("users", "items"):
                own = {name.partition(".")[2]: name for name in arrays if name.startswith(side)}
                labels = Labels.of({part: arrays[name] for part, name in own.items()})
                setattr(made, side, labels)
        made.times, made.timed = dict(facts["times"]), list(facts["timed"])
        made.magnitudes = Magnitudes(**facts["magnitudes"])
        made.spans = dict(facts["spans"])
        made.values = Extent(**facts["values"])
        return made

    def save(self, file: Path) -> None:
        """Write the ids to a new file."""
        arrays: dict[str, Any] = {}
        for side, labels in (("users", self.users), ("items", self.items)):
            arrays |= {f"{side}.{name}": array for name, array in labels.to_arrays().items()}
        with file.open("xb") as opened:
            np.savez(opened, **arrays)

    def add(self, path: Path, portion: Portion) -> None:
        """Add and check some rows of a file.

        Raises
        ------
        ValueError, TypeError
            A value or an id is invalid, or only some files have timestamps; the message names the
            file.
        """
        self.timed[portion.is_timed] = self.timed[portion.is_timed] or str(path)
        without, with_times = self.timed
        if without and with_times:
            raise ValueError(
                f"{with_times} has timestamps and {without} has none; read all without them: "
                "timestamp=False"
            )
        if (when := portion.moments) is not None:
            self._add_times(str(path), when, portion.first_row)
        for labels, role in ((self.users, "user"), (self.items, "item")):
            if labels.is_empty:  # once for all files
                tell_converted(role, portion.columns[role])
            try:
                labels.add(canonical(portion.columns[role], portion.first_row))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{path}: {role}s: {error}") from None
        _check_values(path, portion)
        self.values.add(portion.columns.get("value", np.empty(0)))

    def _add_times(self, path: str, when: Moments, first_row: int) -> None:
        self.times[path] = max(self.times.get(path, when.kind), when.kind, key=_WIDER)
        self.magnitudes.add(when, first_row)
        if len(when.numbers):
            ends = [*self.spans.get(path, ()), int(when.numbers.min()), int(when.numbers.max())]
            self.spans[path] = [min(ends), max(ends)]


class Labels:
    """Number of occurrences of each id; integers become text if another portion has text."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.int64)
        self._occurrences = np.empty(0, np.int64)
        self._new: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._text = Counter[Any]()

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Build from the arrays that :meth:`to_arrays` returned."""
        made = cls()
        made._numbers, made._occurrences = arrays["numbers"], arrays["occurrences"]
        text = {name: arrays[name] for name in ("utf8", "offsets", "whole") if name in arrays}
        if text:
            labels = Ids.from_arrays(text).labels.tolist()
            made._text.update(dict(zip(labels, arrays["text_occurrences"].tolist(), strict=True)))
        return made

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been counted."""
        return not (self._text or self._new or len(self._numbers))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The ids and their counts, as arrays."""
        self._merge()
        arrays = {"numbers": self._numbers, "occurrences": self._occurrences}
        if self._text:
            arrays |= Ids.of(objects(self._text)).to_arrays()
            arrays["text_occurrences"] = np.array(list(self._text.values()), np.int64)
        return arrays

    def add(self, labels: NDArray[Any]) -> None:
        """Count canonical labels."""
        if labels.dtype != np.int64:
            self._text.update(labels.tolist())
            return
        self._new.append(np.unique(labels, return_counts=True))
        # Sort all again only when as many new ones have come as there are.
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
        """The ids in row order, and their counts."""
        self._merge()
        if not self._text:
            return Ids.factorize(self._numbers)[0], self._occurrences
        text = Counter(dict(zip(as_text(self._numbers), self._occurrences.tolist(), strict=True)))
        text.update(self._text)
        ids = Ids.factorize(objects(text))[0]
        return ids, np.array([text[label] for label in ids.labels], np.int64)


def _check_values(path: Path, portion: Portion) -> None:
    values = portion.columns.get("value", np.empty(0))
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        row = int(infinite[0])
        raise ValueError(
            f"{path}: the value of row {portion.first_row + row} is {values[row]}, not finite"
        )


_USUAL_DIALECT = Dialect()
_ENTRIES_AT_ONCE = ENTRIES_AT_ONCE
_ROWS_AT_ONCE = 1 << 18
"""Rows of a portion of a file."""
_LAYOUT = 6
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
    """The files in reading order.

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
    folder: str | os.PathLike[str],
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
        At least one file, and no streams. Either all have timestamps or none.
    folder : path
    chosen, ids, dialect, unit
        As in :func:`mfrank.data.tables.read_columns`. If one file has integer ids and another text,
        all ids become text.
    duplicates : {"sum", "max", "last"}
        How to merge cells that occur more than once, in one file or in several.
    show_progress : bool, default False

    Raises
    ------
    ValueError, TypeError
        As for a single file; the message names the file. The folder is unchanged.
    OSError
        If a file cannot be read or the disk is full; the folder is unchanged, too. If the same call
        can resume, the message names the temporary folder.
    """
    if isinstance(files, str | os.PathLike):
        raise TypeError(f"files must be a list of files, got one: [{str(files)!r}]")
    check_duplicates(duplicates)
    check_unit(unit)
    folder = path_of(folder)
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
                interaction_folder.write_arrays(
                    *(arrays, known.user_ids, known.item_ids, folder),
                    known.values_from(duplicates, len(arrays["user_items.values"])),
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
    ``unit`` the unit of those that are numbers; ``values`` has the extent of the values.
    """

    user_ids: Ids
    item_ids: Ids
    of_users: NDArray[np.int64]
    of_items: NDArray[np.int64]
    timestamps: bool
    times: Mapping[str, TimeKind]
    unit: Unit
    values: Extent

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return int(self.of_users.sum())

    def values_from(self, duplicates: Duplicates, n_cells: int) -> ValuesFrom:
        """Where the values of the cells come from."""
        lowest, highest = self.values.lowest, self.values.highest
        if duplicates == "sum" and self.n_rows > n_cells and lowest >= 1 >= highest:
            return "repeats"
        return "ones" if lowest == highest == 1 else "given"

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
    times, values = seen.times, seen.values
    return _Known(user_ids, item_ids, of_users, of_items, timestamps, times, unit, values)


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
    cells.CellTally(duplicates, n_merged, n_cells, writer.n_seen_only).tell(values)
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
    untold = cells.CellTally(duplicates)
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
