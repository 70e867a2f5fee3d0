"""Valid ids: integers, strings and other hashables, by one rule for every argument with ids.

- Whole numbers of any type become int64: integers of Python or numpy, floats such as 1.0 (pandas
  turns a column of integers with missing values into floats), ``Decimal(1)``, and zero-dimensional
  arrays. So 1, 1.0 and ``np.int8(1)`` are the same id, even if the ids of a model happen to be
  0..n-1. Floats that may have been rounded raise: from 2^24 on in float32, from 2^11 on in float16,
  above 2^53 in float64.
- Text stays text: 1 and "1" are two ids. Bytes become UTF-8 text; UUIDs become text.
- Other hashables, such as tuples, are unchanged; a model with such ids cannot be saved.
- These raise, in queries and in data: numbers that are not whole or do not fit int64, missing
  values (None, NaN, NA, NaT), booleans, dates, and bytes that are not UTF-8. A valid id that the
  data lack is unknown, whatever its type.

Arrays, lists, ranges, columns of data frames and iterators are read in order. Sets, which have no
order, and mappings, which are ambiguous, raise. Text files have their own rules
(:mod:`mfrank.data.columns`); :mod:`mfrank.data.odd_ids` warns about ids that may be misread.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from numbers import Number, Rational, Real
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import distinct, shown, to_host
from mfrank.arrays import ext as _ext
from mfrank.errors import InputTypeError, InputValueError

RawIds = ArrayLike | Iterable[Hashable]
"""Accepted as ids: an array, a column of a data frame, or any ordered iterable of hashables."""

_is_native: bool = _ext is not None
_INTEGERS = {int, *(np.dtype(code).type for code in "bhilqBHILQ")}
_DATES = date | timedelta | np.datetime64 | np.timedelta64  # datetimes and pandas' are subclasses


def canonical(raw: RawIds, first_row: int = 0) -> NDArray[Any]:
    """Check ids and convert them to an int64 or object array; see the module.

    An object array contains int, str and other hashables, at least one of them not an int. Errors
    count rows from ``first_row``.
    """
    if type(raw) is list and {*map(type, raw)} == {int}:  # without the checks of single objects
        return _from_integers(raw)
    labels = _one_dimensional(raw)
    kind = labels.dtype.kind
    if kind == "i":
        return labels.astype(np.int64, copy=False)
    if kind == "u":
        return _from_unsigned(labels)
    if kind == "f":
        return _from_floats(labels, first_row)
    if kind in "USTO":
        return _from_objects(labels.astype(object, copy=False), first_row)
    raise InputTypeError(
        f"ids must be whole numbers or strings, got dtype {labels.dtype}",
        "convert them to text, or is this another column?",
    )


def number(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """The distinct labels in ascending order, and the position of every label in them."""
    lowest, highest = (int(labels.min()), int(labels.max())) if len(labels) else (0, 2**63)
    if (span := highest - lowest + 1) <= min(4 * len(labels), 2**31 - 1):
        # Dense labels, the usual case, are counted rather than sorted.
        there = present(labels, lowest, span)
        return np.flatnonzero(there) + lowest, looked_up(labels, lowest, positions(there))
    ascending = distinct(labels)
    return ascending, np.searchsorted(ascending, labels)


def present(numbers: NDArray[Any], lowest: int, span: int) -> NDArray[np.bool_]:
    """Which of ``span`` numbers from ``lowest`` on occur."""
    there = np.zeros(span, dtype=bool)
    if _is_native and numbers.flags.c_contiguous:
        _ext.mark_numbers(numbers, lowest, there)
    else:
        there[numbers - lowest] = True
    return there


def positions(there: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The position of each among those that are there."""
    return np.cumsum(there, dtype=np.int32) - np.int32(1)


def looked_up(numbers: NDArray[Any], lowest: int, table: NDArray[np.int32]) -> NDArray[np.int32]:
    """What the table has for each number, from ``lowest`` on."""
    found = np.empty(len(numbers), np.int32)
    if _is_native and numbers.flags.c_contiguous:
        _ext.look_up_numbers(numbers, lowest, table, found)
    else:
        found[:] = table[numbers - lowest]
    return found


def _one_dimensional(raw: RawIds) -> NDArray[Any]:
    raw = to_host(raw, "ids")
    if isinstance(raw, str | bytes) or not isinstance(raw, Iterable):
        raise InputTypeError(
            f"expected a list or array of ids, got a single {shown(raw)}", "wrap it in a list"
        )
    if isinstance(raw, set | frozenset | Mapping):
        raise InputTypeError(
            f"ids must be in an order, got a {type(raw).__name__}",
            "pass a list, such as list(ids)",
        )
    # A plain list must not reach np.asarray: it would turn [1, "a"] into strings.
    labels = np.asarray(raw) if hasattr(raw, "__array__") else objects(raw)
    if labels.ndim != 1:
        raise InputValueError(
            f"expected ids in one dimension, got shape {labels.shape}", "pass a list"
        )
    return labels


def objects(items: Iterable[Any]) -> NDArray[Any]:
    """A one-dimensional object array of any items (tuples stay tuples)."""
    return np.fromiter(items, dtype=object)


