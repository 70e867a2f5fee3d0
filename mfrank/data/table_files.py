"""Table files: columns read by their roles.

The suffix determines the format: .csv, .tsv, .txt, .dat and .data, each also with .gz, are text,
.parquet is parquet. Fields of text are separated by commas, tabs, semicolons, bars, two colons or,
except in .csv and .tsv, spaces: by the one that splits the first two rows alike. Text is UTF-8,
read with pandas if it is installed, else with the standard library; parquet needs the extra
``parquet``.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, get_args

from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.data import delimited, parquet_files
from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs
from mfrank.data.layouts import check_separator
from mfrank.data.table_kinds import USUAL, is_stream, kind_of, open_text
from mfrank.data.time_units import Moments, TimeKind, TimestampUnit

__all__ = ["Portion", "parquet_rows", "read_columns", "read_portions"]

_STREAM = ""  # The kind of text without a name that could tell more.


def read_columns(
    path: str | os.PathLike[str],
    chosen: Chosen,
    ids: IdsAs = "auto",
    sep: str | None = None,
    unit: TimestampUnit | None = None,
) -> dict[str, NDArray[Any]]:
    """Read the user, item, value and timestamp columns of a file.

    A text file has a header if its first row contains a name known to
    :func:`mfrank.data.columns.guess`, if columns are chosen by name, or if its first row contains
    no number but the second does. Otherwise its columns are user, item, value, timestamp in this
    order; the last two may be absent.

    Parameters
    ----------
    path : path-like
        ``-`` is the standard input, which is read as text, as are pipes.
    chosen : mapping of role -> column name, None or False
        As in :func:`mfrank.data.columns.assign`.
    ids : {"auto", "text"}, default "auto"
        Type of ids. A text file does not distinguish numbers from text: with ``"auto"`` a column
        of ids is int64 if every field is spelled as Python prints an int64, else text as written
        (``007``, ``+7``, ``1.0``, ``1e5``). With ``"text"`` ids are always text, and integers of a
        parquet file are converted.
    sep : str or None, default None
        Separator of the fields of text: one character, or ``::``. None detects it.
    unit : {"s", "ms", "us", "ns"} or None, default None
        Unit of timestamps that are numbers, as in :func:`mfrank.data.times.epoch_seconds`.

    Returns
    -------
    dict
        Role -> values, shape (n_rows,), n_rows > 0. In a text file ids are int64 or text, values
        float64; timestamps are int64 (:func:`mfrank.data.times.epoch_seconds`). Spaces after a
        separator are ignored, as are empty fields beyond those of the first row; fields may be
        quoted. Columns of a parquet file keep their dtypes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the suffix is unknown, ``sep`` is not a separator, a column is not recognized, there are
        no rows, or, in text, rows differ in length or a field of these columns is empty or
        invalid. The message names the file, the column, the value and the line on which the row
        begins, counted from 1 as in an editor: including header and blank lines, and line breaks
        in quotes.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    """
    file = Path(path)
    _check_options(ids, sep)
    if is_stream(file):
        kind, streamed = _STREAM, _stream_bytes(file)
    else:
        kind, streamed = _kind_of_file(file), b""
    if kind == ".parquet":
        return parquet_files.read(file, chosen, ids, unit)

    def lines() -> IO[str]:
        if kind == _STREAM:  # decoded here, so that errors name the file
            return io.StringIO(streamed.decode("utf-8-sig"), newline="")
        return open_text(file, "r", compressed=file.suffix.lower() == ".gz")

    try:
        return delimited.read(lines, sep, USUAL.get(kind), chosen, ids, unit)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


class Portion(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    columns : dict
        As :func:`read_columns` returns them, without the timestamps.
    first_row : int
        Number of the rows before.
    moments : Moments or None
        The timestamps, whose unit is not settled.
    """

    columns: dict[str, NDArray[Any]]
    first_row: int
    moments: Moments | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns["user"])

    @property
    def is_timed(self) -> bool:
        """Whether the file has timestamps."""
        return self.moments is not None


def read_portions(
    path: str | os.PathLike[str],
    chosen: Chosen,
    ids: IdsAs = "auto",
    sep: str | None = None,
    *,
    n_rows: int,
    times: TimeKind | None = None,
) -> Iterator[Portion]:
    """Yield what :func:`read_columns` returns, of up to ``n_rows`` rows at a time.

    Ids of one portion may be int64 and those of another text;
    :func:`as_text <mfrank.data.fields.as_text>` turns them into those that the whole file has. How
    timestamps of a text file are read depends on all of them, which ``times`` tells; with None,
    each portion has them by its own kind, and may have none of dates.

    Parameters
    ----------
    path, chosen, ids, sep
        As in :func:`read_columns`; the file is read more than once, so it must not be a stream.
    n_rows : int
    times : {"whole", "number", "date"}, optional

    Raises
    ------
    FileNotFoundError, ValueError, ModuleNotFoundError
        As in :func:`read_columns`; if a file has several errors, the same one is raised.
    """
    file = Path(path)
    _check_options(ids, sep)
    kind = _kind_of_file(file)
    if kind == ".parquet":
        for columns, first_row in parquet_files.batches_of(file, chosen, ids, n_rows):
            yield Portion(columns, first_row, columns.pop("timestamp", None))
        return

    def lines() -> IO[str]:
        return open_text(file, "r", compressed=file.suffix.lower() == ".gz")

    first_row = 0
    found = delimited.portions(lines, sep, USUAL[kind], chosen, ids, n_rows=n_rows, times=times)
    try:
        for columns, when in found:
            yield Portion(columns, first_row, when)
            first_row += len(columns["user"])
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parquet_rows(path: str | os.PathLike[str]) -> int | None:
    """Number of rows of a parquet file, from its footer; None for a text file."""
    return parquet_files.number_of_rows(path) if kind_of(path) == ".parquet" else None


def _check_options(ids: IdsAs, sep: str | None) -> None:
    if ids not in get_args(IdsAs):
        raise ValueError(f"ids must be 'auto' or 'text', got {shown(ids)}")
    check_separator(sep)


def _kind_of_file(file: Path) -> str:
    kind = kind_of(file)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    return kind


def _stream_bytes(file: Path) -> bytes:
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
