"""Delimited text by pandas, several times sooner: as the standard library reads it, or not at all.

Where anything is wrong, missing or odd pandas has no say: it fills up short rows, tells no lines,
and takes ``007`` for the number 7.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.columns import epoch_seconds
from mfrank.data.fields import IdsAs, parsed
from mfrank.data.layouts import Layout

__all__ = ["read"]

_Lines = Callable[[], IO[str]]

_LONGER = "S21"  # by a byte than any int64 is spelled
_POWERS = 10 ** np.arange(1, 19)
_ZERO_FIRST = re.compile(r"0(?<![0-9.]0)[0-9]")


class _OddError(ValueError):
    """Something that pandas might read in another way than the standard library."""


class _Readable:
    """Text for pandas without what it reads in its own way.

    It ends words at a NUL, drops a second byte order mark, and loses fields after a blank line that
    ends in a lone carriage return.

    Attributes
    ----------
    is_plain : bool
        Whether whatever was read as a whole number is spelled as Python prints it, as far as that
        is seen at once: nowhere does a number begin with 0 or a sign but -, or may spaces be in it.
    """

    def __init__(self, text: IO[str], separator: str) -> None:
        self.is_plain = True
        self._text, self._tail = text, "\n"
        self._marks = ["-0", *({*'"+ \t\v\f'} - {separator})]

    def read(self, size: int = -1) -> str:
        part = self._text.read(size)
        if part.endswith("\r"):
            part += self._text.read(1)
        lone = "\r" in part and part.count("\r") > part.count("\r\n")
        if lone or "\0" in part or "\ufeff" in part:
            raise _OddError("a character that pandas may not keep")
        if self.is_plain:
            seen = self._tail + part  # what is between two parts too
            self._tail = seen[-2:]
            marked = any(mark in seen for mark in self._marks)
            self.is_plain = not marked and _ZERO_FIRST.search(seen, 1) is None
        return part

    def __iter__(self) -> Iterator[str]:  # by which pandas knows what can be read
        return iter(self._text)


def read(lines: _Lines, layout: Layout, ids: IdsAs) -> dict[str, NDArray[Any]] | None:
    """Role -> values, or None where the standard library is to read."""
    import pandas

    try:
        with lines() as text:
            readable = _Readable(text, layout.separator)
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
        return {role: found[role] for role in columns}
    except (ValueError, pandas.errors.ParserWarning):
        return None


def _frame(readable: Any, layout: Layout, **how: Any) -> Any:
    """The whole file; ValueError or ParserWarning where pandas stumbles."""
    import pandas

    if pandas.__version__ < "3":
        how["float_precision"] = "round_trip"  # by default roundings off, up to pandas 2
    with warnings.catch_warnings():
        # Of fields beyond those of the first row, which it would drop.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(
            readable,
            sep=layout.separator,
            header=0 if layout.has_header else None,
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,  # someone may be called "NA"
            na_values=[""],
            low_memory=False,  # a column has one type, not one for each chunk
            **how,
        )


def _refuse_holes(frame: Any, layout: Layout) -> None:
    """Raise where there is no row, or one with an empty field or too few of them."""
    if not len(frame) or frame.shape[1] != layout.width:
        raise _OddError("no rows, or rows of another width")
    # A row that ends early shows in the last column. Beside numbers beyond int64 holes are "".
    columns = [frame.iloc[:, at] for at in {*layout.fields.values(), layout.width - 1}]
    if any(column.isna().any() or column.eq("").any() for column in columns):
        raise _OddError("an empty field")


def _values(column: Any) -> NDArray[np.float64]:
    if column.dtype.kind not in "biuf" or not np.isfinite(column).all():
        raise _OddError("values that are no finite numbers")
    return np.asarray(column, dtype=np.float64)


def _timestamps(column: Any) -> NDArray[np.int64]:
    kind = column.dtype.kind
    if kind == "b":
        raise _OddError("timestamps that are no times")
    return epoch_seconds(np.asarray(column) if kind in "iuf" else np.asarray(column, dtype=object))


_READ: dict[str, Callable[[Any], NDArray[Any]]] = {"value": _values, "timestamp": _timestamps}


def _as_spelled(
    columns: dict[str, Any], lines: _Lines, layout: Layout, ids: IdsAs
) -> dict[str, NDArray[Any]]:
    """Columns of ids, which pandas did not take for text, as what the file has there."""
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
    """Columns read in a dtype."""
    if not roles:
        return {}
    ordered = sorted(roles, key=layout.fields.__getitem__)  # as pandas gives them
    fields = [layout.fields[role] for role in ordered]
    with lines() as text:
        frame = _frame(text, layout, usecols=fields, dtype=dtype)
    return {role: frame.iloc[:, at] for at, role in enumerate(ordered)}


def _is_text(column: Any) -> bool:
    from pandas.api.types import infer_dtype

    return bool(infer_dtype(column, skipna=False) == "string")


def _are_canonical(numbers: NDArray[np.int64], spelled: NDArray[np.bytes_]) -> bool:
    """Whether all fields that were read as numbers are spelled as Python prints these.

    Any other spelling of a number is longer.
    """
    sizes = np.abs(numbers)
    powers = _POWERS[: np.searchsorted(_POWERS, sizes.max(), side="right")]
    length = len(numbers) + np.count_nonzero(numbers < 0)
    length += sum(np.count_nonzero(sizes >= power) for power in powers)
    return bool(length == np.count_nonzero(spelled.view(np.uint8)))
