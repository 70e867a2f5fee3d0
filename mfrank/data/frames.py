"""Tables in memory: DataFrames of pandas and polars, and tables of every library that speaks Arrow.

No library is imported for this: a caller that has a table of a library has imported it. pyarrow
reads the tables of all other libraries (``__arrow_c_stream__``: duckdb, ibis and so on) and its
own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import needs
from mfrank.data.columns import BadRow, Chosen, assign, guess, in_column, tell_columns
from mfrank.data.labels import objects
from mfrank.data.notes import log as _log
from mfrank.data.time_units import TimestampUnit
from mfrank.data.times import moments, settle
from mfrank.data.values import as_numbers
from mfrank.errors import InputTypeError, InputValueError, Notice

_READ: Mapping[str, Callable[[Any], Any]] = {"value": as_numbers, "timestamp": moments}


def is_frame(data: Any) -> bool:
    """Whether ``data`` is a table of pandas, or of what speaks Arrow."""
    is_arrow = hasattr(type(data), "__arrow_c_stream__") or is_dataset(data)
    return is_arrow or _is_of("pandas", data)


def is_dataset(data: Any) -> bool:
    """Whether ``data`` is a dataset or a scanner of pyarrow."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset | module.Scanner)


def is_stream_of_rows(data: Any) -> bool:
    """Whether ``data`` is a table that is not in memory, and is read in batches by pyarrow."""
    arrow = sys.modules.get("pyarrow")
    in_memory = _is_of("pandas", data) or _is_of("polars", data)
    if arrow is not None and isinstance(data, arrow.Table | arrow.RecordBatch):
        in_memory = True
    return is_frame(data) and not in_memory


def frame_columns(
    frame: Any, chosen: Chosen, unit: TimestampUnit | None = None
) -> dict[str, NDArray[Any]]:
    """Role -> values, from a table; roles as in :func:`mfrank.data.columns.assign`.

    Categories are read as their values, dates of any time zone as UTC. Values are converted by
    :func:`mfrank.data.values.as_numbers`, timestamps by
    :func:`mfrank.data.times.epoch_seconds`, in this unit. A missing id or value stays one: NaN,
    None or NA. What is read and ignored is logged.

    Raises
    ------
    ValueError
        As in :func:`mfrank.data.columns.assign`, or a value or timestamp cannot be read; the
        message names its row and column.
    TypeError
        If it is a single column.
    ModuleNotFoundError
        If the table is neither of pandas nor of polars, and pyarrow is not installed.
    """
    names, values_of = columns_reader(frame)
    try:
        roles = assign(names, chosen)
    except InputValueError as error:
        problem, remedy = error.args
        remedies = f"{remedy}{_of_index(frame)}".removeprefix("; ")
        raise InputValueError(problem, remedies, place=error.place) from None
    tell_columns(names, roles, chosen, lambda level, line: _log.log(level, Notice(line)))
    _tell_index(frame, roles, chosen)
    return settled_columns(unsettled_columns(values_of, roles), roles, chosen, unit)


def settled_columns(
    found: dict[str, Any],
    roles: Mapping[str, Hashable],
    chosen: Chosen,
    unit: TimestampUnit | None,
) -> dict[str, NDArray[Any]]:
    """The columns with timestamps of one unit; ValueError names the column and the row."""
    try:
        return settle(found, unit, is_chosen=chosen.get("timestamp") is not None)
    except BadRow as error:
        what, place = f"{error.what} in row {error.row}", f"row {error.row}"
        raise in_column(what, "timestamp", roles["timestamp"], place=place) from error


def unsettled_columns(
    values_of: Callable[[Any], NDArray[Any]], roles: Mapping[str, Hashable], first_row: int = 0
) -> dict[str, Any]:
    """Role -> values; timestamps are :class:`mfrank.data.times.Moments`.

    ``values_of`` reads a column by its name. Errors count rows from ``first_row``, and are those of
    :func:`frame_columns`.
    """
    found: dict[str, Any] = {}
    for role, name in roles.items():
        try:
            found[role] = _READ[role](values_of(name)) if role in _READ else values_of(name)
        except BadRow as error:
            place = f"row {first_row + error.row}"
            what, field = f"{error.what} in {place}", values_of(name)[error.row]
            raise in_column(what, role, name, field, place) from error
    return found


