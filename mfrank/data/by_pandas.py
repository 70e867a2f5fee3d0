"""Delimited text read with pandas: the standard library's result, several times faster, or None.

The result is None, and the standard library reads the file, if anything is wrong, missing or
unusual: pandas pads short rows, does not report line numbers, and reads ``007`` as the number 7.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.columns import IdsAs, as_text, parsed
from mfrank.data.layouts import Layout
from mfrank.data.text_files import AS_USUAL, LONGEST_LINE, Quotes, Tell
from mfrank.data.time_units import Moments, TimeKind
from mfrank.data.times import moments

_Lines = Callable[[], IO[str]]

_LONGER = "S21"  # one byte longer than any int64 in decimal
_POWERS = 10 ** np.arange(1, 19)
_ZERO_FIRST = re.compile(r"0(?<![0-9.]0)[0-9]")


class OddError(ValueError):
    """Text that pandas might read differently from the standard library."""


class _Readable:
    """A text file for pandas that raises on characters which pandas reads differently.

    pandas ends words at a NUL, drops a second byte order mark, and loses fields after a blank line
    that ends in a lone carriage return.

    Attributes
    ----------
    is_plain : bool
        Whether all integers read so far are certainly spelled as Python prints them: there is no
        leading 0, no -0, no +, and no quote or white space besides the separator.
    """

    def __init__(self, text: IO[str], layout: Layout) -> None:
        self.is_plain = True
        self.quotes = Quotes(layout.separator, layout.quote, layout.width)
        self._text, self._tail, self._run = text, "\n", 0
        marks = {*'"+ \t\v\f', *(self.quotes.mark or "")}
        self._marks = ["-0", *(marks - {layout.separator})]

    def read(self, size: int) -> str:
        part = self._text.read(size)
        if part.endswith("\r"):
            part += self._text.read(1)
        lone = "\r" in part and part.count("\r") > part.count("\r\n")
        if lone or "\0" in part or "\ufeff" in part:
            raise OddError("a character that pandas may not keep")
        ends = part.find("\n")
        if self._run + (len(part) if ends < 0 else ends) > LONGEST_LINE:
            raise OddError("a line that pandas would take into memory")
        self._run = self._run + len(part) if ends < 0 else len(part) - part.rfind("\n") - 1
        self.quotes.scan(part)
        if self.is_plain:
            seen = self._tail + part  # a match may span two parts
            self._tail = seen[-2:]
            marked = any(mark in seen for mark in self._marks)
            self.is_plain = not marked and _ZERO_FIRST.search(seen, 1) is None
        return part

    def __iter__(self) -> Iterator[str]:  # pandas requires it of a file
        return iter(self._text)


def read(lines: _Lines, layout: Layout, ids: IdsAs, tell: Tell) -> dict[str, Any] | None:
    """Role -> values, or None if the standard library must read the file.

    Timestamps are :class:`Moments`, whose unit is not yet determined.
    """
    import pandas

    try:
        with lines() as text:
            readable = _Readable(text, layout)
            frame = _frame(readable, layout)
        _refuse_holes(frame, layout)
        columns = {role: frame.iloc[:, at] for role, at in layout.fields.items()}
        found = {role: _READ[role](column) for role, column in columns.items() if role in _READ}
        for role in ("user", "item"):
            column = columns[role]
            if _is_text(column):
                found[role] = np.asarray(column, dtype=object)
            elif readable.is_plain and ids == "auto" and column.dtype.kind == "i":
                found[role] = np.asarray(column, dtype=np.int64)
        rest = {role: column for role, column in columns.items() if role not in found}
        found |= _as_spelled(rest, lines, layout, ids)
        readable.quotes.told(tell)
        return {role: found[role] for role in columns}
    except (ValueError, pandas.errors.ParserWarning):
        return None


def portions(
    lines: _Lines, layout: Layout, ids: IdsAs, n_rows: int, times: TimeKind | None, tell: Tell
) -> Iterator[tuple[dict[str, NDArray[Any]], Moments | None]]:
    """Yield the columns of ``n_rows`` rows at a time, and their timestamps.

    The result for a column depends only on its portion and on ``times``, the kind of all
    timestamps; with None, each portion uses its own kind.

    Raises
    ------
    OddError
        The standard library must read the next portion.
    """
    import pandas

    spelled = set[str]()
    done = 0
    while True:
        try:
            for frame, readable in islice(_frames(lines, layout, n_rows, spelled), done, None):
                _refuse_holes(frame, layout)
                portion = _portion(frame, layout, ids, times, spelled, readable.is_plain)
                yield portion
                done += 1
            if done:
                readable.quotes.told(tell)
            return
        except _AsSpelledError as error:  # from this portion on
            spelled.add(str(error))
        except OddError:
            raise
        except (ValueError, pandas.errors.ParserWarning) as error:
            raise OddError(str(error)) from error


class _AsSpelledError(Exception):
    """The column of this role has to be read as text."""


def _frames(
    lines: _Lines, layout: Layout, n_rows: int, spelled: set[str]
) -> Iterator[tuple[Any, _Readable]]:
    """Frames of rows whose columns are numbered, some of them read as text."""
    with lines() as text:
        readable = _Readable(text, layout)
        as_text = {layout.fields[role]: str for role in spelled if role in layout.fields}
        names = range(layout.width)
        with _frame(readable, layout, chunksize=n_rows, names=names, dtype=as_text) as frames:
            while True:
                with _strictly():
                    frame = next(frames, None)
                if frame is None:
                    return
                yield frame, readable


def _portion(
    frame: Any,
    layout: Layout,
    ids: IdsAs,
    times: TimeKind | None,
    spelled: set[str],
    is_plain: bool,
) -> tuple[dict[str, NDArray[Any]], Moments | None]:
    found: dict[str, NDArray[Any]] = {}
    when: Moments | None = None
    for role, at in layout.fields.items():
        column = frame.iloc[:, at]
        if role == "value":
            found[role] = _values(column)
        elif role == "timestamp":
            when = _times(column, times)
        elif role in spelled:
            found[role] = parsed(role, column.tolist(), ids)
        elif _is_text(column):
            found[role] = np.asarray(column, dtype=object)
        elif is_plain and column.dtype.kind == "i":
            numbers = np.asarray(column, dtype=np.int64)
            found[role] = numbers if ids == "auto" else as_text(numbers)
        else:
            raise _AsSpelledError(role)
    return found, when


def _times(column: Any, kind: TimeKind | None) -> Moments:
    """The timestamps of a portion, as those of a column of ``kind``."""
    if kind == "number" and column.dtype.kind in "iu":
        column = column.astype(np.float64)
    when = _timestamps(column)
    if kind not in (None, when.kind):
        raise OddError("timestamps of another kind")
    return when


def _frame(readable: Any, layout: Layout, **how: Any) -> Any:
    """Read the whole file; raise ValueError or ParserWarning if pandas cannot."""
    import pandas

    if pandas.__version__ < "3":
        how["float_precision"] = "round_trip"  # the default of pandas 2 is inexact
    with _strictly():
        return pandas.read_csv(
            readable,
            sep=layout.separator,
            header=0 if layout.has_header else None,
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,  # "NA" may be an id
            na_values=[""],
            quoting=csv.QUOTE_NONE if layout.quote is None else csv.QUOTE_MINIMAL,
            quotechar='"' if layout.quote in (None, AS_USUAL) else layout.quote,
            low_memory=False,  # a column has one type, not one for each chunk
            **how,
        )


@contextmanager
def _strictly() -> Iterator[None]:
    """Raise what pandas warns about: it drops fields beyond those of the first row."""
    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        yield


def _refuse_holes(frame: Any, layout: Layout) -> None:
    """Raise if there are no rows, or a row has an empty field or too few fields."""
    if not len(frame) or frame.shape[1] != layout.width:
        raise OddError("no rows, or rows of another width")
    # A short row has a hole in the last column. Among integers beyond int64 a hole is read as "".
    columns = [frame.iloc[:, at] for at in {*layout.fields.values(), layout.width - 1}]
    if any(column.isna().any() or column.eq("").any() for column in columns):
        raise OddError("an empty field")
    users, items = (frame.iloc[:, layout.fields[role]] for role in ("user", "item"))
    if layout.has_header and _is_text(users) and _is_text(items):
        names = layout.column("user"), layout.column("item")
        if (users.eq(names[0]) & items.eq(names[1])).any():
            raise OddError("the header again")


def _values(column: Any) -> NDArray[np.float64]:
    if column.dtype.kind not in "biuf" or not np.isfinite(column).all():
        raise OddError("values that are not finite numbers")
    return np.asarray(column, dtype=np.float64)


def _timestamps(column: Any) -> Moments:
    kind = column.dtype.kind
    if kind == "b":
        raise OddError("timestamps that are not times")
    return moments(np.asarray(column) if kind in "iuf" else np.asarray(column, dtype=object))


_READ: dict[str, Callable[[Any], Any]] = {"value": _values, "timestamp": _timestamps}


def _as_spelled(
    columns: dict[str, Any], lines: _Lines, layout: Layout, ids: IdsAs
) -> dict[str, NDArray[Any]]:
    """Columns of ids that pandas read as numbers: int64 if spelled canonically, else text."""
    found: dict[str, NDArray[Any]] = {}
    whole = [role for role, c in columns.items() if ids == "auto" and c.dtype.kind == "i"]
    for role, spelled in _again(whole, _LONGER, lines, layout).items():
        numbers = np.asarray(columns[role], dtype=np.int64)
        if _are_canonical(numbers, np.asarray(spelled, dtype=_LONGER)):
            found[role] = numbers
    rest = [role for role in columns if role not in found]
    texts = _again(rest, str, lines, layout)
    return found | {role: parsed(role, text.tolist(), ids) for role, text in texts.items()}


def _again(roles: list[str], dtype: Any, lines: _Lines, layout: Layout) -> dict[str, Any]:
    """Read the columns of these roles again, in this dtype."""
    if not roles:
        return {}
    ordered = sorted(roles, key=layout.fields.__getitem__)  # the order of the frame
    fields = [layout.fields[role] for role in ordered]
    with lines() as text:
        frame = _frame(text, layout, usecols=fields, dtype=dtype)
    return {role: frame.iloc[:, at] for at, role in enumerate(ordered)}


def _is_text(column: Any) -> bool:
    from pandas.api.types import infer_dtype

    return bool(infer_dtype(column, skipna=False) == "string")


def _are_canonical(numbers: NDArray[np.int64], spelled: NDArray[np.bytes_]) -> bool:
    """Whether every field is spelled as Python prints its number.

    Any other spelling is longer, so it is enough to compare the total lengths.
    """
    sizes = np.abs(numbers)
    powers = _POWERS[: np.searchsorted(_POWERS, sizes.max(), side="right")]
    length = len(numbers) + np.count_nonzero(numbers < 0)
    length += sum(np.count_nonzero(sizes >= power) for power in powers)
    return bool(length == np.count_nonzero(spelled.view(np.uint8)))
