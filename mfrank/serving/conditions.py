"""Columns of a table of items, and conditions on them such as ``year>=1990``.

========================================  ==================================================
column                                    conditions
========================================  ==================================================
numbers                                   ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``
dates, also with a time of day            the same; a date without a time is the whole day
true and false                            ``=``, ``!=``
texts, and numbers beyond 2^53            ``=``, ``!=``
lists, and texts of which one has a |     ``=``: has one of these; ``!=``: has none of these
========================================  ==================================================

After ``=`` and ``!=`` there may be several values with commas between them, of which any counts. No
condition holds where a value is missing.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import shown
from mfrank.data import epoch_seconds, is_missing, objects
from mfrank.errors import InputTypeError, InputValueError

Kind = Literal["number", "date", "truth", "text", "list"]
_BETWEEN = "|"
_OPERATOR = re.compile(r"\s*(!=|<=|>=|=|<|>)")
_DAY = 86_400
_EXACT = 2**53
"""Up to this number, floats tell all whole numbers apart."""
_DATED = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_CLOCK = re.compile(r"\d:\d|T\d")
_MOST_COMPARED = 10_000
"""Values of a column among which a misspelled one is looked for, in some milliseconds."""
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
TRUTHS = {"true": True, "false": False}


class _Range(NamedTuple):
    """A number, a point in time, or the seconds of a day: from ``first`` to ``last``."""

    first: float
    last: float


@dataclass(frozen=True, slots=True, eq=False)
class ItemColumn:
    """A column, with a value for each item of a model.

    Attributes
    ----------
    name : str
    kind : {"number", "date", "truth", "text", "list"}
    given : object, shape (n_items,)
        The values as they were given; None if missing.
    first, last : float64 or int64, shape (n_items,)
        Of numbers and dates: the number, or the first and the last second; 0 if missing.
    places : mapping of value to int64 array
        Of the other kinds: the rows of the items that have a value.
    present : bool, shape (n_items,)
        Where there is a value.
    """

    name: str
    kind: Kind
    given: NDArray[Any]
    present: NDArray[np.bool_]
    first: NDArray[Any]
    last: NDArray[Any]
    places: Mapping[Any, NDArray[np.int64]]

    @classmethod
    def of(cls, name: str, values: NDArray[Any], texts: NDArray[Any] | None = None) -> ItemColumn:
        """Read a column; ``texts`` are its fields where it is of a text file.

        Raises
        ------
        TypeError
            It has values of several types, or of another type.
        """
        if values.dtype.kind == "M":
            values = values.astype("M8[s]")  # which become datetimes
        given = objects(None if is_missing(each) else each for each in values.tolist())
        present = np.array([each is not None for each in given], dtype=bool)
        there = given[present].tolist()
        kind = kind_of(name, there)
        if kind == "number" and max(map(abs, there), default=0) > _EXACT:
            # Codes, of which floats would make several one: compared and told as they are written.
            there = texts[present].tolist() if texts is not None else list(map(str, there))
            given[present], kind = objects(there), "text"
        first = last = np.empty(0)
        places: dict[Any, NDArray[np.int64]] = {}
        if kind == "number":
            first = last = np.zeros(len(given))
            first[present] = np.asarray(there, dtype=np.float64)
            if texts is not None:
                given[present] = [_number(text) for text in texts[present].tolist()]
            elif (first == np.floor(first)).all():  # which a missing value may have made floats
                given[present] = [int(each) for each in there]
        elif kind == "date":
            first, last = np.zeros(len(given), np.int64), np.zeros(len(given), np.int64)
            first[present], last[present] = _seconds(there)
            given[present] = [_dated(each) for each in there]
        else:
            lists = [_values(kind, each) for each in there]
            given[present] = objects(lists if kind == "list" else [each for (each,) in lists])
            places = _places(np.flatnonzero(present), lists)
        return cls(name, kind, given, present, first, last, places)

    def aligned(self, rows: NDArray[np.int64]) -> ItemColumn:
        """The column of other items: ``rows`` are their rows here, -1 for those without one."""
        there = rows >= 0
        given = np.full(len(rows), None, dtype=object)
        given[there] = self.given[rows[there]]
        present = np.zeros(len(rows), bool)
        present[there] = self.present[rows[there]]
        ends = []
        for each in (self.first, self.last):
            moved = np.zeros(len(rows), each.dtype)
            if len(each):
                moved[there] = each[rows[there]]
            ends.append(moved)
        of_row = np.full(len(self.given) + 1, -1)
        of_row[rows[there]] = np.flatnonzero(there)
        places = {
            value: np.sort(of_row[own][of_row[own] >= 0]) for value, own in self.places.items()
        }
        return ItemColumn(self.name, self.kind, given, present, ends[0], ends[1], places)

    def passing(self, operator: str, values: Sequence[str]) -> NDArray[np.bool_]:
        """Which items a condition holds for, bool (n_items,).

        Raises
        ------
        ValueError
            The column has no such condition, or a value cannot be read.
        """
        ordered = operator not in ("=", "!=")
        if ordered and self.kind not in ("number", "date"):
            what = {"truth": "true and false", "text": "texts", "list": "lists"}[self.kind]
            raise InputValueError(
                f"`where`: column {self.name!r} has {what}, which have no order:", "use = or !="
            )
        if ordered and len(values) > 1:
            raise InputValueError(f"`where`: {self.name}{operator} takes one value, got {values}")
        held = np.zeros(len(self.given), dtype=bool)
        for value in values:
            held |= self._held(operator, self._read(value))
        return held & self.present if operator != "!=" else self.present & ~held

    def _read(self, text: str) -> Any:
        """A value of a condition, as the column has them."""
        try:
            if self.kind == "number":
                number = float(text)
                if not math.isfinite(number):
                    raise ValueError
                return _Range(number, number)
            if self.kind == "date":
                if not looks_dated(text):
                    raise ValueError
                first, last = _seconds([text])
                return _Range(int(first[0]), int(last[0]))
            if self.kind == "truth":
                return TRUTHS[text.strip().lower()]
        except (KeyError, ValueError):
            what = {
                "number": "numbers, such as 3.5",
                "date": "dates, such as 2024-01-31",
                "truth": "true and false",
            }[self.kind]
            raise InputValueError(
                f"`where`: column {self.name!r} has {what}; got {shown(text)}"
            ) from None
        value = text.strip()
        if value not in self.places:
            self._refuse_misspelled(value)
        return value

    def _refuse_misspelled(self, value: str) -> None:
        """Raise ValueError for a value that no item has, if one is spelled nearly so."""
        if self.kind == "list" and _BETWEEN in value:
            raise InputValueError(
                f"`where`: {shown(value)} is no value of column {self.name!r}, which has lists:",
                f"write {self.name}={','.join(value.split(_BETWEEN))} for items with any of these",
            )
        if len(self.places) > _MOST_COMPARED:
            return
        for known in self.places:
            if _bare(known) == _bare(value):
                raise InputValueError(
                    f"`where`: no item has {shown(value)} in column {self.name!r}:",
                    f"write {shown(known)}, which some have",
                )

    def _held(self, operator: str, value: Any) -> NDArray[np.bool_]:
        if not isinstance(value, _Range):
            held = np.zeros(len(self.given), dtype=bool)
            held[self.places.get(value, [])] = True
            return held
        if operator in ("=", "!="):
            return np.asarray((self.first >= value.first) & (self.last <= value.last))
        if operator == ">=":
            return np.asarray(self.first >= value.first)
        if operator == ">":
            return np.asarray(self.first > value.last)
        if operator == "<=":
            return np.asarray(self.last <= value.last)
        return np.asarray(self.last < value.first)


def kind_of(name: str, there: Sequence[Any]) -> Kind:
    """What the values of a column are, of which none is missing."""
    if all(isinstance(each, bool | np.bool_) for each in there):
        return "truth" if there else "text"
    if all(isinstance(each, int | float | np.number) for each in there):
        return "number"
    if all(isinstance(each, str) for each in there):
        if {each.strip().lower() for each in there} <= set(TRUTHS):
            return "truth"
        if _are_dates(there):
            return "date"
        return "list" if any(_BETWEEN in each for each in there) else "text"
    if all(isinstance(each, date) for each in there):
        return "date"
    if all(isinstance(each, list | tuple | np.ndarray) for each in there):
        return "list"
    odd = next((each for each in there if type(each) is not type(there[0])), there[0])
    raise InputTypeError(
        f"`items`: column {name!r} must hold numbers, texts, dates, truth values or lists of "
        f"texts, got {shown(odd)}",
        "convert it, or leave the column out",
    )


def looks_dated(text: str) -> bool:
    """Whether a text begins as a date does, such as 2024-01-31 or 31.1.2024."""
    return _DATED.match(text) is not None


def _are_dates(texts: Sequence[str]) -> bool:
    if not all(map(looks_dated, texts)):
        return False
    try:
        epoch_seconds(texts)
    except (TypeError, ValueError):
        return False
    return True


def _seconds(there: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last second of dates; those of a time of day are the same.

    Tables of numpy and pandas have a time of day in every date; if all are midnight, none was
    given.
    """
    first = epoch_seconds(list(map(_dated, there)))
    has_clock = np.array([bool(_CLOCK.search(_dated(each))) for each in there], dtype=bool)
    if all(isinstance(each, datetime) for each in there) and not (first % _DAY).any():
        has_clock[:] = False
    return first, first + np.where(has_clock, 0, _DAY - 1)


