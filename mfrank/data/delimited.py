"""Reader of delimited text: the columns that have a role, with line numbers in errors.

The standard library's csv module defines the meaning of a file. If pandas is installed, it reads
ordinary files faster (:mod:`mfrank.data.by_pandas`); all others are read by the csv module.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable
from importlib.util import find_spec
from typing import IO, Any

from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.data import by_pandas, fields
from mfrank.data.columns import BadRow, Chosen, in_column
from mfrank.data.fields import IdsAs
from mfrank.data.layouts import DOUBLE_COLON, Layout, layout_of, rows

__all__ = ["read"]


def read(
    lines: Callable[[], IO[str]],
    separator: str | None,
    usual: str | None,
    chosen: Chosen,
    ids: IdsAs,
) -> dict[str, NDArray[Any]]:
    """Role -> values of the text that ``lines`` opens; see :mod:`mfrank.data.table_files`."""
    with lines() as text:
        layout = layout_of(text, separator, usual, chosen)
    pandas_reads = layout.separator != DOUBLE_COLON and find_spec("pandas")
    columns = by_pandas.read(lines, layout, ids) if pandas_reads else None
    return _read(lines, layout, ids) if columns is None else columns


def _read(lines: Callable[[], IO[str]], layout: Layout, ids: IdsAs) -> dict[str, NDArray[Any]]:
    """Read with the csv module; the ValueError for a bad line names its number."""
    columns: dict[str, list[str]] = {role: [] for role in layout.fields}
    begins = array("q")
    with lines() as text:
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
                columns[role].append(row[field])
            begins.append(line)
    if not begins:
        raise ValueError("the file has a header and no rows")
    found: dict[str, NDArray[Any]] = {}
    for role, column in columns.items():
        try:
            found[role] = fields.parsed(role, column, ids)
        except BadRow as error:
            what = f"line {begins[error.row]}: {error.what}"
            raise ValueError(in_column(what, role, layout.column(role))) from error
    return found
