"""Table files, text or parquet: read by the roles of their columns, written atomically.

The suffix determines the format: .csv, .tsv, .txt, .dat and .data, also packed (.gz, .bz2, .xz,
.zst, .zip), are text; .parquet is parquet, which needs the extra ``parquet``. Fields of text are
separated by commas, tabs, semicolons, bars, ``::`` or, except in .csv and .tsv, spaces; the
detected separator is the one that splits the first two rows into equally many fields.
"""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import shown
from mfrank.data import delimited
from mfrank.data.array_files import array_columns, array_portions, array_rows
from mfrank.data.arrow_files import (
    ARROW,
    BINARY,
    batches_of,
    faults_named,
    modules,
    number_of_rows,
    whole,
    write_parquet,
)
from mfrank.data.columns import Chosen
from mfrank.data.fields import IdsAs
from mfrank.data.frames import settled_columns
from mfrank.data.layouts import Dialect
from mfrank.data.notes import log as _log
from mfrank.data.remote import file_of
from mfrank.data.table_parts import TablePart, TableParts
from mfrank.data.text_bytes import PACKERS, ZIP, only_member
from mfrank.data.text_files import (
    Opener,
    errors_of,
    is_stream,
    local_file,
    open_text,
    refuse_elsewhere,
)
from mfrank.data.text_heads import refuse_ruler
from mfrank.data.text_rows import AS_USUAL, Quotes, Tell, rows
from mfrank.data.time_units import Moments, TimeKind, TimestampUnit
from mfrank.data.times import settle
from mfrank.errors import InputValueError, Notice
from mfrank.files import path_of, replacing

# The kind of a table file, by its suffix.


USUAL: Mapping[str, str | None] = {
    ".csv": ",",
    ".tsv": "\t",
    ".txt": None,
    ".dat": None,
    ".data": None,
}
"""Suffix of a text file -> what usually separates its fields."""

_READ = (".json", ".jsonl", ".ndjson", ".inter", ".mtx", ".edges")
"""Suffixes of text that is read, and not written."""


def kind_of(path: str | os.PathLike[str], *, writing: bool = False) -> str:
    """The suffix that determines the format, without that of a packed file."""
    if writing and file_of(path).suffix.lower() == ZIP:
        raise InputValueError("zip files are only read:", "name it with .gz").within(path)
    if (kind := known_kind(path)) and not (writing and kind in (*_READ, *ARROW, ".npz")):
        return kind
    known, packed = [*USUAL, *_READ * (not writing)], [*PACKERS, *[ZIP] * (not writing)]
    suffixes = [suffix.lower() for suffix in file_of(path).suffixes[::-1]]
    raise InputValueError(
        f"expected a suffix {', '.join(known)} (also with {', '.join(packed)}), .npz, .arrow or "
        ".parquet",
        next(filter(None, map(_OTHERS.get, suffixes)), "convert it, or name it by its format"),
    ).within(path)


def known_kind(path: str | os.PathLike[str]) -> str:
    """The same, or nothing if the suffix is unknown."""
    suffixes = [suffix.lower() for suffix in file_of(path).suffixes]
    packed = suffixes.pop() if suffixes[-1:] in [[each] for each in (*PACKERS, ZIP)] else ""
    kind, texts = suffixes[-1] if suffixes else "", (*USUAL, *_READ)
    if packed == ZIP and kind not in texts:
        file = local_file(path)
        with errors_of(file), file.open("rb") as stored:
            return known_kind(f"{file}/{only_member(stored, str(file))}")
    return kind if kind in texts or (kind in (*BINARY, ".npz") and not packed) else ""


