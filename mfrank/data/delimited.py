"""Reader of text: its format, and the columns that have a role, with line numbers in errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.columns import BadRow, Chosen, in_column
from mfrank.data.contest_files import mind_format, netflix_format
from mfrank.data.distinct import Coded, Distinct, joined_parts
from mfrank.data.fields import DecimalCommas, Fields, IdsAs
from mfrank.data.item_lists import list_format
from mfrank.data.json_rows import json_format
from mfrank.data.known_layouts import known_layout
from mfrank.data.layouts import IF_LISTS, Dialect, layout_of
from mfrank.data.notes import is_noted, note
from mfrank.data.records import Rows, Start, TextFormat, TypedIds
from mfrank.data.sparse_text import feature_format, matrix_format
from mfrank.data.table_parts import TablePart
from mfrank.data.text_blocks import table_of
from mfrank.data.text_files import Text
from mfrank.data.text_rows import Tell
from mfrank.data.time_units import Moments, TimeKind, TimestampUnit
from mfrank.data.times import is_time, joined_moments, part_moments, settle, widest
from mfrank.data.values import Extent
from mfrank.errors import InputValueError

_NONE: NDArray[np.float64] = np.empty(0)

Columns = dict[str, Any]
"""Role -> values; timestamps are :class:`Moments`, whose unit is not yet determined."""

_RECORDS: tuple[Callable[[Start], TextFormat | None], ...] = (
    json_format,
    netflix_format,
    matrix_format,
    mind_format,
    feature_format,
    list_format,
)
"""What recognizes a format by the first lines of a text; what is none of them is a table."""


@dataclass(frozen=True)
class TextTable:
    """A text, and how it is read: whole, or in portions.

    Attributes
    ----------
    opened : callable
        Opens the text anew: it is read more than once.
    dialect, chosen, ids
        As :func:`mfrank.data.tables.read_columns` takes them.
    usual : str or None
        The usual separator in files of this suffix.
    tell : callable
    part : TablePart
        The text as a part of a table, whose files must have the same columns.
    """

    opened: Callable[[], Text]
    dialect: Dialect
    usual: str | None
    chosen: Chosen
    ids: IdsAs
    tell: Tell
    part: TablePart = field(default_factory=TablePart)

    def settled(self, unit: TimestampUnit | None = None) -> dict[str, NDArray[Any]]:
        """Role -> values; see :func:`mfrank.data.tables.read_columns`."""
        columns, form = self._whole()
        try:
            return settle(columns, unit, is_chosen=self.chosen.get("timestamp") is not None)
        except BadRow as error:
            if "timestamp" in form.keyed:
                raise
            raise self._in_text(error, form) from error

    def unsettled(self) -> Columns:
        """The result of :meth:`settled` with timestamps of no unit yet."""
        return self._whole()[0]

    def portions(self, n_rows: int, times: TimeKind | None) -> Iterator[Columns]:
        """Yield what :meth:`unsettled` returns in portions of ``n_rows`` rows; errors are the same.

        ``times`` is the kind of all timestamps in the file; with None, each portion uses its own
        kind, and dates may be left out.
        """
        form = self._format()
        extent, commas = Extent(), DecimalCommas()
        parts = self._parts(form, self.tell, commas, times, n_rows)
        for number, portion in enumerate(_grouped(parts, n_rows)):
            if not number:
                _tell_other_rows(form, portion, self.tell)
            extent.add(portion.get("value", _NONE))
            yield portion
        if not commas.are_sure:
            _check_thousands(form, extent, self.tell)

    def _format(self) -> TextFormat:
        """Recognize the format, and log what the columns are."""
        dialect, chosen, tell, part = self.dialect, self.chosen, self.tell, self.part
        with self.opened() as text:
            start = Start(text.head(), dialect, chosen, self.ids, tell, part)
        recognized = (recognize(start) for recognize in _RECORDS if dialect.lines != "rows")
        found = next(filter(None, recognized), None)
        if found is None:
            known = known_layout(start.lines[:2], chosen) if dialect.columns is None else None
            with self.opened() as text:
                text.fallback = known.fallback if known is not None else None
                found = table_of(layout_of(text, dialect, self.usual, chosen, tell, part))
        if found.counts_users and part.table.first not in ("", part.file):
            raise InputValueError(
                f"users are the numbers of lines, and those of {part.table.first} are others:",
                "read the files one by one, or write the user on each line",
            )
        part.table.check(part.file, {**found.columns, **found.keyed})
        _note(found, dialect)
        return found

    def _whole(self) -> tuple[Columns, TextFormat]:
        """The result of :meth:`unsettled`, and the format."""
        form = self._format()
        commas, n_rows = DecimalCommas(), self._estimated_rows()
        found = _Joined(self._parts(form, self.tell, commas), n_rows)
        if found.has_other_times:
            kind = found.kind
            del found  # its memory is needed again
            found = _Joined(self._parts(form, _not_told, DecimalCommas(), kind), n_rows)
        columns = found.columns()
        _tell_other_rows(form, columns, self.tell)
        if not commas.are_sure:
            _check_thousands(form, Extent.of(columns.get("value", _NONE)), self.tell)
        return columns, form

    def _parts(
        self,
        form: TextFormat,
        tell: Tell,
        commas: DecimalCommas,
        times: TimeKind | None = None,
        n_rows: int | None = None,
    ) -> Iterator[Columns]:
        """Yield the columns of a block at a time, or of its rows up to each multiple of ``n_rows``.

        An error in a field is raised only at the end of the file, because an error in the form of a
        later row has precedence, and so does an error in an earlier column.
        """
        bad: dict[str, tuple[bool, InputValueError]] = {}
        known, n_read = dict[str, Distinct](), 0
        may_have_commas = form.separator not in ("", ",")
        with_comma: InputValueError | None = None
        times = times or form.times
        with self.opened() as text:
            text.fallback = form.fallback
            for rows in _cut(form.rows(text, tell), n_rows):
                found: Columns = {}
                for role, fields in rows.columns.items():
                    try:
                        if isinstance(fields, TypedIds):
                            found[role] = fields.ids(self.ids)
                        elif role == "timestamp":
                            found[role] = part_moments(fields, times)
                        elif role == "value":
                            found[role] = fields.values(commas if may_have_commas else None)
                        else:
                            found[role] = _ids(fields, self.ids, known.setdefault(role, Distinct()))
                    except BadRow as error:
                        written = fields.text(error.row)
                        # A field that is no time at all is reported before a number among dates.
                        odd = role != "timestamp" or not is_time(written.strip())
                        if role not in bad or (odd and not bad[role][0]):
                            bad[role] = odd, _told(error, rows, role, form)
                if commas.first is not None and with_comma is None:
                    with_comma = _told(commas.first, rows, "value", form)
                if not bad:
                    yield found | self.part.constants(form.keyed, self.ids, len(rows.lines))
                n_read += len(rows.lines)
                if n_rows is not None and n_read % n_rows == 0:  # a portion does not hold all texts
                    known.clear()
        if with_comma is not None:
            if commas.has_points or not commas.are_sure:
                bad.setdefault("value", (True, with_comma))
            else:
                tell(logging.INFO, "values such as 3,5 are read as decimals with a comma")
        for role in form.columns:
            if role in bad:
                raise bad[role][1]

    def _estimated_rows(self) -> int:
        """Rather a few too many; what is wrong with the text is told when it is read."""
        try:
            with self.opened() as text:
                n_lines = text.estimated_lines()
        except ValueError:
            return 0
        return n_lines + n_lines // 16

    def _in_text(self, error: BadRow, form: TextFormat) -> InputValueError:
        """The error of a timestamp, with its line, for which the text is read again."""
        before = 0
        with self.opened() as text:
            text.fallback = form.fallback
            for rows in form.rows(text, _not_told):
                if error.row < before + len(rows.lines):
                    here = BadRow(error.what, error.row - before)
                    return _told(here, rows, "timestamp", form)
                before += len(rows.lines)
        return error  # the file was changed meanwhile


def _note(found: TextFormat, dialect: Dialect) -> None:
    """Note what is read of a text, where nobody has said so."""
    if found.separator:
        note(f"fields are separated by {found.separator!r}")
    if dialect.encoding is not None:
        note(f"encoding {dialect.encoding}")
    if not is_noted("columns read: "):
        columns = {**found.columns, **found.keyed}
        note("columns read: " + ", ".join(f"{role} {name!r}" for role, name in columns.items()))


def _check_thousands(form: TextFormat, values: Extent, tell: Tell) -> None:
    """Raise ValueError, or tell, if semicolons suggest that 1.234 is written for 1234.

    Who separates fields by semicolons often needs the comma for decimals.
    """
    if form.separator != ";" or not values.may_have_thousands:
        return
    what = f"values like {values.example:g} have three decimals, or a point between thousands"
    if not values.has_thousands:
        tell(logging.WARNING, f"{what}; they are taken as decimals")
        return
    raise InputValueError(
        f"{what}: all others are whole numbers below 1,000",
        "write thousands without a point, or separate the fields by tabs if these are decimals",
    )


_SEVERAL = 3
"""Rows of one item by chance."""


def _tell_other_rows(form: TextFormat, columns: dict[str, NDArray[Any]], tell: Tell) -> None:
    """Warn of rows that may be lists of equal length, each of the next user, or have no items."""
    users, items, values = (columns.get(role) for role in ("user", "item", "value"))
    if not form.is_guess or users is None or items is None or values is None:
        return
    if len(users) >= _SEVERAL and _are_one(items) and not _are_one(users):
        tell(
            logging.WARNING,
            "the second field, which is taken as the item, is the same in all rows: if it is none, "
            "name the columns in order with `columns=`, such as user, -, item",
        )
    if len(users) < 2 or users.dtype != np.int64 or items.dtype != np.int64:
        return
    if (users[1:] == users[:-1] + 1).all() and (values == np.floor(values)).all():
        tell(
            logging.WARNING,
            "each row has the next user, and its third field is taken as a value; " + IF_LISTS,
        )


def _are_one(ids: NDArray[Any]) -> bool:
    each = _numbers_of(ids)
    return bool((each == each[0]).all())


def _ids(fields: Fields, ids: IdsAs, known: Distinct) -> NDArray[np.int64] | Coded:
    """Int64 or, if a field is not spelled as one or by wish, text."""
    may_be_numbers = ids == "auto" and not len(known)  # after text, all of the column is text
    numbers = fields.whole_numbers() if may_be_numbers else None
    return known.add(fields) if numbers is None else numbers


def _cut(every: Iterator[Rows], n_rows: int | None) -> Iterator[Rows]:
    """Yield the rows cut where a portion of so many ends."""
    left = n_rows
    for rows in every:
        begin = 0
        while left is not None and n_rows is not None and len(rows.lines) - begin >= left:
            yield rows.part(slice(begin, begin + left))
            begin, left = begin + left, n_rows
        if begin < len(rows.lines):
            yield rows.part(slice(begin, None))
        left = None if left is None else left - (len(rows.lines) - begin)


def _grouped(parts: Iterator[Columns], n_rows: int) -> Iterator[Columns]:
    """Yield the columns of parts of ``n_rows`` rows together, and of the rest."""
    waiting, left = list[Columns](), n_rows
    for part in parts:
        waiting.append(part)
        left -= len(part["user"])
        if not left:
            yield _Joined(waiting, n_rows).columns()
            waiting, left = [], n_rows
    if waiting:
        yield _Joined(waiting).columns()


class _Run:
    """Parts of one kind that follow each other, as one array that grows: each is here once.

    There is room for ``n_rows`` from the start: only what is written takes memory.
    """

    def __init__(self, first: Any, n_rows: int) -> None:
        numbers = _numbers_of(first)
        self._like, self._array, self._n = first, numbers.copy(), len(numbers)
        if numbers.dtype != object and n_rows > len(numbers):
            with suppress(MemoryError):  # the estimate may be far from true
                self._array = np.empty(n_rows, numbers.dtype)
                self._array[: self._n] = numbers

    def add(self, part: Any) -> bool:
        """Append a part if it is of the same kind."""
        numbers, like = _numbers_of(part), self._like
        if type(part) is not type(like) or numbers.dtype != self._array.dtype:
            return False
        if numbers.dtype == object:  # an array of objects moves one by one
            return False
        if isinstance(part, Coded) and part.distinct is not like.distinct:
            return False
        if isinstance(part, Moments):
            begins_fractions = part.fraction is not None and like.fraction is None
            if begins_fractions or (part.kind, part.zones) != (like.kind, like.zones):
                return False
        end = self._n + len(numbers)
        if end > len(self._array):  # a large array moves without being copied
            self._array.resize(max(end, len(self._array) * 9 // 8), refcheck=False)
        self._array[self._n : end] = numbers
        self._n = end
        return True

    def whole(self) -> Any:
        """The parts as one, after which none is added."""
        self._array.resize(self._n, refcheck=False)
        if isinstance(self._like, Coded):
            return Coded(self._like.distinct, self._array)
        if isinstance(self._like, Moments):
            return self._like._replace(numbers=self._array)
        return self._array


class _Joined:
    """The columns of parts of a text, one after the other.

    Attributes
    ----------
    kind : TimeKind or None
        Of all timestamps.
    has_other_times : bool
        Whether some are read as another kind, or not at all.
    """

    def __init__(self, parts: Iterable[Columns], n_rows: int = 0) -> None:
        self._runs: dict[str, list[_Run]] = {}
        kinds, has_missing = set[TimeKind](), False
        for part in parts:
            for role, column in part.items():
                runs = self._runs.setdefault(role, [])
                if not (runs and runs[-1].add(column)):
                    runs.append(_Run(column, n_rows))
            if (when := part.get("timestamp")) is not None:
                kinds.add(when.kind)
                has_missing |= len(when.numbers) < len(part["user"])
        self.kind = widest(kinds)
        self.has_other_times = has_missing or len(kinds) > 1

    def columns(self) -> Columns:
        """The columns, after which no part is here."""
        joined: Columns = {}
        for role in list(self._runs):
            parts = [run.whole() for run in self._runs.pop(role)]
            if role == "timestamp":
                joined[role] = joined_moments(parts)
            elif len(parts) == 1:
                joined[role] = parts[0]
            else:
                joined[role] = np.concatenate(parts) if role == "value" else joined_parts(parts)
        return joined


def _numbers_of(part: Any) -> NDArray[Any]:
    if isinstance(part, Coded):
        return part.codes
    return part.numbers if isinstance(part, Moments) else part


def _told(error: BadRow, rows: Rows, role: str, form: TextFormat) -> InputValueError:
    """The error of a field, with its line, its column and its remedy."""
    field = rows.columns[role].text(error.row)
    told = in_column(error.what, role, form.columns[role], field)
    return told.within(f"line {rows.lines[error.row]}")


def _not_told(level: int, line: str) -> None:
    pass
