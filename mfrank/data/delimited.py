"""Reader of delimited text: the columns that have a role, with line numbers in errors.

The standard library's csv module defines the meaning of a file. If pandas is installed, it reads
ordinary files faster (:mod:`mfrank.data.by_pandas`); all others are read by the csv module.
"""

from __future__ import annotations

import itertools
import logging
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.data import by_pandas
from mfrank.data import columns as fields
from mfrank.data.columns import BadRow, Chosen, IdsAs, in_column
from mfrank.data.labels import objects
from mfrank.data.layouts import DOUBLE_COLON, IF_LISTS, Dialect, Layout, layout_of, rows
from mfrank.data.text_files import Quotes, Tell
from mfrank.data.time_units import Moments, TimeKind, TimestampUnit
from mfrank.data.times import is_time, moments, settle, time_kind, zones_of
from mfrank.data.values import Extent
from mfrank.errors import InputValueError

_NONE: NDArray[np.float64] = np.empty(0)

Lines = Callable[[], IO[str]]
"""Opens the text anew: it is read more than once."""


def read(
    lines: Lines,
    dialect: Dialect,
    usual: str | None,
    chosen: Chosen,
    ids: IdsAs,
    tell: Tell,
    unit: TimestampUnit | None = None,
) -> dict[str, NDArray[Any]]:
    """Role -> values of the text that ``lines`` opens; see :mod:`mfrank.data.tables`."""
    with lines() as text:
        layout = layout_of(text, dialect, usual, chosen, tell)
    pandas_reads = layout.separator != DOUBLE_COLON and find_spec("pandas")
    found = by_pandas.read(lines, layout, ids, tell) if pandas_reads else None
    is_chosen = chosen.get("timestamp") is not None
    columns: dict[str, NDArray[Any]] | None = None
    if found is not None:
        with suppress(BadRow):  # read again, for the number of the line
            columns = settle(found, unit, is_chosen=is_chosen)
    if columns is None:
        columns = _read(lines, layout, ids, tell, unit, is_chosen=is_chosen)
    _tell_if_lists(layout, columns, tell)
    _check_thousands(layout, Extent.of(columns.get("value", _NONE)), tell)
    return columns


def portions(
    lines: Lines,
    dialect: Dialect,
    usual: str | None,
    chosen: Chosen,
    ids: IdsAs,
    tell: Tell,
    *,
    n_rows: int,
    times: TimeKind | None,
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments | None]]:
    """Yield the result of :func:`read` in portions of ``n_rows`` rows; errors are the same.

    The second value has the portion's timestamps, whose unit is not yet determined. ``times`` is
    the kind of all timestamps in the file; with None, each portion uses its own kind, and dates may
    be left out.
    """
    with lines() as text:
        layout = layout_of(text, dialect, usual, chosen, tell)
    extent = Extent()
    for number, portion in enumerate(_by_either(lines, layout, ids, n_rows, times, tell)):
        if not number:
            _tell_if_lists(layout, portion[0], tell)
        extent.add(portion[0].get("value", _NONE))
        yield portion
    _check_thousands(layout, extent, tell)


def _by_either(
    lines: Lines, layout: Layout, ids: IdsAs, n_rows: int, times: TimeKind | None, tell: Tell
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments | None]]:
    """The portions, read with pandas as far as it reads them as the csv module does."""
    done = 0
    if layout.separator != DOUBLE_COLON and find_spec("pandas"):
        try:
            for portion in by_pandas.portions(lines, layout, ids, n_rows, times, tell):
                yield portion
                done += 1
        except by_pandas.OddError:
            pass
        else:
            if done:
                return
    yield from _portions(lines, layout, ids, n_rows, times, done, tell)


def _check_thousands(layout: Layout, values: Extent, tell: Tell) -> None:
    """Raise ValueError, or tell, if semicolons suggest that 1.234 is written for 1234.

    Who separates fields by semicolons often needs the comma for decimals.
    """
    if layout.separator != ";" or not values.may_have_thousands:
        return
    what = f"values like {values.example:g} have three decimals, or a point between thousands"
    if not values.has_thousands:
        tell(logging.WARNING, f"{what}; they are taken as decimals")
        return
    raise InputValueError(
        f"{what}: all others are whole numbers below 1,000",
        "write thousands without a point, or separate the fields by tabs if these are decimals",
    )


def _tell_if_lists(layout: Layout, columns: dict[str, NDArray[Any]], tell: Tell) -> None:
    """Warn of rows that may be lists of items of equal length, each of the next user."""
    users, items, values = (columns.get(role) for role in ("user", "item", "value"))
    if not layout.is_guess or users is None or items is None or values is None:
        return
    if len(users) < 2 or users.dtype != np.int64 or items.dtype != np.int64:
        return
    if (users[1:] == users[:-1] + 1).all() and (values == np.floor(values)).all():
        tell(
            logging.WARNING,
            "each row has the next user, and its third field is taken as a value; " + IF_LISTS,
        )