_FRAME, _ARRAYS = "pass `Interactions.from_frame` what", "pass `Interactions.from_arrays` what"
_PICKLE = "such files could run code: write a table, such as .csv or .parquet, where it was made"
_OTHERS: Mapping[str, str] = {
    **dict.fromkeys([".pkl", ".pickle", ".joblib", ".pt", ".pth"], _PICKLE),
    **dict.fromkeys([".xlsx", ".xls", ".ods"], "save the sheet as .csv"),
    **dict.fromkeys([".tar", ".tgz", ".7z", ".rar"], "unpack it"),
    **dict.fromkeys([".h5", ".hdf5", ".hdf"], f"{_FRAME} `pandas.read_hdf` reads"),
    **dict.fromkeys([".db", ".sqlite", ".sqlite3", ".duckdb"], "read its rows by a query"),
    ".npy": f"{_ARRAYS} `numpy.load` reads, a column each",
    ".mat": f"{_ARRAYS} `scipy.io.loadmat` reads",
    ".orc": f"{_FRAME} `pandas.read_orc` reads",
    ".avro": "convert it to .parquet, such as by Spark or DuckDB",
    ".arff": f"{_FRAME} `scipy.io.arff.loadarff` reads",
    ".xml": f"{_FRAME} `pandas.read_xml` reads",
    ".html": f"{_FRAME} `pandas.read_html` reads",
}
"""Suffix of files that are no tables of text -> the remedy."""


def kind_at(path: str | os.PathLike[str], tell: Tell | None = None) -> str:
    """The kind of a file that was given by itself: it may be text with any other suffix."""
    kind = known_kind(path)
    suffix = file_of(path).suffix.lower()
    if kind or suffix == ZIP or not file_of(path).is_file():
        return kind or kind_of(path)
    with errors_of(path), open_text(path) as text:
        head = "" if suffix in _OTHERS else text.head()
    if not head or "\0" in head or "\ufffd" in head:
        return kind_of(path)
    if tell is not None:
        what = f"the suffix {suffix} names no format" if suffix else "it has no suffix"
        level = logging.INFO if file_of(path).name.startswith("out.") else logging.WARNING
        tell(level, f"{what}: it is read as text")
    return _STREAM


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file with this name is text, which does not store the type of ids."""
    return is_stream(path) or kind_at(path) not in (*BINARY, ".npz")


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

    By default, a text file has a header if its first row has a name known to
    :func:`mfrank.data.columns.guess`, if columns are chosen by name, or if only the second row has
    a number. Without a header, the columns are user, item, value, timestamp, in this order; the
    last two may be absent. The columns read and ignored are logged.

    Parameters
    ----------
    path : path-like
        ``-`` is standard input. It is read as text, like pipes.
    chosen : mapping of role -> column name, None or False
        As in :func:`mfrank.data.columns.assign`; in text, also the number of the column from 1.
    ids : {"auto", "text"}, default "auto"
        Type of ids. With ``"auto"``, a column of a text file is int64 if every field is spelled as
        Python prints an int64, else text as written (``007``, ``+7``, ``1.0``, ``1e5``). With
        ``"text"``, ids are always text, and integers of a parquet file are converted.
    dialect : Dialect, optional
        Known format of the text.
    unit : {"s", "ms", "us", "ns"} or None, default None
        Unit of numeric timestamps, as in :func:`mfrank.data.times.epoch_seconds`.

    Returns
    -------
    dict
        Role -> values, shape (n_rows,), n_rows > 0. From text, ids are int64 or
        :class:`mfrank.data.distinct.Coded`, and values are float64; columns of a parquet file keep
        their dtypes. Timestamps are int64 (:func:`mfrank.data.times.epoch_seconds`). Fields of text
        may be quoted; spaces after a separator, and extra empty fields at the end of a row, are
        ignored.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If

        - the suffix is unknown, or the path is a folder or a URL;
        - the file is damaged, has another encoding, or has no rows;
        - a column is not recognized;
        - in text, rows differ in length or are joined by quotes, or a field of these columns is
          empty or invalid.

        The message names the file, the column, the value and the line on which the row begins.
        Lines are counted from 1 as in an editor, including the header, blank lines and line breaks
        in quotes.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    """
    reader = _reader(path, chosen, ids, dialect, TableParts())
    with reader.faults:
        return reader.settled(unit)


