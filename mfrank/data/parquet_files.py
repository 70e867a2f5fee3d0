"""Parquet files, by pyarrow and pandas."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mfrank.data.columns import BadRow, Chosen, assign, in_column
from mfrank.data.fields import IdsAs, as_text
from mfrank.data.frames import columns_reader, unsettled_columns
from mfrank.data.labels import canonical
from mfrank.data.time_units import TimestampUnit
from mfrank.data.times import settle

__all__ = ["batches_of", "modules", "number_of_rows", "read", "write"]


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


def number_of_rows(path: str | os.PathLike[str]) -> int:
    """Number of rows of the file, from its footer."""
    return int(modules().parquet.read_metadata(path).num_rows)


def read(
    file: Path, chosen: Chosen, ids: IdsAs, unit: TimestampUnit | None = None
) -> dict[str, NDArray[Any]]:
    """Read the columns of a file; see :func:`mfrank.data.table_files.read_columns`."""
    parquet = modules().parquet
    roles = assign(parquet.read_schema(file).names, chosen)
    frame = parquet.read_table(file, columns=list(roles.values())).to_pandas()
    if not len(frame):
        raise ValueError(f"{file}: the file has columns and no rows")
    found = _columns_of(file, frame, roles, ids, 0)
    try:
        return settle(found, unit, is_chosen=chosen.get("timestamp") is not None)
    except BadRow as error:
        what = in_column(f"{error.what} in row {error.row}", "timestamp", roles["timestamp"])
        raise ValueError(f"{file}: {what}") from error


def batches_of(
    file: Path, chosen: Chosen, ids: IdsAs, n_rows: int
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the columns of up to ``n_rows`` rows at a time, and the number of rows before.

    Timestamps are :class:`mfrank.data.times.Moments`.
    """
    pyarrow, first_row = modules(), 0
    # A row group is not read as a whole: each column has a buffer.
    with pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as opened:
        roles = assign(opened.schema_arrow.names, chosen)
        if not opened.metadata.num_rows:
            raise ValueError(f"{file}: the file has columns and no rows")
        for batch in opened.iter_batches(n_rows, columns=list(roles.values()), use_threads=False):
            frame = pyarrow.Table.from_batches([batch]).to_pandas()
            yield _columns_of(file, frame, roles, ids, first_row), first_row
            first_row += len(frame)


def write(file: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of one length."""
    pyarrow = modules()
    arrays = {name: _arrow(column) for name, column in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(arrays), file)


def _columns_of(
    file: Path, frame: Any, roles: Mapping[str, Hashable], ids: IdsAs, first_row: int
) -> dict[str, Any]:
    try:
        columns = unsettled_columns(columns_reader(frame)[1], roles, first_row)
        if ids == "text":
            columns |= {
                role: as_text(canonical(columns[role], first_row)) for role in ("user", "item")
            }
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return columns


def _arrow(array: NDArray[Any]) -> Any:
    """The column for pyarrow, which cannot tell the type of an empty object column: it is text."""
    import pyarrow

    return (
        pyarrow.array([], pyarrow.string()) if array.dtype == object and not len(array) else array
    )
