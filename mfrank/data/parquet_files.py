"""Parquet files, by pyarrow and pandas."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mfrank.data.columns import Chosen, assign, tell_columns
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.frames import columns_reader, settled_columns, unsettled_columns
from mfrank.data.labels import canonical
from mfrank.data.quotes import Tell
from mfrank.data.time_units import TimestampUnit

__all__ = ["batches_of", "faults_named", "modules", "number_of_rows", "read", "write"]


def modules() -> Any:
    """Return pyarrow, with its parquet.

    Raises
    ------
    ModuleNotFoundError
        If pandas or pyarrow is not installed.
    """
    try:
        import pandas  # noqa: F401
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "parquet files need pandas and pyarrow: pip install mfrank[parquet]"
        ) from error
    return pyarrow


@contextmanager
def faults_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise what is wrong with a file as a ValueError that begins with its name.

    pyarrow names no file, and reports damage as errors of many kinds.
    """
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        # An error of the system has a number, and a lack of memory is not the file's fault.
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise
        cause = str(error).partition("\n")[0]
        raise ValueError(
            f"{path}: no Parquet file, or a damaged one: {cause}; copy or write it again"
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def number_of_rows(path: str | os.PathLike[str]) -> int:
    """Number of rows of the file, from its footer."""
    parquet = modules().parquet
    with faults_named(path):
        return int(parquet.read_metadata(path).num_rows)


def read(
    file: Path, chosen: Chosen, ids: IdsAs, tell: Tell, unit: TimestampUnit | None = None
) -> dict[str, NDArray[Any]]:
    """Read the columns of a file; see :func:`mfrank.data.table_files.read_columns`."""
    parquet = modules().parquet
    with faults_named(file):
        roles = _roles(parquet.read_schema(file).names, chosen, tell)
        frame = _frame(parquet.read_table(file, columns=list(roles.values())))
        if not len(frame):
            raise ValueError("the file has columns and no rows")
        return settled_columns(_columns_of(frame, roles, ids, 0), roles, chosen, unit)


def batches_of(
    file: Path, chosen: Chosen, ids: IdsAs, n_rows: int, tell: Tell
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the columns of up to ``n_rows`` rows at a time, and the number of rows before.

    Timestamps are :class:`mfrank.data.times.Moments`.
    """
    pyarrow, first_row = modules(), 0
    # A row group is not read as a whole: each column has a buffer.
    with (
        faults_named(file),
        pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened,
    ):
        roles = _roles(opened.schema_arrow.names, chosen, tell)
        if not opened.metadata.num_rows:
            raise ValueError("the file has columns and no rows")
        for batch in opened.iter_batches(n_rows, columns=list(roles.values()), use_threads=False):
            frame = _frame(pyarrow.Table.from_batches([batch]))
            yield _columns_of(frame, roles, ids, first_row), first_row
            first_row += len(frame)


def write(file: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of one length."""
    pyarrow = modules()
    arrays = {name: _arrow(column) for name, column in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(arrays), file)


def _roles(names: list[str], chosen: Chosen, tell: Tell) -> dict[str, Hashable]:
    roles = assign(names, chosen)
    tell_columns(names, roles, chosen, tell)
    return roles


def _frame(table: Any) -> Any:
    """A table as a DataFrame with all of its columns.

    What pandas wrote down of the table is ignored: it would make an index of some columns, and
    numbers of names.
    """
    return table.to_pandas(ignore_metadata=True)


def _columns_of(
    frame: Any, roles: Mapping[str, Hashable], ids: IdsAs, first_row: int
) -> dict[str, Any]:
    columns = unsettled_columns(columns_reader(frame)[1], roles, first_row)
    if ids == "text":
        columns |= {role: as_text(canonical(columns[role], first_row)) for role in ("user", "item")}
    return columns


def _arrow(array: NDArray[Any]) -> Any:
    """The column for pyarrow, which cannot tell the type of an empty object column: it is text."""
    import pyarrow

    return (
        pyarrow.array([], pyarrow.string()) if array.dtype == object and not len(array) else array
    )