def _is_of(library: str, data: Any) -> bool:
    """Whether ``data`` is a DataFrame of the library, which is not imported."""
    module = sys.modules.get(library)
    return module is not None and isinstance(data, module.DataFrame)


def columns_reader(frame: Any) -> tuple[list[Hashable], Callable[[Any], NDArray[Any]]]:
    """The names of all columns, and the function that reads one of them."""
    if _is_of("pandas", frame):
        return list(frame.columns), lambda name: _of_pandas(frame[name])
    if _is_of("polars", frame):
        return list(frame.columns), lambda name: _of_polars(frame[name])
    if not hasattr(frame, "__arrow_c_stream__"):
        raise InputTypeError(
            f"`frame` must be a table with named columns, got {type(frame).__name__}",
            "arrays are taken by Interactions.from_arrays",
        )
    with needs("parquet", f"a {type(frame).__name__} is read with pyarrow"):
        import pyarrow
    try:
        table = pyarrow.table(frame)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"`frame`: a {type(frame).__name__} is not a table with named columns: {error}"
        ) from error
    return list(table.column_names), lambda name: arrow_values(table[name])


def _of_index(frame: Any) -> str:
    """That an index of pandas with a name is no column."""
    named = [name for name in getattr(getattr(frame, "index", None), "names", ()) if name]
    if not named:
        return ""
    return f"; the index has {', '.join(map(repr, named))}: reset_index() makes columns of it"


def _tell_index(frame: Any, roles: Mapping[str, Hashable], chosen: Chosen) -> None:
    """Warn of an index of pandas that may be the times or the values, of which there are none."""
    index = getattr(frame, "index", None)
    names = [name for name in getattr(index, "names", ()) if name is not None]
    for role in ("timestamp", "value"):
        meant = guess(names, role)
        if role == "timestamp" and getattr(getattr(index, "dtype", None), "kind", "") == "M":
            meant = meant or ["dates"]
        if meant and role not in roles and chosen.get(role) is None:
            _log.warning(
                "the index (%s) looks like the %s and is not read: reset_index() makes a column "
                "of it",
                *(meant[0], role),
            )


def _of_polars(series: Any) -> NDArray[Any]:
    """The values of a column, whose lists of one length and structs are no second dimension."""
    values = np.asarray(series.to_numpy())
    return values if values.ndim == 1 else objects(series.to_list())


def _of_pandas(column: Any) -> NDArray[Any]:
    if getattr(column.dtype, "tz", None) is not None:  # numpy has no time zones
        return np.asarray(column.dt.tz_convert(None))
    return np.asarray(column)


def arrow_values(column: Any) -> NDArray[Any]:
    """The values of a column of pyarrow."""
    if hasattr(column.type, "index_type"):  # categories; pyarrow 26 reads a missing one as another
        column = column.cast(column.type.value_type)
    if str(column.type) == "extension<arrow.uuid>":  # else its bytes
        return objects(column.to_pylist())
    if str(column.type).startswith("extension<pandas."):  # else the numbers within
        return np.asarray(column.to_pandas())
    return np.asarray(column)


def frame_of(columns: Mapping[str, Any], items: Any) -> Any:
    """A DataFrame, whose items are joined with the columns of a table with their ids as index."""
    with needs("pandas", "to_frame needs pandas"):
        import pandas
    frame = pandas.DataFrame(columns)
    if items is None:
        return frame
    table = items.to_frame() if isinstance(items, pandas.Series) else items
    if clash := [name for name in table.columns if name in frame.columns]:
        raise InputValueError(
            f"`items` has a column {clash[0]!r}, as the lists have:", "rename it in `items`"
        )
    return frame.join(table, on="item")
