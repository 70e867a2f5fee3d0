"""Interactions from arrays, matrices, tables and files: their ids are numbered, their cells made.

The constructors of :class:`mfrank.Interactions` have the documentation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    check_choice,
    check_same_rows,
    counted,
    refuse_labels,
    sparse_to_host,
    to_host,
)
from mfrank.data import cells, tables
from mfrank.data.cells import Cells
from mfrank.data.columns import Chosen
from mfrank.data.distinct import Coded, joined_parts
from mfrank.data.events import EventWeights, kept_rows, none_left, weighed
from mfrank.data.fields import IdsAs, spelled_like
from mfrank.data.file_times import TimesOfFiles, seconds_in
from mfrank.data.frame_chunks import ROWS_AT_ONCE, Chunk, chunks_of, columns_in
from mfrank.data.frames import frame_columns, is_frame, is_stream_of_rows
from mfrank.data.ids import Ids, UnknownIdError, factorized
from mfrank.data.labels import RawIds, canonical
from mfrank.data.layouts import Dialect
from mfrank.data.locations import Location, files_at, tell_last
from mfrank.data.merging import Duplicates
from mfrank.data.notes import note
from mfrank.data.odd_columns import tell_first_row, tell_header
from mfrank.data.odd_ids import check_ids, tell_converted, tell_empty_rows
from mfrank.data.odd_times import tell_of_odd_times, tell_of_whole_days
from mfrank.data.table_parts import TableParts, none_in
from mfrank.data.tables import Portion
from mfrank.data.text_files import errors_of
from mfrank.data.time_units import TimestampUnit, check_unit
from mfrank.data.times import epoch_seconds
from mfrank.data.values import Extent, ScalesOfParts, as_numbers, tell_full
from mfrank.errors import InputTypeError, InputValueError, within

IdsLike = Ids | RawIds
"""An :class:`Ids`, or raw ids in row order."""
KnownIds = tuple[IdsLike | None, IdsLike | None]
"""Ids of users and of items that were given, from which row numbers follow."""


class Parts(NamedTuple):
    """The parts of interactions."""

    cells: Cells
    user_ids: Ids
    item_ids: Ids


def from_arrays(
    users: RawIds,
    items: RawIds,
    values: ArrayLike | None,
    timestamps: ArrayLike | None,
    unit: TimestampUnit | None,
    duplicates: Duplicates,
    known_ids: KnownIds,
    shape: tuple[int, int] | None = None,
    kinds: Any = None,
    weighing: EventWeights | None = None,
) -> Parts:
    """Build the parts of interactions from one array per column.

    ``kinds`` are of events that ``weighing`` gives values; without, the values are these.
    """
    user_ids, item_ids = known_ids
    check_duplicates(duplicates)
    check_unit(unit)
    if unit is not None and timestamps is None:
        raise InputValueError(
            "`timestamp_unit` has no effect without `timestamps`:", "pass them, or leave it out"
        )
    check_same_rows(users=users, items=items, values=values, timestamps=timestamps, events=kinds)
    users, items = to_host(users, "users"), to_host(items, "items")
    values, timestamps = to_host(values, "values"), to_host(timestamps, "timestamps")
    _refuse_unequal(users, items=items, values=values, timestamps=timestamps)
    if weighing is not None and kinds is not None:
        kinds = to_host(kinds, "events")
        _refuse_unequal(users, events=kinds)
        values, kept = weighing.values(kinds, None if values is None else as_numbers(values))
        weighing.tell_unmet()
        if kept is not None:
            if not kept.any():
                raise none_left()
            note(f"{int(kept.sum()):,} of {counted(len(kept), 'row')} are read, by weights")
            users, items, values, timestamps = (
                kept_rows(column, kept) for column in (users, items, values, timestamps)
            )
    if shape is None:
        known_users, user_rows = _look_up("users", users, user_ids)
        known_items, item_rows = _look_up("items", items, item_ids)
        shape = len(known_users), len(known_items)
    else:
        cells.check_room(shape)
        shape = int(shape[0]), int(shape[1])  # numpy's may be narrow
        known_users = _of_rows("user", user_ids, shape[0])
        known_items = _of_rows("item", item_ids, shape[1])
        user_rows = _row_numbers("users", users, shape[0])
        item_rows = _row_numbers("items", items, shape[1])
        tell_empty_rows("user", shape[0], user_rows)
        tell_empty_rows("item", shape[1], item_rows)
    cells.check_shape(shape)
    note(counted(len(user_rows), "row"))
    user_rows = user_rows.astype(np.int32, copy=False)
    item_rows = item_rows.astype(np.int32, copy=False)
    _check("user", users if user_ids is None else user_ids, known_users, partial(_count, user_rows))
    _check("item", items if item_ids is None else item_ids, known_items, partial(_count, item_rows))
    if user_ids is None and item_ids is None and len(user_rows) and len(item_rows):
        tell_first_row(known_users.labels[user_rows[0]], known_items.labels[item_rows[0]])
    del users, items  # the caller may have them no more
    numbers = np.ones(len(user_rows), np.float32) if values is None else as_numbers(values)
    times = None if timestamps is None else epoch_seconds(timestamps, unit)
    del timestamps
    _refuse_unequal(user_rows, items=item_rows, values=numbers, timestamps=times)
    _refuse_infinite(numbers, user_rows, item_rows, known_users, known_items)
    if values is not None:
        extent = Extent.of(numbers)
        extent.tell()
        if weighing is None or not weighing.weights:
            extent.tell_negatives()
    if times is not None:
        tell_of_odd_times(times)
        tell_of_whole_days(times)
    numbers = numbers if weighing is None else weighing.aged(numbers, times)
    found = cells.from_triples(
        user_rows, item_rows, numbers, times, shape=shape, duplicates=duplicates
    )
    if values is not None and found.values_from == "given" and (found.rows.data == 1).all():
        found = found._replace(values_from="ones")
    tell_full(found.rows.data, *shape)
    tell_header(known_users, known_items, partial(_items_of, found.rows))
    parts = finite(found, known_users, known_items)
    if weighing is None or weighing.cap is None:
        return parts
    return parts._replace(cells=cells.capped(found, weighing.cap))


def from_sparse(matrix: Any, duplicates: Duplicates, known_ids: KnownIds) -> Parts:
    """Build the parts of interactions from a scipy or CuPy sparse matrix."""
    user_ids, item_ids = known_ids
    check_duplicates(duplicates)
    matrix = sparse_to_host(matrix)
    if not sp.issparse(matrix):
        raise InputTypeError(
            f"expected a scipy sparse matrix, got {type(matrix).__name__}",
            "pass `scipy.sparse.csr_array(matrix)`",
        )
    found = cells.from_sparse(matrix, duplicates=duplicates)
    note(f"{counted(found.rows.nnz, 'cell')} of a sparse matrix with a value")
    extent = Extent.of(found.rows.data)
    extent.tell()
    extent.tell_negatives()
    n_users, n_items = found.rows.shape
    tell_full(found.rows.data, n_users, n_items)
    known_users = _of_rows("user", user_ids, n_users)
    user_items = found.rows
    known_items = _of_rows("item", item_ids, n_items)
    indptr, columns = user_items.indptr, user_items.indices
    _check("user", user_ids, known_users, lambda row: int(indptr[row + 1] - indptr[row]))
    _check("item", item_ids, known_items, partial(_count, columns))
    if user_items.nnz <= 2 * n_users:  # beyond, rows of all entries would take too much memory
        tell_empty_rows("user", n_users, cells.entry_rows(user_items))
    tell_empty_rows("item", n_items, columns)
    return finite(found, known_users, known_items)


def from_frame(
    frame: Any,
    chosen: Mapping[str, Hashable],
    unit: TimestampUnit | None,
    duplicates: Duplicates,
    known_ids: KnownIds,
    events: EventWeights | None = None,
) -> Parts:
    """Build the parts of interactions from a table, whose columns are chosen by role."""
    if is_stream_of_rows(frame) or not is_frame(frame):
        chunks = chunks_of(frame, ROWS_AT_ONCE)
        if chunks is not None:
            return from_chunks(chunks, "`frame`", chosen, unit, duplicates, known_ids, events)
    check_unit(unit, chosen)
    columns = frame_columns(frame, chosen if events is None else events.chosen(chosen), unit)
    return _from_columns(columns, events, duplicates, known_ids)


def from_chunks(
    chunks: Iterator[Chunk],
    name: str,
    chosen: Mapping[str, Hashable],
    unit: TimestampUnit | None,
    duplicates: Duplicates,
    known_ids: KnownIds,
    events: EventWeights | None = None,
) -> Parts:
    """Build the parts of interactions from a table that comes in chunks, as :func:`from_frame`."""
    check_unit(unit, chosen)
    check_duplicates(duplicates)
    chosen = chosen if events is None else events.chosen(chosen)
    columns = columns_in(chunks, chosen, unit, name)
    return _from_columns(columns, events, duplicates, known_ids)


def from_file(
    given: Location,
    chosen: Chosen,
    dialect: Dialect,
    ids: IdsAs,
    unit: TimestampUnit | None,
    duplicates: Duplicates,
    known_ids: KnownIds,
    events: EventWeights | None = None,
) -> Parts:
    """Build the parts of interactions from text or parquet files; errors name the file."""
    check_unit(unit, chosen)
    tables.check_options(ids, dialect)
    chosen = chosen if events is None else events.chosen(chosen)
    files = files_at(given, "path")
    tables.refuse_text_options(files, dialect)
    if len(files) == 1:
        columns = tables.read_columns(files[0], chosen, ids, dialect, unit)
    else:
        columns = _of_files(files, chosen, dialect, ids, unit)
        if duplicates == "last" and "timestamp" not in columns:
            tell_last(files, given)
    user_ids, item_ids = known("users", known_ids[0]), known("items", known_ids[1])
    if any(map(tables.is_text, files)):
        columns["user"] = spelled_like(columns["user"], user_ids)
        columns["item"] = spelled_like(columns["item"], item_ids)
    place = files[0] if len(files) == 1 else given if isinstance(given, str | os.PathLike) else ""
    try:
        return _from_columns(columns, events, duplicates, (user_ids, item_ids))
    except UnknownIdError as error:
        raise (error.within(place) if place else error) from error
    except ValueError as error:
        raise (within(place, error) if place else error) from error


def _of_files(
    files: Sequence[Path], chosen: Chosen, dialect: Dialect, ids: IdsAs, unit: TimestampUnit | None
) -> dict[str, NDArray[Any]]:
    """The columns of several files as those of one, with timestamps in seconds."""
    table, times, parts = TableParts(), TimesOfFiles(), list[tuple[Path, Portion]]()
    for file in files:
        whole = tables.read_part(file, chosen, ids, dialect, table)
        for part in table.with_rows(whole, str(file), alone=False):
            times.add(str(file), part)
            for role in ("user", "item"):
                if not isinstance(part.columns[role], Coded):
                    with errors_of(file):
                        part.columns[role] = canonical(part.columns[role])
            parts.append((file, part))
    if not parts:
        raise none_in(files)
    found = times.unit(unit, chosen)
    scales = ScalesOfParts()
    for file, part in parts:
        scales.add(str(file), part.columns.get("value"))
    scales.tell()
    columns = dict[str, Any]()
    for role in [*parts[0][1].columns]:
        each = [part.columns.pop(role) for _, part in parts]
        columns[role] = joined_parts(each) if role != "value" else np.concatenate(each)
    if found is not None:
        seconds = [seconds_in(file, part, found, times.kinds[str(file)]) for file, part in parts]
        columns["timestamp"] = np.concatenate(seconds)
    return columns


def _from_columns(
    columns: dict[str, NDArray[Any]],
    events: EventWeights | None,
    duplicates: Duplicates,
    known_ids: KnownIds,
) -> Parts:
    n_rows, found = len(columns["user"]), weighed(columns, events)
    if events is not None:
        if n_rows and not len(found["user"]):
            raise events.none_left()
        events.tell()
    if found is not columns:
        columns.clear()
    # Nothing else has the columns now, so that their memory is free when they are numbered. Times
    # have one unit by now, and "s" leaves numbers as they are.
    take = found.pop
    unit: TimestampUnit | None = "s" if "timestamp" in found else None
    return from_arrays(
        take("user"),
        take("item"),
        take("value", None),
        take("timestamp", None),
        unit,
        duplicates,
        known_ids,
        weighing=events,
    )


def known(name: str, ids: IdsLike | None) -> Ids | None:
    """Convert ids to :class:`Ids`; None stays None. Errors begin with ``name``."""
    if ids is None or isinstance(ids, Ids):
        return ids
    refuse_labels(name, ids, "bring it into the order of the rows with sort_index()")
    try:
        return Ids.of(ids)
    except (TypeError, ValueError) as error:
        raise within(f"`{name}`", error) from error


def check_duplicates(duplicates: str) -> None:
    """Raise ValueError unless this is a way to merge repeated cells."""
    check_choice("duplicates", duplicates, get_args(Duplicates))


def _of_rows(side: str, given: IdsLike | None, n: int) -> Ids:
    """The ids of n rows or columns; None becomes their numbers."""
    ids = known(f"{side}_ids", given)
    if ids is None:
        return Ids.numbered(n)
    if len(ids) != n:
        raise InputValueError(
            f"`{side}_ids` must have an id for each of the {n} {side}s, got {len(ids)}"
        )
    return ids


def _look_up(name: str, raw: RawIds, ids: IdsLike | None) -> tuple[Ids, NDArray[np.integer]]:
    own = known("user_ids" if name == "users" else "item_ids", ids)
    try:
        return factorized(raw) if own is None else (own, own.rows(raw))
    except UnknownIdError as error:
        raise error.within(f"`{name}`") from error
    except (TypeError, ValueError) as error:
        raise within(f"`{name}`", error) from error


def _check(side: str, given: IdsLike | None, ids: Ids, rows_of: Callable[[int], int]) -> None:
    """Refuse or warn about odd ids, unless they were :class:`Ids` before."""
    if given is not None and not isinstance(given, Ids):
        tell_converted(side, given)
        check_ids(side, ids, rows_of)


def _items_of(user_items: sp.csr_array, user: int) -> NDArray[Any]:
    return user_items.indices[user_items.indptr[user] : user_items.indptr[user + 1]]


def _count(rows: NDArray[np.integer], row: int) -> int:
    return int(np.count_nonzero(rows == row))


def _refuse_unequal(users: Any, **columns: Any) -> None:
    """Raise if a column has another shape than the users; one without a shape is not checked."""
    shape = _shape(users)
    for name, column in columns.items():
        if len(shape) == 1 and _shape(column) not in ((), shape):
            raise InputValueError(f"{shape[0]} users, but `{name}` have shape {_shape(column)}")


def _shape(column: Any) -> tuple[int, ...]:
    if isinstance(column, list | tuple | range):
        return (len(column),)
    shape = getattr(column, "shape", ())
    return shape if isinstance(shape, tuple) else ()


def _row_numbers(name: str, raw: RawIds, n: int) -> NDArray[Any]:
    rows = np.asarray(raw)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputTypeError(
            f"with a shape, {name} must be row numbers in one dimension, got dtype {rows.dtype} "
            f"of shape {rows.shape}",
            "leave `shape` out for raw ids",
        )
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        position = int(np.argmax(outside))
        raise InputValueError(
            f"`{name}` must lie in 0..{n - 1}, got {rows[position]} in row {position}"
        )
    return rows.astype(np.int64, copy=False)


def finite(found: Cells, user_ids: Ids, item_ids: Ids) -> Parts:
    """Return the parts; raise if a value is NaN or infinite (also by merging, or in float32)."""
    user_items = found.rows
    if not np.isfinite(user_items.data).all():
        users = cells.entry_rows(user_items)
        _refuse_infinite(user_items.data, users, user_items.indices, user_ids, item_ids)
    return Parts(found, user_ids, item_ids)


def _refuse_infinite(
    values: NDArray[Any], users: NDArray[Any], items: NDArray[Any], user_ids: Ids, item_ids: Ids
) -> None:
    finite = np.isfinite(values)
    if finite.all():
        return
    entry = int(np.argmin(finite))
    user, item = user_ids.raw(users[[entry]]).tolist(), item_ids.raw(items[[entry]]).tolist()
    raise InputValueError(
        f"`values` must be finite and fit float32, got {values[entry]} in entry {entry} (user "
        f"{user[0]!r}, item {item[0]!r})",
        "drop or replace it",
    )
