"""Arrays of numpy in a file (.npz): a sparse matrix as scipy saves it, or an array for each column.

Nothing that needs pickle is read: it could run code.
"""

from __future__ import annotations

import logging
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as np_format
from numpy.typing import NDArray

from mfrank.data.columns import Chosen, assign, has_marks_of_rows, tell_columns
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.frames import LOOKED_AT
from mfrank.data.labels import canonical
from mfrank.data.records import fixed_roles, tell_unused
from mfrank.data.remote import for_library
from mfrank.data.table_parts import NoRowsError, TablePart
from mfrank.data.text_rows import Tell
from mfrank.data.times import hold_dates, moments
from mfrank.errors import InputValueError

_MATRIX = {"format", "shape", "data"}
_ROLES = {"user": "row", "item": "column", "value": "data"}


@contextmanager
def stored_arrays(file: Path) -> Iterator[Any]:
    """Open a file of arrays, which are read one by one; errors do not name it."""
    source = for_library(file)
    if file.exists() and not zipfile.is_zipfile(source):
        raise InputValueError(
            "no .npz file, as numpy.savez writes, or a damaged one", "copy it again"
        )
    try:
        with np.load(source, allow_pickle=False) as stored:
            yield stored
    except (EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputValueError(f"a damaged file of arrays: {error}", "copy it again") from error
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        problem, remedy = "it needs pickle, which could run code", "save text as arrays of str"
        raise InputValueError(problem, remedy) from error


def array_columns(
    file: Path, chosen: Chosen, ids: IdsAs, tell: Tell, part: TablePart
) -> dict[str, Any]:
    """The columns of a file, with timestamps of no unit yet.

    Raises
    ------
    ValueError
        It is damaged, needs pickle, has no rows, or its arrays are no columns.
    """
    with stored_arrays(file) as stored:
        columns, names = dict[str, Any](), list(stored.files)
        if {*names} >= _MATRIX:
            roles = fixed_roles("a sparse matrix", _ROLES, chosen)
            columns |= {r: each for r, each in _entries(file, tell).items() if r in roles}
        else:
            roles = assign(names, chosen)
            tell_columns(
                *(names, roles, chosen, tell),
                marks_rows=lambda name: has_marks_of_rows(stored[name]),
                has_dates=lambda name: _begins_with_dates(stored, name),
            )
            columns |= {role: stored[str(name)] for role, name in roles.items()}
    part.table.check(part.file, roles)
    n_rows = len(columns["user"]) if columns["user"].ndim else 0
    for role, column in columns.items():
        if column.shape != (n_rows,):
            raise InputValueError(
                f"the array of the {role} has shape {column.shape}, and that of users "
                f"{columns['user'].shape}",
                "save arrays of one value for each row",
            )
    if not n_rows:
        raise NoRowsError("the file has no rows")
    if "timestamp" in columns:
        columns["timestamp"] = moments(columns["timestamp"])
    if ids == "text":
        columns |= {role: as_text(canonical(columns[role])) for role in ("user", "item")}
    return columns


def _begins_with_dates(stored: Any, name: str) -> bool:
    """Whether the first values of an array, which may be large, are dates."""
    header = {(1, 0): np_format.read_array_header_1_0, (2, 0): np_format.read_array_header_2_0}
    if f"{name}.npy" not in stored.zip.namelist():
        return False
    with stored.zip.open(f"{name}.npy") as opened:
        if (read := header.get(np_format.read_magic(opened))) is None:
            return False
        kind = read(opened)[-1]
        if kind.kind not in "MU" or not kind.itemsize:
            return False
        return hold_dates(np.frombuffer(opened.read(kind.itemsize * LOOKED_AT), kind))


def array_rows(file: Path) -> int:
    """About how many rows a file has."""
    with stored_arrays(file) as stored:
        names = stored.files
        return int(stored["data" if {*names} >= _MATRIX else names[0]].size) if names else 0


def array_portions(
    file: Path, chosen: Chosen, ids: IdsAs, tell: Tell, part: TablePart, n_rows: int
) -> Iterator[dict[str, Any]]:
    """Yield the result of :func:`array_columns` in portions of so many rows."""
    columns = array_columns(file, chosen, ids, tell, part)
    for begin in range(0, len(columns["user"]), n_rows):
        rows = slice(begin, begin + n_rows)
        yield {
            role: each._replace(numbers=each.numbers[rows]) if role == "timestamp" else each[rows]
            for role, each in columns.items()
        }


def _entries(file: Path, tell: Tell) -> dict[str, NDArray[Any]]:
    """The entries of a matrix that ``scipy.sparse.save_npz`` wrote, by rows and columns from 0."""
    matrix = sp.coo_array(sp.load_npz(for_library(file)))
    entries = {
        "user": matrix.row.astype(np.int64),
        "item": matrix.col.astype(np.int64),
        "value": matrix.data,
    }
    tell(logging.INFO, "rows of the sparse matrix are users, and columns items, from 0")
    for role, n in zip(("user", "item"), matrix.shape, strict=True):
        tell_unused(role, np.bincount(entries[role], minlength=n) > 0, tell)
    return entries
