"""Delimited text: where its header and columns are, and their values."""

from __future__ import annotations

import csv
import itertools
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.columns import ROLES, assign, guess

__all__ = ["read"]

_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_log = logging.getLogger("mfrank")


@dataclass(frozen=True)
class _Layout:
    """How a file is to be read: fields of a row, whether the first names them, role -> field."""

    separator: str
    width: int
    has_header: bool
    fields: Mapping[str, int]


def read(
    lines: Callable[[], IO[str]], separator: str | None, chosen: Mapping[str, str | None]
) -> dict[str, NDArray[Any]]:
    """Role -> values of the text that ``lines`` opens; see :func:`.read_columns`."""
    with lines() as text:
        layout = _layout(text, separator, chosen)
    with lines() as text:
        return (_with_pandas if find_spec("pandas") else _without_pandas)(text, layout)


def _layout(text: IO[str], separator: str | None, chosen: Mapping[str, str | None]) -> _Layout:
    start = list(itertools.islice((line for line in text if line.strip()), 2))
    if not start:
        raise ValueError("the file is empty")
    separator = separator or next((mark for mark in "\t," if mark in start[0]), " ")
    rows = list(_rows(start, separator))
    names = [name.strip() for name in rows[0]]
    if _is_header(rows, chosen):
        fields = {role: names.index(str(name)) for role, name in assign(names, chosen).items()}
        return _Layout(separator, len(names), True, fields)
    if not 2 <= len(names) <= len(ROLES):
        raise ValueError(
            f"no header, and {len(names)} columns, which may be anything; put a header with the "
            "names user, item, value, timestamp on top"
        )
    roles = ROLES[: len(names)]
    _log.info("no header found; columns taken as %s", ", ".join(roles))
    return _Layout(separator, len(names), False, {role: field for field, role in enumerate(roles)})


def _is_header(rows: Sequence[Sequence[str]], chosen: Mapping[str, str | None]) -> bool:
    named = any(name is not None for name in chosen.values())
    if named or any(guess(rows[0], role) for role in ROLES):
        return True
    first, *rest = ([bool(_NUMBER.fullmatch(field.strip())) for field in row] for row in rows)
    return not any(first) and any(itertools.chain(*rest))


def _rows(lines: Any, separator: str) -> Iterator[list[str]]:
    return (row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row)


def _with_pandas(text: IO[str], layout: _Layout) -> dict[str, NDArray[Any]]:
    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            frame = pandas.read_csv(
                text,
                sep=layout.separator,
                header=0 if layout.has_header else None,
                index_col=False,
                skipinitialspace=True,
                keep_default_na=False,  # someone may be called "NA"
                na_values=[""],
                low_memory=False,  # a column has one type, not one for each chunk
            )
        except pandas.errors.ParserWarning as warning:  # it would drop the fields beyond
            raise ValueError(f"rows have more than the {layout.width} fields of the first") from (
                warning
            )
    columns = {role: np.asarray(frame.iloc[:, field]) for role, field in layout.fields.items()}
    return {role: _without_long_numbers(values) for role, values in columns.items()}


def _without_long_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers beyond int64 as text, as :func:`_parsed` leaves them."""
    if values.dtype == np.uint64 or any(isinstance(value, int) for value in values[:1]):
        return values.astype(str).astype(object)
    return values


def _without_pandas(text: IO[str], layout: _Layout) -> dict[str, NDArray[Any]]:
    columns: dict[str, list[str]] = {role: [] for role in layout.fields}
    for number, row in enumerate(_rows(text, layout.separator)):
        if len(row) != layout.width:
            raise ValueError(f"expected {layout.width} fields, got {len(row)} in row {number}")
        if number == 0 and layout.has_header:
            continue
        for role, field in layout.fields.items():
            columns[role].append(row[field])
    return {role: _parsed(fields) for role, fields in columns.items()}


def _parsed(fields: list[str]) -> NDArray[Any]:
    """Whole numbers, else numbers, else text, an empty field being None.

    Whole numbers beyond int64 stay text: as floats they would not be the same any more.
    """
    if all(map(_WHOLE.fullmatch, fields)):
        numbers = list(map(int, fields))
        if all(-(2**63) <= number < 2**63 for number in numbers):
            return np.array(numbers, dtype=np.int64)
    elif all(map(_NUMBER.fullmatch, fields)):
        return np.array(list(map(float, fields)))
    return np.array([field or None for field in fields], dtype=object)
