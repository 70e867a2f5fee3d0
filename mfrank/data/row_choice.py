"""The choice of rows to read by the values of their columns, and which of these no row has."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from numbers import Number
from typing import Any, Self
from unicodedata import normalize
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import is_number, shown
from mfrank.data.columns import WHERE, chooses_kinds, has_kinds
from mfrank.data.distinct import Coded
from mfrank.data.feature_columns import is_missing
from mfrank.data.labels import objects
from mfrank.data.notes import log as _log
from mfrank.data.notes import note_where
from mfrank.errors import InputError, InputTypeError, InputValueError, Notice

Where = Mapping[Any, Any]
"""Values of columns, each one value or several; other rows are not read."""

ReadWhere = Mapping[str, tuple[str, ...] | None]
"""Columns of a table with the values of the rows that were read; None for any value."""

ReadWeights = Mapping[str, float | None]
"""What an event of each kind counts; rows of None were left out. Empty if kinds have no weights."""

_MOST_KINDS = 100
"""More values of a column are no kinds of rows, and are not remembered."""
_SINGLE = str, bytes, Number, np.generic, date, time, timedelta, UUID, Enum
_OF_PANDAS = {"Interval", "Period"}
_MOST_OTHERS, _SHOWN = 1_000, 6
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9]*)\.[0-9]+")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))?(?:Z|\+00:00)?", re.ASCII
)


@dataclass(slots=True)
class _Values:
    """The wanted values of a column, as text.

    Attributes
    ----------
    wanted : set of str
    met : set of str
        Those that a row has.
    others : dict of str to None
        The first of the other values, in their order.
    """

    wanted: frozenset[str]
    met: set[str] = field(default_factory=set)
    others: dict[str, None] = field(default_factory=dict)

    def among(self, column: Any) -> NDArray[np.bool_]:
        """Whether each value of a column is wanted; a missing one is not."""
        distinct, codes = distinct_values(column)
        texts = [
            str(one) if type(one) is int else None if is_missing(one) else _plain(one)
            for one in distinct
        ]
        among = [text in self.wanted for text in texts]
        self.met.update(filter(None, itertools.compress(texts, among)))
        others = (text for text in texts if text is not None and text not in self.wanted)
        self.others.update(dict.fromkeys(itertools.islice(others, _MOST_OTHERS - len(self.others))))
        return np.array(among, bool)[codes]

    def near(self, text: str) -> str:
        """The nearest of the other values, in words, or some of them."""
        plain = {_letters(other): other for other in reversed(self.others)}
        if found := difflib.get_close_matches(_letters(text), plain, 1):
            near = plain[found[0]]
            look_alike = normalize("NFKC", text) == normalize("NFKC", near)
            one, other = map(ascii if look_alike else shown, (text, near))
            return f"nearest to {one} is {other}"
        if not self.others:
            return ""
        more = ", ..." * (len(self.others) > _SHOWN)
        return f"its values are {', '.join(map(shown, [*self.others][:_SHOWN]))}{more}"


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Rows are read only if each of these columns has one of its values, as text.

    It remembers which values were met in the rows that it chose from.
    """

    columns: Mapping[Hashable, _Values] = field(default_factory=dict)

    @classmethod
    def of(cls, where: Where | None) -> Self:
        """Check the argument ``where``.

        Raises
        ------
        ValueError, TypeError
            It is no mapping of columns to values.
        """
        if where is None:
            return cls()
        if not isinstance(where, Mapping) or not where:
            raise InputTypeError(
                f"`where` must be a mapping such as {{'event': 'purchase'}}, got {shown(where)}"
            )
        found = {column: _Values(_wanted(column, of)) for column, of in where.items()}
        for column, of in found.items():
            if isinstance(where[column], range):  # its ends are meant, not that all are there
                of.met |= of.wanted
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def roles(self) -> dict[str, Hashable]:
        """A role for each column."""
        names = (f"{WHERE} {number}" if number else WHERE for number in range(len(self.columns)))
        return dict(zip(names, self.columns, strict=True))

    def among(self, column: Hashable, values: Any) -> NDArray[np.bool_]:
        """Which values of a column are wanted."""
        return self.columns[column].among(values)

    def note(self) -> None:
        """Note the kinds of rows that are read."""
        for column, of in self.columns.items():
            if len(of.wanted) <= _MOST_KINDS and chooses_kinds(column):
                note_where(column, of.wanted)

    def told(self) -> list[Any]:
        """The columns and their values, as JSON."""
        return [[column, sorted(of.wanted)] for column, of in self.columns.items()]

    @property
    def facts(self) -> list[list[list[str]]]:
        """What was met so far, as JSON, for a run that resumes."""
        return [[sorted(of.met), [*of.others]] for of in self.columns.values()]

    def resume(self, facts: list[list[list[str]]]) -> None:
        """Go on after a run that met this."""
        for of, (met, others) in zip(self.columns.values(), facts, strict=True):
            of.met.update(met)
            of.others.update(dict.fromkeys(others))

    def tell_unmet(self) -> None:
        """Warn of values that no row has."""
        for column, of in self.columns.items():
            if unmet := sorted(of.wanted - of.met):
                more = f" and {len(unmet) - _SHOWN:,} more" * (len(unmet) > _SHOWN)
                near = "" if more else of.near(unmet[0])
                _log.warning(
                    Notice(
                        f"`where`: no row has {', '.join(map(shown, unmet[:_SHOWN]))}{more} in "
                        f"column {column!r}{f'; {near}' * bool(near)}"
                    )
                )

    def none_left(self) -> InputValueError:
        """The error of values of columns that leave out every row."""
        wanted = {column: sorted(of.wanted) for column, of in self.columns.items()}
        nears = [
            f"; in column {column!r}, {near}"
            for column, of in self.columns.items()
            if not of.met and (near := of.near(min(of.wanted)))
        ]
        return InputValueError(
            f"`where` leaves out all rows: none has {shown(wanted)}",
            f"values are compared as text, also in capitals{''.join(nears)}",
        )