class Portion(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    columns : dict
        As :func:`read_columns` returns them, without the timestamps.
    first_row : int
        Number of rows before this portion.
    moments : Moments or None
        The timestamps, whose unit is not yet known.
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
    table: TableParts | None = None,
) -> Iterator[Portion]:
    """Yield the result of :func:`read_columns` in portions of up to ``n_rows`` rows.

    Ids may be int64 in one portion and text in another; :func:`as_text
    <mfrank.data.fields.as_text>` converts them to the ids of the whole file. The kind of
    timestamps of a text file depends on the whole file: pass it as ``times``. With None, each
    portion uses its own kind.

    Parameters
    ----------
    path, chosen, ids, dialect
        As in :func:`read_columns`; the file is read more than once, so it must not be a stream.
    n_rows : int
    times : {"whole", "number", "date"}, optional
    table : TableParts, optional
        What this file must share with the files read so far.

    Raises
    ------
    FileNotFoundError, ValueError, ModuleNotFoundError
        As in :func:`read_columns`; if a file has several errors, the same one is raised.
    """
    reader, first_row = _reader(path, chosen, ids, dialect, table or TableParts()), 0
    with reader.faults:
        for columns in reader.portions(n_rows, times):
            yield Portion(columns, first_row, columns.pop("timestamp", None))
            first_row += len(columns["user"])


def read_part(
    path: str | os.PathLike[str], chosen: Chosen, ids: IdsAs, dialect: Dialect, table: TableParts
) -> Iterator[Portion]:
    """Yield all rows of a file as one portion; see :func:`read_portions`."""
    reader = _reader(path, chosen, ids, dialect, table)
    with reader.faults:
        columns = reader.unsettled()
    yield Portion(columns, 0, columns.pop("timestamp", None))


class _Reader(NamedTuple):
    """Reads the columns of a file, by its kind.

    Attributes
    ----------
    unsettled, settled, portions : callable
        As those of :class:`mfrank.data.delimited.TextTable`.
    faults : context manager
        Names the file in errors.
    """

    unsettled: Callable[[], dict[str, Any]]
    settled: Callable[[TimestampUnit | None], dict[str, NDArray[Any]]]
    portions: Callable[[int, TimeKind | None], Iterator[dict[str, Any]]]
    faults: AbstractContextManager[None]


def _reader(
    path: str | os.PathLike[str], chosen: Chosen, ids: IdsAs, dialect: Dialect, table: TableParts
) -> _Reader:
    check_options(ids, dialect)
    file, tell, part = file_of(path), _teller(path, table.said), TablePart.of(path, table)
    kind, how = _kind_of_file(path, tell), (file, chosen, ids, tell, part)
    if kind in BINARY:
        _refuse_names(file, dialect)
        modules()
        return _Reader(
            lambda: whole(*how)[0],
            lambda unit: settled_columns(*whole(*how), chosen, unit),
            lambda n_rows, _: batches_of(*how, n_rows),
            faults_named(file),
        )
    if kind == ".npz":
        _refuse_names(file, dialect)
        is_chosen = chosen.get("timestamp") is not None
        return _Reader(
            lambda: array_columns(*how),
            lambda unit: settle(array_columns(*how), unit, is_chosen=is_chosen),
            lambda n_rows, _: array_portions(*how, n_rows),
            errors_of(file),
        )
    opener = Opener(file, dialect.encoding, tell)
    text = delimited.TextTable(opener, dialect, USUAL.get(kind), chosen, ids, tell, part)
    return _Reader(text.unsettled, text.settled, text.portions, errors_of(file))


