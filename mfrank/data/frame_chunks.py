"""Tables that come in chunks: streams of Arrow, several frames, rows of databases.

Some can be read only once. In memory they become one table; an ingest, which reads twice, keeps
their columns in a temporary file.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import needs
from mfrank.data.columns import (
    Chosen,
    assign,
    has_marks_of_rows,
    in_column,
    looks_like_a_mark,
    marks_among,
    tell_columns,
)
from mfrank.data.events import EventWeights, weighed
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.frames import (
    LOOKED_AT,
    arrow_values,
    columns_reader,
    is_dataset,
    is_frame,
    is_stream_of_rows,
    settled_columns,
    unsettled_columns,
)
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical
from mfrank.data.notes import log as _log
from mfrank.data.odd_ids import tell_converted
from mfrank.data.table_parts import NoRowsError
from mfrank.data.tables import Portion
from mfrank.data.time_units import Moments, TimestampUnit
from mfrank.data.times import hold_dates, joined_moments
from mfrank.data.values import ScalesOfParts
from mfrank.errors import InputTypeError, InputValueError, Notice, within

ROWS_AT_ONCE = 1 << 18
"""Rows of a chunk."""


class Chunk(NamedTuple):
    """Some rows of a table: names of its columns, what reads one of them, and their number."""

    names: Sequence[Hashable]
    values_of: Callable[[Any], NDArray[Any]]
    n_rows: int


def chunks_of(given: Any, n_rows: int) -> Iterator[Chunk] | None:
    """The chunks of a table, or of several; None for files and anything else.

    Large tables in memory are cut into chunks of ``n_rows``.
    """
    if is_frame(given):
        return _of_one(given, n_rows)
    if isinstance(given, str | bytes | os.PathLike | Mapping) or not isinstance(given, Iterable):
        return None
    if hasattr(given, "readline"):  # an open file, whose lines are no tables
        return None
    tables = iter(given)
    first = next(tables, None)
    if first is None or not is_frame(first):
        if isinstance(given, Iterator) and isinstance(first, str | os.PathLike):
            raise InputTypeError("`files` must be a list of files, got an iterator:", "make a list")
        return None
    each = itertools.chain([first], tables)
    return (chunk for table in each for chunk in _of_one(table, n_rows))


def _of_one(table: Any, n_rows: int) -> Iterator[Chunk]:
    if is_stream_of_rows(table):
        yield from _of_stream(table, n_rows)
        return
    names, values_of = columns_reader(table)
    total = len(table) if hasattr(table, "__len__") else table.num_rows
    whole = dict[Hashable, NDArray[Any]]()

    def part_of(begin: int) -> Callable[[Any], NDArray[Any]]:
        def values(name: Any) -> NDArray[Any]:
            if name not in whole:
                whole[name] = values_of(name)
            return whole[name][begin : begin + n_rows]

        return values

    for begin in range(0, max(total, 1), n_rows):
        yield Chunk(names, part_of(begin), min(n_rows, total - begin))


def _of_stream(table: Any, n_rows: int) -> Iterator[Chunk]:
    kind = type(table).__name__
    with needs("parquet", f"a {kind} is read with pyarrow"):
        import pyarrow
    try:
        if is_dataset(table):
            schema = getattr(table, "projected_schema", None) or table.schema
            batches = iter(table.to_batches())
        else:
            batches = pyarrow.RecordBatchReader.from_stream(table)
            schema = batches.schema
        yield Chunk(schema.names, lambda name: np.empty(0), 0)  # a stream may have no rows
        for batch in batches:
            for begin in range(0, batch.num_rows, n_rows):
                part = batch.slice(begin, n_rows)
                yield Chunk(schema.names, _values_of(part), part.num_rows)
    except (pyarrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None or isinstance(error, MemoryError):
            raise
        if "non-struct" in str(error):
            raise InputTypeError(f"`frame`: a {kind} is no table with named columns") from error
        remedy = "a stream is read once: make it anew" * ("released" in str(error))
        raise InputValueError(f"`frame`: a {kind} cannot be read: {error}", remedy) from error


def _values_of(batch: Any) -> Callable[[Any], NDArray[Any]]:
    return lambda name: arrow_values(batch.column(name))


def portions_of(
    chunks: Iterator[Chunk], chosen: Chosen, events: EventWeights | None, ids: IdsAs = "auto"
) -> Iterator[tuple[Portion, dict[str, Hashable]]]:
    """Yield the columns of each chunk that has rows, with values for events, and their roles.

    Raises
    ------
    ValueError, TypeError
        As :func:`mfrank.data.frames.frame_columns`; rows count through all chunks. Or a chunk lacks
        a column of those before, or has another kind of timestamps.
    """
    chosen = chosen if events is None else events.chosen(chosen)
    names, roles, first_row, kind = list[Hashable](), dict[str, Hashable](), 0, ""
    marks = list[str]()
    for chunk in chunks:
        if not roles:
            names = [*chunk.names]
            roles = assign(names, chosen)
            marks = marks_among(names, roles)
        elif [*chunk.names] != names and assign([*chunk.names], chosen) != roles:
            raise InputValueError(
                f"from row {first_row} on, the columns differ: {_listed(chunk.names)} in place of "
                f"{_listed(names)}",
                "pass the parts of one table",
            )
        if not chunk.n_rows:
            continue
        if not first_row:
            tell_columns(names, roles, chosen, _tell, lambda _: False, _has_dates_in(chunk))
        for name in [name for name in marks if has_marks_of_rows(chunk.values_of(name))]:
            marks.remove(name)
            _tell(logging.WARNING, looks_like_a_mark(name))
        columns = unsettled_columns(chunk.values_of, roles, first_row)
        for role in ("user", "item"):
            if not first_row:
                tell_converted(role, columns[role])
            try:
                labels = canonical(columns[role], first_row)
            except (TypeError, ValueError) as error:
                raise within(f"`{role}s`", error) from error
            columns[role] = as_text(labels) if ids == "text" else labels
        if (when := columns.get("timestamp")) is not None:
            kind = kind or when.kind
            if (kind == "date") != (when.kind == "date"):
                example = chunk.values_of(roles["timestamp"])[0]
                raise in_column(
                    f"`timestamps` must be all whole numbers or all dates, got {example!r} in row "
                    f"{first_row}",
                    *("timestamp", roles["timestamp"]),
                    place=f"row {first_row}",
                )
        found = weighed(columns, events, first_row)
        yield Portion(found, first_row, found.pop("timestamp", None)), roles
        first_row += chunk.n_rows


def _has_dates_in(chunk: Chunk) -> Callable[[Any], bool]:
    return lambda name: hold_dates(chunk.values_of(name)[:LOOKED_AT])


def _tell(level: int, line: str) -> None:
    _log.log(level, Notice(line))


def _listed(names: Iterable[Hashable]) -> str:
    return ", ".join(map(repr, names))


def columns_in(
    chunks: Iterator[Chunk], chosen: Chosen, unit: TimestampUnit | None, name: str
) -> dict[str, NDArray[Any]]:
    """Role -> values of all chunks, with timestamps of one unit."""
    parts = list(portions_of(chunks, chosen, None))
    if not parts:
        raise no_rows(name)
    (first, roles), *_ = parts
    scales = ScalesOfParts()
    for number, (part, _) in enumerate(parts, 1):
        scales.add(f"part {number}", part.columns.get("value"))
    scales.tell()
    columns: dict[str, Any] = {
        role: np.concatenate([part.columns.pop(role) for part, _ in parts])
        for role in [*first.columns]
    }
    if first.is_timed:
        columns["timestamp"] = joined_moments([part.moments for part, _ in parts if part.moments])
    return settled_columns(columns, roles, chosen, unit)


def no_rows(name: str) -> NoRowsError:
    """The error of a table without rows."""
    remedy = "a stream is read once: was it read before?" * (name != "`query`")
    return NoRowsError(f"{name} has no rows", remedy)


class Spool:
    """Portions of a table in a temporary file, which can be read again and again.

    Parameters
    ----------
    file : Path
        A new file.
    name : str
        What errors call the table.

    Attributes
    ----------
    n_rows : int
        Rows of all portions.
    """

    def __init__(self, file: Path, name: str) -> None:
        self._file, self._name = file, name
        self._facts: list[tuple[list[str], tuple[Any, ...] | None, int]] = []
        self._are_numbers: dict[str, bool] = {}
        self.n_rows = 0

    def __str__(self) -> str:
        return self._name

    def fill(self, portions: Iterable[Portion]) -> None:
        """Write all portions.

        Raises
        ------
        ValueError
            There are none, or a column of ids has numbers and text, which an ingest does not keep
            apart.
        """
        with self._file.open("xb") as opened:
            for portion in portions:
                self.n_rows += portion.n_rows
                arrays = self._arrays(portion)
                when = None if portion.moments is None else tuple(portion.moments[1:])
                self._facts.append(([*arrays], when, portion.first_row))
                for array in arrays.values():
                    np.save(opened, array, allow_pickle=False)
        if not self._facts:
            raise no_rows(self._name)

    def _arrays(self, portion: Portion) -> dict[str, NDArray[Any]]:
        arrays = dict[str, NDArray[Any]]()
        for role, column in portion.columns.items():
            if role not in ("user", "item"):
                arrays[role] = column
                continue
            is_number = column.dtype == np.int64
            if is_number:
                arrays[role] = column
            else:  # the ids of this portion once, and which one each row has
                ids, arrays[role] = Ids.factorize(column)
                arrays |= {f"{role}.{name}": array for name, array in ids.to_arrays().items()}
            mixed = f"{role}.whole" in arrays
            if self._are_numbers.setdefault(role, is_number) != is_number or mixed:
                raise InputValueError(
                    f"`{role}`: ids are whole numbers in some rows and text in others",
                    "make text of all",
                )
        if portion.moments is not None:
            arrays["timestamp"] = portion.moments.numbers
        return arrays

    def portions(self) -> Iterator[Portion]:
        """Yield the portions."""
        with self._file.open("rb") as opened:
            for names, when, first_row in self._facts:
                arrays = {name: np.load(opened, allow_pickle=False) for name in names}
                columns = dict[str, Any]()
                for role in (name for name in names if "." not in name):
                    own = {
                        name.partition(".")[2]: each
                        for name, each in arrays.items()
                        if name.startswith(f"{role}.")
                    }
                    labels = Ids.from_arrays(own).labels[arrays[role]] if own else arrays[role]
                    columns[role] = labels
                numbers = columns.pop("timestamp", None)
                moments = None if when is None else Moments(numbers, *when)
                yield Portion(columns, first_row, moments)