def _from_unsigned(labels: NDArray[Any]) -> NDArray[np.int64]:
    if len(labels) and labels.max() > np.iinfo(np.int64).max:
        raise InputValueError(*_too_long(labels.max()))
    return labels.astype(np.int64)


def _from_floats(labels: NDArray[Any], first_row: int) -> NDArray[np.int64]:
    missing = np.isnan(labels)  # first, because it made floats of whole numbers
    if missing.any():
        row = int(np.argmax(missing))
        raise InputValueError(*_missing(labels[row], first_row + row, int(missing.sum())))
    bad = ~(np.abs(labels.astype(np.float64)) <= _exact(labels.dtype)) | (
        labels != np.round(labels)
    )
    if bad.any():
        row = int(np.argmax(bad))
        raise InputValueError(*_not_whole(labels[row], first_row + row))
    return labels.astype(np.int64)


def _from_objects(labels: NDArray[Any], first_row: int) -> NDArray[Any]:
    types = set(map(type, labels))
    if types == {str}:
        return labels
    if not types <= _INTEGERS:
        labels = objects(_plain(label, row, labels) for row, label in enumerate(labels, first_row))
        types = set(map(type, labels))
    return _from_integers(labels) if types <= _INTEGERS else labels


def _from_integers(labels: Any) -> NDArray[np.int64]:
    try:
        return np.array(labels, dtype=np.int64)
    except OverflowError as error:
        raise InputValueError(
            *_too_long(next(x for x in labels if not -(2**63) <= x < 2**63))
        ) from error


def _plain(label: Any, row: int, labels: NDArray[Any]) -> Hashable:
    """One label as int, str or another hashable; ``labels`` are all, of which an error tells."""
    if type(label) is str:
        return label
    if getattr(label, "ndim", None) == 0 and not isinstance(label, np.generic):
        label = label.item()  # a zero-dimensional array of any library
    try:
        hash(label)
    except TypeError as error:
        remedy = ""
        if isinstance(label, list | set | np.ndarray) or hasattr(label, "to_list"):
            remedy = (
                "a list is no id: give each id by itself, in tables in a row of its own, such as "
                "by explode of pandas"
            )
        raise InputTypeError(
            f"ids must be hashable, got {shown(label)} in row {row}", remedy
        ) from error
    if _is_missing(label):
        raise InputValueError(*_missing(label, row, sum(map(_is_missing, labels))))
    if isinstance(label, str):
        return str.__str__(label)  # an Enum may have another __str__
    if isinstance(label, bool | np.bool_ | _DATES):
        kind = "booleans" if isinstance(label, bool | np.bool_) else "dates"
        raise InputTypeError(
            f"ids must not be {kind}, got {shown(label)} in row {row}",
            "convert them to text, or is this another column?",
        )
    if not isinstance(label, Number):
        return _as_text(label, row)
    whole = _whole(label)
    if whole is None:
        raise InputValueError(*_not_whole(label, row))
    if not -(2**63) <= whole < 2**63:
        raise InputValueError(*_too_long(whole))
    return whole


def _whole(label: Any) -> int | None:
    """A number as an int; None if it is not whole, or a float that may have been another int."""
    if isinstance(label, Decimal):
        exact = label.is_finite() and label == label.to_integral_value()
    elif isinstance(label, Rational):
        exact = label.denominator == 1
    else:
        most = _exact(label.dtype if isinstance(label, np.floating) else np.dtype(float))
        exact = isinstance(label, Real) and abs(float(label)) <= most and label % 1 == 0
    return int(label) if exact else None


def _exact(dtype: np.dtype[Any]) -> int:
    """Up to this, a whole number in floats of the dtype is taken for what it was.

    One beyond it in a narrow dtype, such as 2^24 + 1 in float32, became one of its neighbors.
    """
    return 2**53 if dtype.itemsize >= 8 else 2 ** (int(np.finfo(dtype).nmant) + 1) - 1


def _as_text(label: Any, row: int) -> Hashable:
    """Bytes and UUIDs as text, other labels as they are."""
    if isinstance(label, bytes):
        try:
            return label.decode()
        except UnicodeDecodeError:
            raise InputValueError(
                f"ids that are bytes must be text in UTF-8, got {shown(label)} in row {row}",
                "write other bytes as text with .hex()",
            ) from None
    return str(label) if isinstance(label, UUID) else label


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NA or NaT: the values that do not equal themselves."""
    if label is None:
        return True
    same = label == label
    return not (isinstance(same, bool | np.bool_) and same)


def _missing(label: Any, row: int, number: int) -> tuple[str, str]:
    """The problem and the remedy."""
    rows = f"row {row}" if number == 1 else f"row {row}, the first of {number:,} such rows"
    return f"ids must not be missing, got {shown(label)} in {rows}", "drop them or give them an id"


def _not_whole(label: Any, row: int) -> tuple[str, str]:
    return (
        f"ids must be whole numbers or strings, got {label} in row {row}",
        "use strings for ids that are not whole, or are too large for a float",
    )


def _too_long(label: Any) -> tuple[str, str]:
    return f"ids must fit int64, got {shown(label)}", "use strings for longer numbers"