def _dated(value: Any) -> str:
    """A date as text, without a time of day if it has none."""
    return value.strip() if isinstance(value, str) else str(value.isoformat())


def _number(text: str) -> int | float:
    """A number of a text file as its writer meant it: 1979 is a whole number, 9.0 is not."""
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def _bare(value: str) -> str:
    """A text without that in which spellings differ.

    That is capitals, blanks, the form of Unicode, zeros before a number, and quotes around it.
    """
    bare = "".join(normalize("NFKC", value).casefold().split()).strip("'\"=") or value
    return str(int(bare)) if bare.isascii() and bare.isdecimal() else bare


def _values(kind: Kind, value: Any) -> list[Any]:
    if kind == "truth":
        return [TRUTHS[value.strip().lower()] if isinstance(value, str) else bool(value)]
    if kind == "text":
        return [value.strip()]
    parts = value.split(_BETWEEN) if isinstance(value, str) else map(str, value)
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _places(
    rows: NDArray[np.int64], lists: Sequence[Sequence[Any]]
) -> dict[Any, NDArray[np.int64]]:
    """The rows of each value, ascending."""
    places: dict[Any, list[int]] = {}
    for row, values in zip(rows.tolist(), lists, strict=True):
        for value in values:
            places.setdefault(value, []).append(row)
    return {value: np.array(own) for value, own in places.items()}


