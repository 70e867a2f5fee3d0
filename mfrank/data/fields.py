"""Conversion of the fields of a text file by the role of their column: ids and values.

A text file does not say whether an id is a number or text, so a column of ids is read as integers
only if this loses nothing: every field is spelled as Python prints an int64. A single field that
is not (``007``, ``+7``, ``-0``, ``1.0``, ``1e5``, ``1_000``, too many digits) makes the whole
column text, as written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mfrank.data.columns import BadRow
from mfrank.data.ids import Ids
from mfrank.data.labels import objects

__all__ = [
    "NUMBER",
    "IdsAs",
    "as_text",
    "parsed",
    "spelled_like",
    "values",
    "whole_number",
]

IdsAs = Literal["auto", "text"]
"""Type of columns of ids: int64 if every field is spelled as one, or always text."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
_TRUTHS = {"true": 1.0, "false": 0.0}  # as pandas writes and reads a column of booleans


def parsed(role: str, fields: Sequence[str], ids: IdsAs) -> NDArray[Any]:
    """Convert the fields of a column, none of them empty, by its role.

    Returns
    -------
    int64 or object (of text) for ids, float64 for values

    Raises
    ------
    BadRow
        If a value is not a finite number.
    """
    if role == "value":
        return values(fields)
    numbers = _whole_numbers(fields) if ids == "auto" else None
    return objects(fields) if numbers is None else numbers


def as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Ids as text: integers by their digits, other ids unchanged."""
    return objects(map(str, labels.tolist())) if labels.dtype == np.int64 else labels


def spelled_like(labels: NDArray[Any], ids: Ids | None) -> NDArray[Any]:
    """Convert ids from a text file to the type of the known ``ids``, integers or text."""
    if ids is None or (ids.are_numbers and labels.dtype == np.int64):
        return labels
    if ids.are_numbers:
        read = [whole_number(label) if isinstance(label, str) else label for label in labels]
        whole = all(isinstance(label, int) for label in read)
        return np.array(read, dtype=np.int64) if whole else objects(read)
    if ids.are_text:
        return as_text(labels)
    # Ids of both kinds: of 1 and "1", the one that is known.
    given = labels.tolist()
    others = [whole_number(label) if isinstance(label, str) else str(label) for label in given]
    swap = (ids.rows(given, missing=-1) < 0) & (ids.rows(others, missing=-1) >= 0)
    return objects(b if use else a for a, b, use in zip(given, others, swap, strict=True))


def whole_number(field: str) -> int | str:
    """One field as an int if it is spelled as Python prints an int64, else unchanged."""
    numbers = _whole_numbers([field])
    return field if numbers is None else int(numbers[0])


def _whole_numbers(fields: Sequence[str]) -> NDArray[np.int64] | None:
    """The fields as int64, or None if one is not spelled as Python prints an int64."""
    if not all(map(_CANONICAL.fullmatch, fields)):
        return None
    try:
        return np.array(list(map(int, fields)), dtype=np.int64)
    except OverflowError:
        return None


def values(fields: Sequence[str]) -> NDArray[np.float64]:
    """The fields as finite numbers; raise BadRow if one is none."""
    numbers = np.fromiter(map(_number, fields), dtype=np.float64, count=len(fields))
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        raise BadRow(f"values must be finite numbers, got {fields[row]!r}", row)
    return numbers


def _number(field: str) -> float:
    """The field as a number, NaN if it is not one."""
    try:
        return float(field)
    except ValueError:
        return _TRUTHS.get(field.lower(), math.nan)
