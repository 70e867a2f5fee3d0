"""Table files: columns read by their roles.

The suffix determines the format: .csv, .tsv, .txt, .dat and .data, each also with .gz, are text,
.parquet is parquet. Fields of text are separated by commas, tabs, semicolons, bars, two colons or,
except in .csv and .tsv, spaces: by the one that splits the first two rows alike. Text is UTF-8,
read with pandas if it is installed, else with the standard library; parquet needs the extra
``parquet``.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, get_args

from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.data import delimited, parquet_files
from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs
from mfrank.data.layouts import Dialect, rows
from mfrank.data.quotes import AS_USUAL, Quotes, Tell
from mfrank.data.table_kinds import USUAL, is_stream, kind_of
from mfrank.data.text_files import Text, local_file, open_text, refuse_elsewhere
from mfrank.data.time_units import Moments, TimeKind, TimestampUnit
from mfrank.files.regular import path_of

__all__ = ["Portion", "parquet_rows", "read_columns", "read_portions", "text_rows"]

_log = logging.getLogger("mfrank")

_USUAL_DIALECT = Dialect()
_STREAM = ""  # The kind of text without a name that could tell more.


def read_columns(
    path: str | os.PathLike[str],
    chosen: Chosen,
    ids: IdsAs = "auto",
    dialect: Dialect = _USUAL_DIALECT,
    unit: TimestampUnit | None = None,
) -> dict[str, NDArray[Any]]:
    """Read the user, item, value and timestamp columns of a file.

    Unless the dialect says so, a text file has a header if its first row contains a name known to
    :func:`mfrank.data.columns.guess`, if columns are chosen by name, or if its first row contains
    no number but the second does. Otherwise its columns are user, item, value, timestamp in this
    order; the last two may be absent. What is read and ignored is logged.

    Parameters
    ----------
    path : path-like
        ``-`` is the standard input, which is read as text, as are pipes.
    chosen : mapping of role -> column name, None or False
        As in :func:`mfrank.data.columns.assign`; a column of text may be given by its number
        from 1.
    ids : {"auto", "text"}, default "auto"
        Type of ids. A text file does not distinguish numbers from text: with ``"auto"`` a column
        of ids is int64 if every field is spelled as Python prints an int64, else text as written
        (``007``, ``+7``, ``1.0``, ``1e5``). With ``"text"`` ids are always text, and integers of a
        parquet file are converted.
    dialect : Dialect, optional
        What is known of how the text is written.
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
        If the suffix is unknown, a column is not recognized, there are no rows, or, in text, rows
        differ in length or are joined by quotes, or a field of these columns is empty or invalid;
        or the file is damaged, in another encoding, a folder or a URL. The message names the file,
        the column, the value and the line on which the row begins, counted from 1 as in an editor:
        including header and blank lines, and line breaks in quotes.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    """
    file, tell = path_of(path), _teller(path, set())
    _check_options(ids, dialect)
    if is_stream(file):
        kind, streamed = _STREAM, _stream_bytes(file)
    else:
        kind, streamed = _kind_of_file(path), b""
    if kind == ".parquet":
        _refuse_names(file, dialect)
        return parquet_files.read(file, chosen, ids, tell, unit)

    def lines() -> IO[str]:
        return Text(io.BytesIO(streamed), str(file)) if kind == _STREAM else open_text(file)

    try:
        return delimited.read(lines, dialect, USUAL.get(kind), chosen, ids, tell, unit)
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
    dialect: Dialect = _USUAL_DIALECT,
    *,
    n_rows: int,
    times: TimeKind | None = None,
    said: set[str] | None = None,
) -> Iterator[Portion]:
    """Yield what :func:`read_columns` returns, of up to ``n_rows`` rows at a time.

    Ids of one portion may be int64 and those of another text;
    :func:`as_text <mfrank.data.fields.as_text>` turns them into those that the whole file has. How
    timestamps of a text file are read depends on all of them, which ``times`` tells; with None,
    each portion has them by its own kind, and may have none of dates.

    Parameters
    ----------
    path, chosen, ids, dialect
        As in :func:`read_columns`; the file is read more than once, so it must not be a stream.
    n_rows : int
    times : {"whole", "number", "date"}, optional
    said : set of str, optional
        What has been logged of other files, or of this one: it is not logged again.

    Raises
    ------
    FileNotFoundError, ValueError, ModuleNotFoundError
        As in :func:`read_columns`; if a file has several errors, the same one is raised.
    """
    file, tell = path_of(path), _teller(path, set() if said is None else said)
    _check_options(ids, dialect)
    kind = _kind_of_file(path)
    if kind == ".parquet":
        _refuse_names(file, dialect)
        for columns, first_row in parquet_files.batches_of(file, chosen, ids, n_rows, tell):
            yield Portion(columns, first_row, columns.pop("timestamp", None))
        return

    first_row = 0
    lines = partial(open_text, file)
    found = delimited.portions(
        lines, dialect, USUAL[kind], chosen, ids, tell, n_rows=n_rows, times=times
    )
    try:
        for columns, when in found:
            yield Portion(columns, first_row, when)
            first_row += len(columns["user"])
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def text_rows(path: str | os.PathLike[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of each row of a local file of text, that of names included.

    Raises
    ------
    ValueError
        The file cannot be read, or quotes join rows; the message names the file.
    FileNotFoundError
        There is no such file.
    """
    file = local_file(path)
    remedy = "write a quote that is part of a field twice, in quotes"
    quotes = Quotes(separator, AS_USUAL, remedy=remedy)
    with open_text(file) as lines:
        try:
            yield from rows(lines, separator, quotes, keep_blanks=True)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
    quotes.told(_teller(path, set()))


def parquet_rows(path: str | os.PathLike[str]) -> int | None:
    """Number of rows of a parquet file, from its footer; None for a text file."""
    return parquet_files.number_of_rows(path) if kind_of(path) == ".parquet" else None


def _teller(path: str | os.PathLike[str], said: set[str]) -> Tell:
    """Logs lines about a file, each once for all files that share ``said``."""

    def tell(level: int, line: str) -> None:
        if line not in said:
            said.add(line)
            _log.log(level, "%s: %s", path, line)

    return tell


def _check_options(ids: IdsAs, dialect: Dialect) -> None:
    if ids not in get_args(IdsAs):
        raise ValueError(f"ids must be 'auto' or 'text', got {shown(ids)}")
    dialect.check()


def _refuse_names(file: Path, dialect: Dialect) -> None:
    if dialect.columns is not None or dialect.header is False:
        raise ValueError(
            f"{file}: columns= and header= are for text, and a Parquet file names its columns: "
            "name those that are read with user=, item=, value= and timestamp="
        )


def _kind_of_file(path: str | os.PathLike[str]) -> str:
    refuse_elsewhere(path)
    kind = kind_of(path)
    local_file(path)
    return kind


def _stream_bytes(file: Path) -> bytes:
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
