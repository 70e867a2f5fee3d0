"""Delimited text by pandas, several times sooner: as the standard library reads it, or not at all.

Where anything is wrong, missing or odd pandas has no say: it fills up short rows, tells no lines,
and takes ``007`` for the number 7.
"""

from __future__ import annotations

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


class _OddError(ValueError):
    """Something that pandas might read in another way than the standard library."""


class _Readable:
    """Text for pandas without what it reads in its own way.

    It ends words at a NUL, drops a second byte order mark, and loses fields after a blank line that
    ends in a lone carriage return.
    """

    def __init__(self, text: IO[str]) -> None:
        self._text = text

    def read(self, size: int = -1) -> str:
        part = self._text.read(size)
        if part.endswith("\r"):
            part += self._text.read(1)
        odd = "\0" in part or "\ufeff" in part
        if odd or part.count("\r") > part.count("\r\n"):
            raise _OddError("a character that pandas may not keep")
        return part

    def __iter__(self) -> Iterator[str]:  # by which pandas knows what can be read
        return iter(self._text)


def read(lines: _Lines, layout: Layout, ids: IdsAs) -> dict[str, NDArray[Any]] | None:
    """Role -> values, or None where the standard library is to read."""
    import pandas

    try:
        frame = _frame(lines, layout)
        _refuse_holes(frame, layout)
        columns = {role: frame.iloc[:, at] for role, at in layout.fields.items()}
        found = {role: _READ[role](column) for role, column in columns.items() if role in _READ}
        found |= _ids({role: columns[role] for role in ("user", "item")}, lines, layout, ids)
        return {role: found[role] for role in columns}
    except (ValueError, pandas.errors.ParserWarning):
        return None


def _frame(lines: _Lines, layout: Layout, **how: Any) -> Any:
    """The whole file; ValueError or ParserWarning where pandas stumbles."""
    import pandas

    with lines() as text, warnings.catch_warnings():
        # Of fields beyond those of the first row, which it would drop.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        readable: Any = _Readable(text)
        if pandas.__version__ < "3":
            how["float_precision"] = "round_trip"  # by default roundings off, up to pandas 2
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


def _ids(
    columns: dict[str, Any], lines: _Lines, layout: Layout, ids: IdsAs
) -> dict[str, NDArray[Any]]:
    """Columns that pandas read as text; of the others, what the file has in place of numbers."""
    found = {r: np.asarray(c, dtype=object) for r, c in columns.items() if _is_text(c)}

    def again(roles: list[str], dtype: Any) -> dict[str, Any]:
        ordered = sorted(roles, key=layout.fields.__getitem__)  # as pandas gives them
        fields = [layout.fields[role] for role in ordered]
        frame = _frame(lines, layout, usecols=fields, dtype=dtype)
        return {role: frame.iloc[:, at] for at, role in enumerate(ordered)}

    whole = [role for role, c in columns.items() if ids == "auto" and c.dtype.kind == "i"]
    for role, spelled in again(whole, _LONGER).items() if whole else ():
        numbers = np.asarray(columns[role], dtype=np.int64)
        if _are_canonical(numbers, np.asarray(spelled, dtype=_LONGER)):
            found[role] = numbers
    rest = [role for role in columns if role not in found]
    texts = again(rest, str) if rest else {}
    return found | {role: parsed(role, text.tolist(), ids) for role, text in texts.items()}


def _is_text(column: Any) -> bool:
    from pandas.api.types import infer_dtype

    return bool(infer_dtype(column, skipna=False) == "string")


def _are_canonical(numbers: NDArray[np.int64], spelled: NDArray[np.bytes_]) -> bool:
    """Whether all fields that were read as numbers are spelled as Python prints these.

    Any other spelling of a number is longer.
    """
    sizes = np.abs(numbers)
    length = len(numbers) + int((numbers < 0).sum())
    length += sum(int((sizes >= power).sum()) for power in _POWERS)
    return length == np.count_nonzero(spelled.view(np.uint8))
