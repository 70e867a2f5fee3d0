"""Table files: columns read by their roles, and tables written atomically.

The suffix determines the format: .csv, .tsv, .txt, .dat and .data, each also with .gz, are text,
.parquet is parquet. Fields of text are separated by commas, tabs, semicolons, bars, two colons, or,
but for .csv and .tsv, spaces: what splits the first two rows alike. Text is UTF-8, read with pandas
if it is installed, else with the standard library; parquet needs the extra ``parquet``.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import shown
from mfrank.data import delimited
from mfrank.data.columns import Chosen, assign
from mfrank.data.fields import IdsAs, TimeKind, as_text
from mfrank.data.frames import frame_columns
from mfrank.data.labels import canonical
from mfrank.data.layouts import check_separator
from mfrank.files.atomic import replacing

__all__ = [
    "Portion",
    "check_table_file",
    "is_stream",
    "is_text",
    "parquet_rows",
    "read_columns",
    "read_portions",
    "write_table",
]

_USUAL: Mapping[str, str | None] = {
    ".csv": ",",
    ".tsv": "\t",
    ".txt": None,
    ".dat": None,
    ".data": None,
}
"""Suffix of a text file -> what usually separates its fields."""
_STREAM = ""  # The kind of text without a name that could tell more.


def read_columns(
    path: str | os.PathLike[str],
    chosen: Chosen,
    ids: IdsAs = "auto",
    sep: str | None = None,
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
        What separates the fields of text: one character, or ``::``. None detects it.

    Returns
    -------
    dict
        Role -> values, shape (n_rows,), n_rows > 0. In a text file ids are int64 or text, values
        float64 and timestamps int64 (:func:`mfrank.data.columns.epoch_seconds`). Spaces after a
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
        return _read_parquet(file, chosen, ids)

    def lines() -> IO[str]:
        if kind == _STREAM:  # decoded here, so that errors name the file
            return io.StringIO(streamed.decode("utf-8-sig"), newline="")
        return _text(file, "r", compressed=file.suffix.lower() == ".gz")

    try:
        return delimited.read(lines, sep, _USUAL.get(kind), chosen, ids)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


class Portion(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    columns : dict
        As :func:`read_columns` returns them.
    first_row : int
        Number of the rows before.
    times : {"whole", "number", "date"} or None
        What the timestamps of a text file are spelled as.
    """

    columns: dict[str, NDArray[Any]]
    first_row: int
    times: TimeKind | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns["user"])

    @property
    def is_timed(self) -> bool:
        """Whether the file has timestamps."""
        return self.times is not None or "timestamp" in self.columns


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

    Ids of one portion may be int64 and those of another text; by :func:`as_text
    <mfrank.data.fields.as_text>` they are those that the whole file has. How timestamps of a text
    file are read depends on all of them: None for ``times`` leaves them out, and tells what each
    portion's are.

    Parameters
    ----------
    path, chosen, ids, sep
        As in :func:`read_columns`; the file is read more than once, so it must not be a stream.
    n_rows : int
    times : {"whole", "number", "date"}, optional

    Raises
    ------
    FileNotFoundError, ValueError, ModuleNotFoundError
        As in :func:`read_columns`; of several errors in a file the same one.
    """
    file = Path(path)
    _check_options(ids, sep)
    kind = _kind_of_file(file)
    if kind == ".parquet":
        yield from _parquet_portions(file, chosen, ids, n_rows)
        return

    def lines() -> IO[str]:
        return _text(file, "r", compressed=file.suffix.lower() == ".gz")

    first_row = 0
    found = delimited.portions(lines, sep, _USUAL[kind], chosen, ids, n_rows=n_rows, times=times)
    try:
        for columns, own in found:
            yield Portion(columns, first_row, own)
            first_row += len(columns["user"])
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parquet_rows(path: str | os.PathLike[str]) -> int | None:
    """How many rows a parquet file has, of which its end tells; None for a text file."""
    if _kind(path) != ".parquet":
        return None
    return int(_parquet_modules().parquet.read_metadata(path).num_rows)


def check_table_file(path: str | os.PathLike[str]) -> None:
    """Raise, as :func:`write_table` does, if there is no format for this suffix or it is missing.

    Raises
    ------
    ValueError
        If the suffix is unknown.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    """
    if _kind(path) == ".parquet":
        _parquet_modules()


def write_table(path: str | os.PathLike[str], columns: Mapping[str, ArrayLike]) -> None:
    """Write columns of equal length with a header, atomically.

    In text a missing value (None) is an empty field, and floats have as few digits as needed to
    read the same number back.

    Raises
    ------
    ValueError
        If the suffix is unknown, or the columns differ in length.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    OSError
        If writing fails; an earlier file of that name is then unchanged.
    """
    file, kind = Path(path), _kind(path)
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if len({array.shape for array in arrays.values()}) > 1:
        lengths = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"columns must have one length, got {lengths}")
    with replacing(file) as draft:
        if kind == ".parquet":
            pyarrow = _parquet_modules()
            pyarrow.parquet.write_table(
                pyarrow.table({name: _arrow(array) for name, array in arrays.items()}), draft
            )
            return
        with _text(draft, "w", compressed=file.suffix.lower() == ".gz") as text:
            writer = csv.writer(text, delimiter=_USUAL[kind] or "\t", lineterminator="\n")
            writer.writerow(arrays)
            writer.writerows(zip(*map(_printable, arrays.values()), strict=True))


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is a text file, in which ids have no type."""
    return is_stream(Path(path)) or _kind(path) in _USUAL


