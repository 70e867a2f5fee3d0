"""Files of Parquet, Arrow and Feather: read by pyarrow, by the roles of their columns."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from mfrank.arrays import needs
from mfrank.data.columns import Chosen, assign, has_marks_of_rows, tell_columns
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.frames import (
    LOOKED_AT,
    arrow_values,
    columns_reader,
    has_uuids,
    unsettled_columns,
)
from mfrank.data.labels import canonical
from mfrank.data.remote import file_of, for_library
from mfrank.data.table_parts import NoRowsError, TablePart
from mfrank.data.text_rows import Tell
from mfrank.data.times import hold_dates
from mfrank.errors import InputValueError, within

_AT_ONCE = 1 << 20
"""Rows of a column that are looked at."""

ARROW = (".arrow", ".feather", ".ipc")
"""Suffixes of files of Arrow, which are read and not written."""
BINARY = (".parquet", *ARROW)
"""Suffixes of files that pyarrow reads."""


def modules() -> Any:
    """Return pyarrow, with its parquet.

    Raises
    ------
    ModuleNotFoundError
        If pandas or pyarrow is not installed.
    """
    with needs("parquet", "parquet files need pandas and pyarrow"):
        import pandas  # noqa: F401
        import pyarrow.ipc
        import pyarrow.parquet
    return pyarrow


@contextmanager
def faults_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise any defect of a file as a ValueError that begins with the file's name.

    pyarrow does not name the file, and reports damage by many types of errors.
    """
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        # An error of the system has a number, and a lack of memory is not the file's fault.
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise
        cause = str(error).partition("\n")[0]
        what = "Arrow" if str(path).lower().endswith(ARROW) else "Parquet"
        raise InputValueError(
            f"no {what} file, or a damaged one: {cause}", "copy or write it again"
        ).within(path) from error
    except ValueError as error:
        raise within(path, error) from error


def number_of_rows(path: str | os.PathLike[str]) -> int:
    """Number of rows of the file, without reading them."""
    with faults_named(path), _opened(file_of(path)) as opened:
        return opened.n_rows


@contextmanager
def _opened(file: Path) -> Iterator[_Parquet | _Ipc]:
    modules()
    with _Parquet(file) if file.suffix.lower() == ".parquet" else _Ipc(file) as opened:
        yield opened


