"""Reader of delimited text: the columns that have a role, with line numbers in errors.

The standard library's csv module defines the meaning of a file. If pandas is installed, it reads
ordinary files faster (:mod:`mfrank.data.by_pandas`); all others are read by the csv module.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.data import by_pandas, fields
from mfrank.data.columns import BadRow, Chosen, in_column
from mfrank.data.fields import IdsAs
from mfrank.data.labels import objects
from mfrank.data.layouts import DOUBLE_COLON, Layout, layout_of, rows
from mfrank.data.time_units import Moments, TimeKind, TimestampUnit
from mfrank.data.times import is_time, moments, settle, time_kind

__all__ = ["portions", "read"]


def read(
    lines: Callable[[], IO[str]],
    separator: str | None,
    usual: str | None,
    chosen: Chosen,
    ids: IdsAs,
    unit: TimestampUnit | None = None,
) -> dict[str, NDArray[Any]]:
    """Role -> values of the text that ``lines`` opens; see :mod:`mfrank.data.table_files`."""
    with lines() as text:
        layout = layout_of(text, separator, usual, chosen)
    pandas_reads = layout.separator != DOUBLE_COLON and find_spec("pandas")
    columns = by_pandas.read(lines, layout, ids) if pandas_reads else None
    is_chosen = chosen.get("timestamp") is not None
    if columns is not None:
        try:
            return settle(columns, unit, is_chosen=is_chosen)
        except BadRow:
            pass  # read again, for the number of the line
    return _read(lines, layout, ids, unit, is_chosen=is_chosen)


def portions(
    lines: Callable[[], IO[str]],
    separator: str | None,
    usual: str | None,
    chosen: Chosen,
    ids: IdsAs,
    *,
    n_rows: int,
    times: TimeKind | None,
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments | None]]:
    """Yield what :func:`read` returns, of ``n_rows`` rows at a time; the errors are the same.

    The second value are the portion's timestamps, whose unit is not settled. ``times`` is the kind
    of all of them in the file; with None, they are of the portion's own kind, and dates may be left
    out.
    """
    with lines() as text:
        layout = layout_of(text, separator, usual, chosen)
    done = 0
    if layout.separator != DOUBLE_COLON and find_spec("pandas"):
        try:
            for portion in by_pandas.portions(lines, layout, ids, n_rows, times):
                yield portion
                done += 1
        except by_pandas.OddError:
            pass
        else:
            if done:
                return
    yield from _portions(lines, layout, ids, n_rows, times, done)


def _read(
    lines: Callable[[], IO[str]],
    layout: Layout,
    ids: IdsAs,
    unit: TimestampUnit | None,
    *,
    is_chosen: bool,
) -> dict[str, NDArray[Any]]:
    """Read with the csv module; the ValueError for a bad line names its number."""
    with lines() as text:
        (rows,) = _batches(text, layout, None)
    found: dict[str, Any] = {}
    for role, column in rows.columns.items():
        try:
            found[role] = (
                moments(objects(column))
                if role == "timestamp"
                else fields.parsed(role, column, ids)
            )
        except BadRow as error:
            raise ValueError(rows.told(error, role, layout)) from error
    try:
        return settle(found, unit, is_chosen=is_chosen)
    except BadRow as error:
        raise ValueError(rows.told(error, "timestamp", layout)) from error


def _portions(
    lines: Callable[[], IO[str]],
    layout: Layout,
    ids: IdsAs,
    n_rows: int,
    times: TimeKind | None,
    done: int,
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments | None]]:
    """Read with the csv module, all portions but the first ``done``.

    An error in a field is raised only at the end of the file, because an error in the form of a
    later row has precedence, and so does an error in an earlier column.
    """
    bad: dict[str, tuple[bool, str]] = {}
    with lines() as text:
        for rows in itertools.islice(_batches(text, layout, n_rows), done, None):
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
            raise ValueError(bad[role][1])


def _moments(column: list[str], times: TimeKind | None) -> Moments:
    """The timestamps of a portion; dates are read only if ``times`` is the kind of all."""
    stripped = [field.strip() for field in column]
    if times is None and (own := time_kind(stripped)) == "date":
        return Moments(np.empty(0, np.int64), own)
    try:
        return moments(objects(stripped), times)
    except BadRow:
        if times is not None:
            raise
        return Moments(np.empty(0, np.int64), own)  # the error is that of the whole column


class _Rows(NamedTuple):
    """Fields of rows by role, and the lines on which the rows begin."""

    columns: dict[str, list[str]]
    begins: array[int]

    @classmethod
    def none(cls, layout: Layout) -> _Rows:
        return cls({role: [] for role in layout.fields}, array("q"))

    def told(self, error: BadRow, role: str, layout: Layout) -> str:
        """The text of an error in a field."""
        what = f"line {self.begins[error.row]}: {error.what}"
        return in_column(what, role, layout.column(role))


def _batches(text: IO[str], layout: Layout, n_rows: int | None) -> Iterator[_Rows]:
    """Yield so many rows at a time, or all; raise ValueError for a row of another form."""
    batch, is_empty = _Rows.none(layout), True
    for line, row in itertools.islice(rows(text, layout.separator), layout.has_header, None):
        if len(row) < layout.width or any(row[layout.width :]):
            raise ValueError(
                f"line {line}: {counted(len(row), 'field')}, the first row has "
                f"{layout.width:,}; quote fields that contain {layout.separator!r}, or name "
                "another separator with sep="
            )
        for role, field in layout.fields.items():
            if not row[field]:
                what = f"line {line}: the {role} is missing, its field is empty"
                raise ValueError(in_column(what, role, layout.column(role)))
            batch.columns[role].append(row[field])
        batch.begins.append(line)
        is_empty = False
        if len(batch.begins) == n_rows:
            yield batch
            batch = _Rows.none(layout)
    if is_empty:
        raise ValueError("the file has a header and no rows")
    if batch.begins:
        yield batch