class Condition(NamedTuple):
    """A condition on a column, such as ``genres=Comedy,Drama``."""

    column: str
    operator: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, text: str, columns: Mapping[str, ItemColumn]) -> Condition:
        """Read a condition; the longest name of a column that it begins with counts.

        Raises
        ------
        ValueError
            It does not begin with a column and one of the operators, or has no value.
        """
        for name in sorted(columns, key=len, reverse=True):
            if text.startswith(name) and (found := _OPERATOR.match(text, len(name))):
                values = tuple(_parts(text[found.end() :]))
                if not any(value.strip() for value in values):
                    raise InputValueError(f"`where`: a value is missing after {shown(text)}")
                return cls(name, found[1], values)
        raise InputValueError(
            "`where` must be a column, one of = != < <= > >=, and a value, such as year>=1990; "
            f"got {shown(text)}; the columns are {', '.join(map(repr, columns))}"
        )


def refuse_contrary(
    conditions: Sequence[Condition],
    columns: Mapping[str, ItemColumn],
    held: Sequence[NDArray[np.bool_]],
) -> None:
    """Raise ValueError for two values of a column that no item has at once, unlike each of them.

    ``held`` has the items of each condition. A column of lists may have both.
    """
    first = dict[str, int]()
    for place, (name, operator, values) in enumerate(conditions):
        if operator != "=" or columns[name].kind == "list":
            continue
        other = first.setdefault(name, place)
        if held[other].any() and held[place].any() and not (held[other] & held[place]).any():
            either = ",".join([*conditions[other].values, *values])
            raise InputValueError(
                f"`where`: no item has two values of column {name!r} at once:",
                f"write {name}={either} for items with any of these",
            )


def _parts(text: str) -> list[str]:
    """The values of a list with commas, of which some may be quoted."""
    (row,) = csv.reader([text.replace("\n", " ").replace("\r", " ")], skipinitialspace=True)
    return row