def _check_options(ids: IdsAs, sep: str | None) -> None:
    if ids not in get_args(IdsAs):
        raise ValueError(f"ids must be 'auto' or 'text', got {shown(ids)}")
    check_separator(sep)


def _kind_of_file(file: Path) -> str:
    kind = _kind(file)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    return kind


def is_stream(file: Path) -> bool:
    """Whether it is the standard input or a pipe, which can be read only once.

    Not a device: reading /dev/zero would never end.
    """
    return str(file) == "-" or file.is_fifo()


def _stream_bytes(file: Path) -> bytes:
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


def _kind(path: str | os.PathLike[str]) -> str:
    """The suffix that determines the format, without .gz."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes[-1:] == [".gz"] and suffixes[-2:-1] != [".parquet"]:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in (*_USUAL, ".parquet"):
        known = ", ".join(_USUAL)
        remedy = "; mfrank.movielens reads MovieLens as distributed" * (
            kind == ".zip" or Path(path).is_dir()
        )
        raise ValueError(f"{path}: expected a suffix {known} (also with .gz) or .parquet{remedy}")
    return kind


def _text(file: Path, mode: str, *, compressed: bool) -> IO[str]:
    encoding = "utf-8-sig" if mode == "r" else "utf-8"  # a byte order mark is not part of a name
    opener = cast(Callable[..., IO[str]], gzip.open if compressed else open)
    return opener(file, f"{mode}t", encoding=encoding, newline="")


def _printable(array: NDArray[Any]) -> list[Any]:
    """Values for the csv module; floats as text, because it prints float32 as a longer float64."""
    printable: list[Any] = (array.astype(str) if array.dtype.kind == "f" else array).tolist()
    return printable


def _arrow(array: NDArray[Any]) -> Any:
    """The column for pyarrow, which cannot tell of what objects an empty one is: of text."""
    import pyarrow

    return (
        pyarrow.array([], pyarrow.string()) if array.dtype == object and not len(array) else array
    )


def _parquet_modules() -> Any:
    try:
        import pandas  # noqa: F401
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "parquet files need pandas and pyarrow: pip install mfrank[parquet]"
        ) from error
    return pyarrow


def _read_parquet(file: Path, chosen: Chosen, ids: IdsAs) -> dict[str, NDArray[Any]]:
    parquet = _parquet_modules().parquet
    roles = assign(parquet.read_schema(file).names, chosen)
    frame = parquet.read_table(file, columns=list(roles.values())).to_pandas()
    if not len(frame):
        raise ValueError(f"{file}: the file has columns and no rows")
    return _of_parquet(file, frame, roles, ids, 0)


def _parquet_portions(file: Path, chosen: Chosen, ids: IdsAs, n_rows: int) -> Iterator[Portion]:
    pyarrow, first_row = _parquet_modules(), 0
    # A row group is not read as a whole: each column has a buffer.
    with pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened:
        roles = assign(opened.schema_arrow.names, chosen)
        if not opened.metadata.num_rows:
            raise ValueError(f"{file}: the file has columns and no rows")
        for batch in opened.iter_batches(n_rows, columns=list(roles.values()), use_threads=False):
            frame = pyarrow.Table.from_batches([batch]).to_pandas()
            yield Portion(_of_parquet(file, frame, roles, ids, first_row), first_row)
            first_row += len(frame)


def _of_parquet(
    file: Path, frame: Any, roles: Chosen, ids: IdsAs, first_row: int
) -> dict[str, NDArray[Any]]:
    try:
        columns = frame_columns(frame, roles, first_row)
        if ids == "text":
            columns |= {
                role: as_text(canonical(columns[role], first_row)) for role in ("user", "item")
            }
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return columns