def checked_where(where: Any) -> dict[str, tuple[str, ...] | None]:
    """What is known of the rows that were read, such as from a file, checked.

    Raises
    ------
    ValueError
        It does not have texts, or None, for columns.
    """
    if not isinstance(where, Mapping) or not all(
        isinstance(column, str) and (values is None or _are_texts(values))
        for column, values in where.items()
    ):
        raise InputValueError(f"`where` must have texts for columns, got {shown(where)}")
    return {column: None if of is None else tuple(of) for column, of in where.items()}


def checked_event_weights(weights: Any) -> dict[str, float | None]:
    """What an event of each kind counts, such as from a file, checked.

    Raises
    ------
    ValueError
        It does not have finite numbers, or None, for kinds.
    """
    if not isinstance(weights, Mapping) or not all(
        isinstance(kind, str) and (weight is None or is_number(weight))
        for kind, weight in weights.items()
    ):
        raise InputValueError(
            f"`event_weights` must have numbers or None for kinds, got {shown(weights)}"
        )
    return {kind: None if weight is None else float(weight) for kind, weight in weights.items()}


def kinds_read(where: ReadWhere) -> tuple[str, ...] | None:
    """The kinds of events by which rows were chosen; None if they were not chosen by these."""
    chosen = [values for column, values in where.items() if values and has_kinds(column)]
    return chosen[0] if chosen else None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(each, str) for each in values)


def joined_where(parts: Sequence[ReadWhere]) -> ReadWhere:
    """What is known of the rows of several data sets together."""
    known = [column for column in parts[0] if all(column in part for part in parts)]
    return {column: _all_of([part[column] for part in parts]) for column in known}


