"""The first pass of an ingest: the files, their ids with row numbers, and the kinds of their times.

Ids are numbered in sorted order, whatever the order of the files. Values are checked, and the unit
of timestamps is settled by those of all files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import progress_bar
from mfrank.data.cells import ValuesFrom
from mfrank.data.columns import Chosen
from mfrank.data.events import EventWeights, none_left, weighed
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.file_times import TimesOfFiles
from mfrank.data.frame_chunks import Spool
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects
from mfrank.data.layouts import Dialect
from mfrank.data.merging import Duplicates
from mfrank.data.odd_columns import tell_first_row
from mfrank.data.odd_ids import check_ids, tell_converted
from mfrank.data.table_parts import TableParts, none_in
from mfrank.data.tables import Portion, read_portions
from mfrank.data.text_bytes import stored_in
from mfrank.data.time_units import TimeKind, TimestampUnit, Unit
from mfrank.data.values import Extent, ScalesOfParts
from mfrank.errors import InputValueError, within
from mfrank.files import Journal

_LABELS_AT_ONCE = 1 << 20
"""Minimum number of whole numbers that are collected before the new ones among them are found."""


@dataclass(frozen=True)
class Source:
    """The files in reading order, how their columns are read, and the rows of a portion."""

    paths: Sequence[Path | Spool]
    chosen: Chosen
    ids: IdsAs
    dialect: Dialect
    unit: TimestampUnit | None
    n_rows: int
    events: EventWeights | None = None
    table: TableParts = field(default_factory=TableParts)

    def portions(self, path: Path | Spool, times: TimeKind | None) -> Iterator[Portion]:
        """The rows of a file, whose timestamps are of this kind; None recognizes it.

        Those of a spool have their values in place of events already.
        """
        if isinstance(path, Spool):
            yield from path.portions()
            return
        chosen = self.chosen if self.events is None else self.events.chosen(self.chosen)
        how = chosen, self.ids, self.dialect
        every = read_portions(path, *how, n_rows=self.n_rows, times=times, table=self.table)
        alone = len(self.paths) == 1
        for part in self.table.with_rows(every, str(path), alone=alone):
            try:
                columns = {**part.columns, "timestamp": part.moments}
                found = weighed(columns, self.events, part.first_row)
            except ValueError as error:
                raise within(str(path), error) from error
            if len(found["user"]):
                yield part._replace(moments=found.pop("timestamp"), columns=found)

    def none_left(self) -> InputValueError:
        """The error of files of which no row is left."""
        if not self.table.has_rows:
            return none_in(self.paths)
        return none_left() if self.events is None else self.events.none_left()

    def told(self) -> dict[str, Any]:
        """All that the result depends on, as JSON: a file by its name, size and time."""
        paths = [path for path in self.paths if not isinstance(path, Spool)]
        stats = [(_whole_name(path), stored_in(path).stat()) for path in paths]
        files = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]
        chosen = [[role, name] for role, name in sorted(self.chosen.items())]
        how = {"ids": self.ids, "unit": self.unit, **asdict(self.dialect)}
        if self.events is not None:
            how["events"] = self.events.told()
        return {"files": files, "chosen": chosen, **how}


def _whole_name(path: Path) -> str:
    return os.path.abspath(path) if isinstance(path, Path) else str(path)


@dataclass(frozen=True)
class Numbered:
    """Results of the first pass: the ids, how often each occurs, and the kind of the timestamps.

    ``times`` has the kind of each file; ``unit`` is that of timestamps that are numbers, None if
    none are kept; ``values`` has the extent of the values.
    """

    user_ids: Ids
    item_ids: Ids
    of_users: NDArray[np.int64]
    of_items: NDArray[np.int64]
    times: Mapping[str, TimeKind]
    unit: Unit | None
    values: Extent

    @property
    def timestamps(self) -> bool:
        """Whether there are timestamps that are kept."""
        return self.unit is not None

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


def numbered(source: Source, journal: Journal, place: Path, show_progress: bool) -> Numbered:
    """Number the ids of all files and check their values; the journal says which are done."""
    done, seen = journal.done["ids"], Numbering()
    events = EventWeights(None, {}) if source.events is None else source.events
    if done:
        seen = Numbering.load(place / f"ids-{done}", journal.facts)
        events.resume(journal.facts["events"])
    with progress_bar(None, "reading ids", "row", shown=show_progress) as advance:
        for number, path in enumerate(source.paths[done:], done + 1):
            for portion in source.portions(path, None):
                seen.add(path, portion)
                advance(portion.n_rows)
            journal.facts = {**seen.facts, "events": events.facts}
            journal.advance(
                "ids",
                gone=place / f"ids-{number - 1}",
                save=partial(seen.save, place / f"ids-{number}"),
                last=number == len(source.paths),
            )
    if seen.users.is_empty:
        raise source.none_left()
    events.tell()
    (user_ids, of_users), (item_ids, of_items) = seen.users.numbered(), seen.items.numbered()
    check_ids("user", user_ids, lambda row: int(of_users[row]))
    check_ids("item", item_ids, lambda row: int(of_items[row]))
    unit = seen.times.unit(source.unit, source.chosen)
    seen.values.tell()
    if not events.weights:
        seen.values.tell_negatives()
        seen.scales.tell()
    ids, counts = (user_ids, item_ids), (of_users, of_items)
    return Numbered(*ids, *counts, seen.times.kinds, unit, seen.values)


class Numbering:
    """Ids, times and values of the files read so far; a resumed run can load it.

    Attributes
    ----------
    users, items : Labels
    times : TimesOfFiles
    values : Extent
    scales : ScalesOfParts
        Of the files that this run has read.
    """

    def __init__(self) -> None:
        self.users, self.items = Labels(), Labels()
        self.times, self.values = TimesOfFiles(), Extent()
        self.scales = ScalesOfParts()

    @property
    def facts(self) -> dict[str, Any]:
        """Everything outside the arrays, as JSON."""
        return {"times": self.times.to_dict(), "values": self.values.to_dict()}

    @classmethod
    def load(cls, file: Path, facts: Mapping[str, Any]) -> Self:
        """Read what :meth:`save` wrote."""
        made = cls()
        with np.load(file, allow_pickle=False) as arrays:
            for side in ("users", "items"):
                own = {name.partition(".")[2]: name for name in arrays if name.startswith(side)}
                labels = Labels.of({part: arrays[name] for part, name in own.items()})
                setattr(made, side, labels)
        made.times = TimesOfFiles.from_dict(facts["times"])
        made.values = Extent(**facts["values"])
        return made

    def save(self, file: Path) -> None:
        """Write the ids to a new file."""
        arrays: dict[str, Any] = {}
        for side, labels in (("users", self.users), ("items", self.items)):
            arrays |= {f"{side}.{name}": array for name, array in labels.to_arrays().items()}
        with file.open("xb") as opened:
            np.savez(opened, **arrays)

    def add(self, path: Path | Spool, portion: Portion) -> None:
        """Add and check some rows of a file.

        Raises
        ------
        ValueError, TypeError
            A value or an id is invalid; the message names the file.
        """
        self.times.add(str(path), portion)
        if portion.first_row == 0 and portion.n_rows:
            tell_first_row(*(portion.columns[role][:1].tolist()[0] for role in ("user", "item")))
        for labels, role in ((self.users, "user"), (self.items, "item")):
            if labels.is_empty:  # once for all files
                tell_converted(role, portion.columns[role])
            try:
                labels.add(canonical(portion.columns[role], portion.first_row))
            except (TypeError, ValueError) as error:
                raise within(f"{role}s", error).within(path) from None
        if (values := portion.columns.get("value")) is not None:
            _check_values(path, portion.first_row, values)
            self.values.add(values)
            is_file = not isinstance(path, Spool)
            part = str(path) if is_file else f"the rows from {portion.first_row} on"
            self.scales.add(part, values)


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
        text = {name: arrays[name] for name in ("utf8", "offsets") if name in arrays}
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


def _check_values(path: Path | Spool, first_row: int, values: NDArray[Any]) -> None:
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        row = int(infinite[0])
        problem = f"`values` must be finite numbers, got {values[row]} in row {first_row + row}"
        of_row = InputValueError(problem, "drop or replace it", place=f"row {first_row + row}")
        raise of_row.within(path)