def text_rows(path: str | os.PathLike[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row of a local text file, header included.

    Raises
    ------
    ValueError
        The file cannot be read, or quotes join rows; the message names the file.
    FileNotFoundError
        There is no such file.
    """
    file, tell = local_file(path), _teller(path, set())
    remedy = "write a quote that is part of a field twice, in quotes"
    quotes = Quotes(separator, AS_USUAL, remedy=remedy)
    with errors_of(file), open_text(file, tell) as lines:
        for line, row in rows(lines, separator, quotes, keep_blanks=True):
            refuse_ruler(separator.join(row), line)
            yield line, row
    quotes.told(tell)


def stored_rows(path: str | os.PathLike[str]) -> int | None:
    """Number of rows of a file of Parquet, Arrow or arrays; None for a text file."""
    if (kind := kind_at(path)) == ".npz":
        with errors_of(path):
            return array_rows(file_of(path))
    return number_of_rows(path) if kind in BINARY else None


def _teller(path: str | os.PathLike[str], said: set[str]) -> Tell:
    """Logs lines about a file, each once for all files that share ``said``."""

    def tell(level: int, line: str) -> None:
        if line not in said:
            said.add(line)
            _log.log(level, Notice(f"{path}: {line}"))

    return tell


def check_options(ids: IdsAs, dialect: Dialect) -> None:
    """Raise ValueError if an option is none of its values."""
    if ids not in get_args(IdsAs):
        raise InputValueError(f"`ids` must be 'auto' or 'text', got {shown(ids)}")
    dialect.check()


def refuse_text_options(files: Sequence[Path], dialect: Dialect) -> None:
    """Raise ValueError if an option of text is given, and no file is text."""
    if dialect != _USUAL_DIALECT and not any(map(is_text, files)):
        for name in ("sep", "quote", "encoding", "comment", "lines"):
            if getattr(dialect, name) != getattr(_USUAL_DIALECT, name):
                raise InputValueError(
                    f"`{name}` has no effect, as it is of text:", "leave it out"
                ).within(files[0])


def _refuse_names(file: Path, dialect: Dialect) -> None:
    if dialect.columns is not None or dialect.header is False:
        raise InputValueError(
            "`columns=` and `header=` are for text, and this file names its columns:",
            "name those that are read with `user=`, `item=`, `value=` and `timestamp=`",
        ).within(file)


def _kind_of_file(path: str | os.PathLike[str], tell: Tell) -> str:
    if is_stream(path):
        return _STREAM
    refuse_elsewhere(path)
    kind = kind_at(path, tell)
    local_file(path)
    return kind


# Tables written atomically, as text or parquet.


def check_table_file(path: str | os.PathLike[str]) -> None:
    """Raise, as :func:`write_table` does, if the suffix is unknown or its library is missing.

    Raises
    ------
    ValueError
        If the suffix is unknown.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    """
    if kind_of(path, writing=True) == ".parquet":
        modules()


def write_table(path: str | os.PathLike[str], columns: Mapping[str, ArrayLike]) -> None:
    """Write columns of equal length with a header, atomically.

    In text, a missing value (None) is an empty field, and floats have the fewest digits that read
    back as the same number.

    Raises
    ------
    ValueError
        If the suffix is unknown, or the columns differ in length.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    OSError
        If writing fails; an existing file of that name is then unchanged.
    """
    file, kind = path_of(path), kind_of(path, writing=True)
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if len({array.shape for array in arrays.values()}) > 1:
        lengths = {name: array.shape for name, array in arrays.items()}
        raise InputValueError(f"`columns` must have one length, got {lengths}")
    with replacing(file) as draft:
        if kind == ".parquet":
            write_parquet(draft, arrays)
            return
        opener = cast(Callable[..., IO[str]], PACKERS.get(file.suffix.lower(), open))
        with opener(draft, "wt", encoding="utf-8", newline="") as text:
            writer = csv.writer(text, delimiter=USUAL[kind] or "\t", lineterminator="\n")
            writer.writerow(arrays)
            writer.writerows(zip(*map(_printable, arrays.values()), strict=True))


def _printable(array: NDArray[Any]) -> list[Any]:
    """Values for the csv module; floats as text, because it prints float32 as a longer float64."""
    printable: list[Any] = (array.astype(str) if array.dtype.kind == "f" else array).tolist()
    return printable