def _read(
    lines: Lines,
    layout: Layout,
    ids: IdsAs,
    tell: Tell,
    unit: TimestampUnit | None,
    *,
    is_chosen: bool,
) -> dict[str, NDArray[Any]]:
    """Read with the csv module; the ValueError for a bad line names its number."""
    with lines() as text:
        (rows,) = _batches(text, layout, None, tell)
    found: dict[str, Any] = {}
    for role, column in rows.columns.items():
        try:
            found[role] = (
                moments(objects(column))
                if role == "timestamp"
                else fields.parsed(role, column, ids)
            )
        except BadRow as error:
            raise rows.told(error, role, layout) from error
    try:
        return settle(found, unit, is_chosen=is_chosen)
    except BadRow as error:
        raise rows.told(error, "timestamp", layout) from error


def _portions(
    lines: Lines,
    layout: Layout,
    ids: IdsAs,
    n_rows: int,
    times: TimeKind | None,
    done: int,
    tell: Tell,
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments | None]]:
    """Read with the csv module, all portions but the first ``done``.

    An error in a field is raised only at the end of the file, because an error in the form of a
    later row has precedence, and so does an error in an earlier column.
    """
    bad: dict[str, tuple[bool, InputValueError]] = {}
    with lines() as text:
        for rows in itertools.islice(_batches(text, layout, n_rows, tell), done, None):
            found: dict[str, NDArray[Any]] = {}
            when = None
            for role, column in rows.columns.items():
                try:
                    if role != "timestamp":
                        found[role] = fields.parsed(role, column, ids)
                    else:
                        when = _moments(column, times)
                except BadRow as error:
                    # A field that is no time at all is reported rather than a number among dates.
                    odd = role != "timestamp" or not is_time(column[error.row].strip())
                    if role not in bad or (odd and not bad[role][0]):
                        bad[role] = odd, rows.told(error, role, layout)
            if not bad:
                yield found, when
    for role in layout.fields:
        if role in bad:
            raise bad[role][1]


def _moments(column: list[str], times: TimeKind | None) -> Moments:
    """The timestamps of a portion; none if one is wrong and the kind of all is not known."""
    stripped = [field.strip() for field in column]
    try:
        return moments(objects(stripped), times)
    except BadRow:
        if times is not None:
            raise
        # The error is that of the whole column.
        return Moments(np.empty(0, np.int64), time_kind(stripped), zones=zones_of(stripped))


class _TextRows(NamedTuple):
    """Fields of rows by role, and the lines on which the rows begin."""

    columns: dict[str, list[str]]
    begins: array[int]

    @classmethod
    def none(cls, layout: Layout) -> _TextRows:
        return cls({role: [] for role in layout.fields}, array("q"))

    def told(self, error: BadRow, role: str, layout: Layout) -> InputValueError:
        """The error of a field."""
        field = self.columns[role][error.row]
        told = in_column(error.what, role, layout.column(role), field)
        return told.within(f"line {self.begins[error.row]}")


def _batches(text: IO[str], layout: Layout, n_rows: int | None, tell: Tell) -> Iterator[_TextRows]:
    """Yield so many rows at a time, or all; raise ValueError for a row of another form."""
    batch, is_empty = _TextRows.none(layout), True
    quotes = Quotes(layout.separator, layout.quote, layout.width)
    every = rows(text, layout.separator, quotes)
    for line, row in itertools.islice(every, layout.has_header, None):
        if len(row) < layout.width or any(row[layout.width :]):
            lists = "" if layout.names else f"; {IF_LISTS}"
            if layout.has_header and len(row) == layout.width + 1 and is_empty:
                lists = (
                    "; if rows begin with their names, as in a table of R, write it with "
                    "row.names = FALSE"
                )
            raise InputValueError(
                f"{counted(len(row), 'field')}, the first row has {layout.width:,}",
                f"quote fields that contain {layout.separator!r}, or name another separator with "
                f"`sep=`{lists}",
            ).within(f"line {line}")
        if layout.repeats_header(row):
            raise InputValueError(
                "the header again, as where files were put together",
                "remove this line, or read the files one by one",
            ).within(f"line {line}")
        for role, field in layout.fields.items():
            if not row[field]:
                what = f"the {role} is missing, its field is empty"
                raise in_column(what, role, layout.column(role)).within(f"line {line}")
            batch.columns[role].append(row[field])
        batch.begins.append(line)
        is_empty = False
        if len(batch.begins) == n_rows:
            yield batch
            batch = _TextRows.none(layout)
    if is_empty:
        raise InputValueError("the file has a header and no rows")
    quotes.told(tell)
    if batch.begins:
        yield batch