def _all_of(each: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    found = [values for values in each if values is not None]
    return tuple(sorted(set().union(*found))) if len(found) == len(each) else None


def _wanted(column: Hashable, given: Any) -> frozenset[str]:
    """The values of a column, which are one or several."""
    if isinstance(given, np.ndarray) and not given.ndim:
        given = given.item()
    several = isinstance(given, Iterable) and not isinstance(given, (Mapping, *_SINGLE))
    values = list(given) if several else [given]
    if several:  # those of Arrow
        values = [value.as_py() if hasattr(value, "as_py") else value for value in values]
    odd = [each for each in values if not _is_single(each) or is_missing(each)]
    if odd or not values:
        raise _no_value(column, odd[0] if odd else given)
    if len(values) > 2 and all(isinstance(value, bool | np.bool_) for value in values):
        raise InputValueError(
            f"`where` must have values of {column!r}, got {len(values):,} truth values:",
            "if they are of rows, choose these in the table, as in `frame[mask]`",
        )
    return frozenset(map(_plain, values))


def _is_single(value: Any) -> bool:
    return isinstance(value, _SINGLE) or type(value).__name__ in _OF_PANDAS


def _no_value(column: Hashable, odd: Any) -> InputError:
    remedy = "list the values that are wanted"
    if isinstance(odd, slice):
        remedy += ", as in range(1, 5)"
    elif callable(odd):
        remedy += ", or choose the rows of the table before, as in `frame[frame.price > 5]`"
    elif odd is None or (_is_single(odd) and is_missing(odd)):
        remedy = "rows without a value are chosen in the table, as in `frame[frame.event.isna()]`"
    return InputValueError(
        f"`where` must have one value or several of {column!r}, got {shown(odd)}:", remedy
    )


def distinct_values(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values, and for each row the position of its value."""
    # numpy would make text of all in a list that has some, and so of NaN.
    if isinstance(column, Coded):
        texts, numbers = column.present()
        places_of = np.empty(len(column.distinct), np.int64)
        places_of[numbers] = np.arange(len(numbers))
        return list(texts), column.mapped(places_of)
    column = np.asarray(column) if hasattr(column, "__array__") else objects(column)
    # Python would write 0.1 of single precision as 0.10000000149.
    if column.dtype.kind in "iumM" or column.dtype in (np.float16, np.float32):
        numbers, codes = np.unique(column, return_inverse=True)
        return numbers.tolist() if column.dtype.kind in "iu" else list(numbers), codes
    places = dict[Any, int]()
    codes = np.fromiter(
        (places.setdefault(value, len(places)) for value in column.tolist()), np.int64, len(column)
    )
    return list(places), codes


def _letters(text: str) -> str:
    """For comparison: without capitals and marks."""
    return "".join(filter(str.isalnum, text.casefold())) or text


def _plain(value: object) -> str:
    """As text; 5.0 of one format is 5 of another, and midnight is a date."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    if isinstance(value, np.timedelta64):
        value = value.astype("m8[us]").item()
    if isinstance(value, timedelta):  # pandas writes its own in another way
        value = timedelta(value.days, value.seconds, value.microseconds)
    text = as_kind(value)
    if "." in text and _DECIMAL.fullmatch(text):
        return text.rstrip("0").rstrip(".")
    if text[4:5] == "-" and (found := _MOMENT.fullmatch(text)):
        day, minute, second, fraction = found.groups(default="")
        fraction = fraction.rstrip("0")
        of_day = f"{minute}{second or ':00'}{'.' * bool(fraction)}{fraction}"
        return day if of_day == "00:00:00" else f"{day} {of_day}"
    return text


def as_kind(kind: object) -> str:
    """A kind of event as text: 1, 1.0 and "1" are the same."""
    if isinstance(kind, Enum):
        kind = kind.value
    if isinstance(kind, bytes):
        return kind.decode(errors="backslashreplace")  # two kinds are never the same text
    whole = isinstance(kind, float | np.floating) and kind.is_integer()
    return str(int(kind)) if whole else str(kind)  # type: ignore[call-overload]