class _Parquet:
    """A file of Parquet."""

    def __init__(self, file: Path) -> None:
        # A row group is not read as a whole: each column has a buffer.
        how = {"buffer_size": 1 << 20, "pre_buffer": False}
        self._file = modules().parquet.ParquetFile(for_library(file), **how)
        self.names = list[str](self._file.schema_arrow.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def n_rows(self) -> int:
        """Number of rows, from the footer."""
        return int(self._file.metadata.num_rows)

    def table(self, names: list[Any]) -> Any:
        """Some columns of all rows."""
        return self._file.read(columns=names)

    def batches(self, names: list[Any], n_rows: int) -> Iterator[Any]:
        """Yield some columns of up to ``n_rows`` rows at a time."""
        yield from self._file.iter_batches(n_rows, columns=names, use_threads=False)


class _Ipc:
    """A file of Arrow or of Feather: with a footer, or as a stream was written."""

    def __init__(self, file: Path) -> None:
        pyarrow = modules()
        self._source = (
            pyarrow.memory_map(str(file))
            if isinstance(file, Path)
            else pyarrow.PythonFile(file.open("rb"))
        )
        try:
            self.schema = self._reader(None).schema
        except BaseException:
            self._source.close()
            raise
        self.names = list[str](self.schema.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def _reader(self, fields: list[int] | None) -> Any:
        """What reads these columns, or all, from the begin."""
        ipc = modules().ipc
        options = ipc.IpcReadOptions(included_fields=fields)
        self._source.seek(0)
        try:
            return ipc.open_file(self._source, options=options)
        except modules().ArrowInvalid as error:
            if "Not an Arrow file" not in str(error):
                raise
        self._source.seek(0)
        return ipc.open_stream(self._source, options=options)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(batch.num_rows for batch in self._batches([]))

    def _batches(self, names: list[Any]) -> Iterator[Any]:
        wanted = [self.names.index(name) for name in names] or [0]
        reader = self._reader(wanted)
        if hasattr(reader, "num_record_batches"):
            return map(reader.get_batch, range(reader.num_record_batches))
        return iter(reader)

    def table(self, names: list[Any]) -> Any:
        """Some columns of all rows."""
        found = list(self._batches(names))
        return modules().Table.from_batches(found) if found else self.schema.empty_table()

    def batches(self, names: list[Any], n_rows: int) -> Iterator[Any]:
        """Yield some columns of up to ``n_rows`` rows at a time."""
        for batch in self._batches(names):
            for begin in range(0, batch.num_rows, n_rows):
                yield batch.slice(begin, n_rows)


def whole(
    file: Path, chosen: Chosen, ids: IdsAs, tell: Tell, part: TablePart
) -> tuple[dict[str, Any], dict[str, Hashable]]:
    """The columns of a file, with timestamps of no unit yet, and the roles of its columns."""
    with _opened(file) as opened:
        roles, own = _roles(opened, chosen, tell, part)
        table = opened.table(list(dict.fromkeys(own.values())))
    if not table.num_rows:
        raise NoRowsError("the file has columns and no rows")
    return _columns_of(table, roles, own, ids, 0, part), roles


def batches_of(
    file: Path, chosen: Chosen, ids: IdsAs, tell: Tell, part: TablePart, n_rows: int
) -> Iterator[dict[str, Any]]:
    """Yield the columns of up to ``n_rows`` rows at a time.

    Timestamps are :class:`mfrank.data.times.Moments`.
    """
    pyarrow, first_row = modules(), 0
    with _opened(file) as opened:
        roles, own = _roles(opened, chosen, tell, part)
        if not opened.n_rows:
            raise NoRowsError("the file has columns and no rows")
        for batch in opened.batches(list(dict.fromkeys(own.values())), n_rows):
            rows = pyarrow.Table.from_batches([batch])
            yield _columns_of(rows, roles, own, ids, first_row, part)
            first_row += rows.num_rows


def write_parquet(file: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of one length."""
    pyarrow = modules()
    arrays = {name: _arrow(column) for name, column in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(arrays), file)


def _roles(
    opened: _Parquet | _Ipc, chosen: Chosen, tell: Tell, part: TablePart
) -> tuple[dict[str, Hashable], dict[str, Hashable]]:
    """The roles of all columns, and of those that are the file's own."""
    names = opened.names
    roles = assign(part.names(names, chosen), chosen)

    def marks_rows(name: str) -> bool:
        if name not in names:
            return part.key_marks_rows(name)
        batches = opened.batches([name], _AT_ONCE)
        columns = (batch.column(0).to_numpy(zero_copy_only=False) for batch in batches)
        return any(map(has_marks_of_rows, columns))

    def has_dates(name: str) -> bool:
        if name not in names:
            return part.key_has_dates(name)
        first = next(iter(opened.batches([name], LOOKED_AT)), None)
        return first is not None and hold_dates(arrow_values(first.column(0))[:LOOKED_AT])

    tell_columns(part.all_names(names), roles, chosen, tell, marks_rows, has_dates)
    part.table.check(part.file, roles)
    keyed = part.keyed(names, roles)
    return roles, {role: name for role, name in roles.items() if role not in keyed}


def _columns_of(
    table: Any,
    roles: Mapping[str, Hashable],
    own: Mapping[str, Hashable],
    ids: IdsAs,
    first_row: int,
    part: TablePart,
) -> dict[str, Any]:
    # What pandas wrote down would make an index of some columns, and numbers of names.
    frame = table.to_pandas(ignore_metadata=True)
    of_pandas = columns_reader(frame)[1]

    def values_of(name: Any) -> NDArray[Any]:
        column = table.column(name)  # whose UUIDs become bytes in pandas, before pyarrow 26
        return arrow_values(column) if has_uuids(column) else of_pandas(name)

    columns = unsettled_columns(values_of, own, first_row)
    if ids == "text":
        texts = [role for role in ("user", "item") if role in columns]
        columns |= {role: as_text(canonical(columns[role], first_row)) for role in texts}
    keyed = {role: str(key) for role, key in roles.items() if role not in own}
    return columns | part.constants(keyed, ids, table.num_rows)


def _arrow(array: NDArray[Any]) -> Any:
    """The column for pyarrow, which cannot tell the type of an empty object column: it is text."""
    import pyarrow

    return (
        pyarrow.array([], pyarrow.string()) if array.dtype == object and not len(array) else array
    )
