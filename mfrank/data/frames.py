"""Tables in memory: DataFrames of pandas and polars, and tables of every library that speaks Arrow.

No library is imported for this: a caller that has a table of a library has imported it. pyarrow
reads the tables of all other libraries (``__arrow_c_stream__``: duckdb, ibis and so on) and its
own.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_choice, counted, is_labelled, needs
from mfrank.data.columns import (
    ROLES,
    BadRow,
    Chosen,
    assign,
    guess,
    has_marks_of_rows,
    id_columns,
    in_column,
    tell_columns,
)
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects
from mfrank.data.notes import log as _log
from mfrank.data.time_units import TimestampUnit
from mfrank.data.times import hold_dates, moments, settle
from mfrank.data.values import as_numbers
from mfrank.errors import InputTypeError, InputValueError, Notice, within

_SEVERAL = 5
"""Items of lists, none of which a table of items lacks by chance."""
LOOKED_AT = 20
"""Rows of a column that show whether it has dates."""

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

    def marks_rows(name: str) -> bool:
        return has_marks_of_rows(values_of(name))

    def has_dates(name: Any) -> bool:
        first = frame.head(LOOKED_AT) if hasattr(frame, "head") else frame.slice(0, LOOKED_AT)
        return names.count(name) == 1 and hold_dates(columns_reader(first)[1](name))

    def tell(level: int, line: str) -> None:
        _log.log(level, Notice(line))

    tell_columns(names, roles, chosen, tell, marks_rows, has_dates)
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
        remedy = "arrays are taken by `Interactions.from_arrays`"
        if isinstance(frame, str | os.PathLike) or hasattr(frame, "readline"):
            remedy = "files are read by `Interactions.from_file`"
        elif hasattr(frame, "collect"):  # of polars, Spark and others
            remedy = "collect() it first"
        elif getattr(getattr(frame, "dtype", None), "names", None):
            remedy = "pass `pandas.DataFrame(frame)`"
        raise InputTypeError(
            f"`frame` must be a table with named columns, got {type(frame).__name__}", remedy
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


def is_categorical(frame: Any, name: Any) -> bool:
    """Whether a column of pandas or pyarrow is one of categories; those of polars are texts.

    Parquet keeps numbers of the categories of pandas, and that they were such as a note.
    """
    if _is_of("pandas", frame):
        return bool(frame[name].dtype == "category")
    schema: Any = getattr(frame, "schema", None)
    if not hasattr(schema, "pandas_metadata"):
        return False
    noted = (schema.pandas_metadata or {}).get("columns", ())
    was = {each.get("field_name") for each in noted if each.get("pandas_type") == "categorical"}
    return name in was or hasattr(schema.field(name).type, "index_type")


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
    if series.dtype.is_nested():  # to_numpy of early releases makes empty lists of missing ones
        return objects(series.to_list())
    values = np.asarray(series.to_numpy())
    if series.dtype.is_integer() and _are_rounded(values):
        return objects(series.to_list())
    return values


def _of_pandas(column: Any) -> NDArray[Any]:
    if getattr(column.dtype, "tz", None) is not None:  # numpy has no time zones
        return np.asarray(column.dt.tz_convert(None))
    if isinstance(column.dtype, sys.modules["pandas"].StringDtype):
        # A string for each distinct text, not for each row: ids are then numbered in half the time.
        codes, texts = column.factorize()
        shared: NDArray[Any] = objects([*texts, column.dtype.na_value])[codes]  # -1 if missing
        return shared
    values = np.asarray(column)
    if getattr(column.dtype, "kind", "") in "iu" and _are_rounded(values):
        return objects(column.tolist())
    return values


def _are_rounded(whole: NDArray[Any]) -> bool:
    """Whether whole numbers became floats, because of a missing one, that cannot be all of them."""
    return whole.dtype.kind == "f" and bool((np.abs(whole) >= 2**53).any())


def has_uuids(column: Any) -> bool:
    """Whether a column of pyarrow is of UUIDs."""
    return str(column.type) == "extension<arrow.uuid>"


def arrow_values(column: Any) -> NDArray[Any]:
    """The values of a column of pyarrow."""
    if hasattr(column.type, "index_type"):  # categories; pyarrow 26 reads a missing one as another
        column = column.cast(column.type.value_type)
    if has_uuids(column):  # else its bytes
        return objects(column.to_pylist())
    if str(column.type).startswith("extension<pandas."):  # else the numbers within
        return np.asarray(column.to_pandas())
    values = np.asarray(column)
    if str(column.type).lstrip("u").startswith("int") and _are_rounded(values):
        return objects(column.to_pylist())
    return values


def column_of_ids(table: Any, role: str, argument: str) -> Any:
    """The column of a table that has ids of users or items: the only one, or the one so named.

    Anything but a table of pandas, polars or pyarrow is returned as it is.

    Raises
    ------
    ValueError
        There are several columns, and not one of them has such a name. Or the ids are the index of
        pandas, as of ``value_counts``.
    """
    _refuse_counts(table, role, argument)
    if not isinstance(getattr(table, "columns", None), Iterable) or not is_frame(table):
        return table
    names, values_of = columns_reader(table)
    found = names if len(names) == 1 else guess(names, role)
    if len(found) != 1:
        raise InputValueError(
            f"`{argument}` is a table of {', '.join(map(str, names)) or 'no columns'}",
            f'pass one column, such as {argument}["{role}"]',
        )
    return values_of(found[0])


def tell_unread(table: Any, argument: str, *, has_values: bool, reads_order: bool) -> None:
    """Warn of a table of a user's items of which only the ids are read, and why that may matter."""
    if not isinstance(getattr(table, "columns", None), Iterable) or not is_frame(table):
        return
    names, values_of = columns_reader(table)
    for name in guess(names, "value")[: not has_values]:
        _log.warning(
            Notice(
                f"of `{argument}`, column {name!r} is not read, so that each item is liked alike: "
                f"pass `values={argument}[{name!r}]`, or only rows of items that are liked"
            )
        )
    for name in guess(names, "user"):
        if (n_users := len(set(values_of(name).tolist()))) > 1:
            _log.warning(
                Notice(
                    f"`{argument}` are taken as those of one user, and column {name!r} has "
                    f"{n_users:,}: pass the rows of one"
                )
            )
    for name in guess(names, "timestamp")[:reads_order]:
        times = unsettled_columns(values_of, {"timestamp": name})["timestamp"].numbers
        if (np.diff(times) < 0).any():
            _log.warning(
                Notice(
                    f"`{argument}` are taken as oldest first, and are not in the order of their "
                    f"column {name!r}: sort the rows by it"
                )
            )


def _refuse_counts(given: Any, role: str, argument: str) -> None:
    """Raise ValueError for what belongs to ids, such as their counts: the index has the ids."""
    if not hasattr(type(given), "iloc"):
        return
    index, names = given.index, [given.name] if given.ndim == 1 else list(given.columns)
    others = (other for other in ROLES if other != role)
    about = given.ndim == 2 or names[0] is None or any(guess(names, other) for other in others)
    if not about or guess(names, role):
        return
    found = guess([name for name in index.names if name is not None], role)
    one = index.nlevels == 1
    counts = names == ["count"] or (names == [None] and _are_amounts(given, role))
    if not found and not (one and counts and is_labelled(given)):
        return
    raise InputValueError(
        f"`{argument}` is a {type(given).__name__} of what belongs to ids, which its index has:",
        f"pass `{argument}.index`" if one else f"pass `{argument}.reset_index()[{found[0]!r}]`",
    )


def _are_amounts(series: Any, role: str) -> bool:
    """Whether values without a name are rather ratings or counts, by an index of distinct ids.

    Items of a user would hardly be there twice; floats become ids in columns, which have names.
    """
    kind = getattr(series.dtype, "kind", "")
    if kind not in ("i", "u", "f") or not len(series) or not series.index.is_unique:
        return False
    return kind == "f" or (role == "item" and not series.is_unique)


# Tables that are returned, of the library that the caller likes.


FrameKind: TypeAlias = Literal["pandas", "polars", "arrow"]
"""Library of a table: a DataFrame of pandas or polars, or a Table of pyarrow."""


def frame_of(
    columns: Mapping[str, Any],
    items: Any = None,
    kind: FrameKind = "pandas",
    *,
    of_numbers: bool = False,
) -> Any:
    """A table of these columns, joined with what ``items`` has of their column ``item``.

    Parameters
    ----------
    columns : mapping of str to values of equal length
    items : DataFrame, Series, Arrow table or mapping, optional
        What to join: a mapping of item id to name, for a column ``name``; a DataFrame or Series of
        pandas, whose index has the item ids; or a table with a column of them, which in pandas
        counts where the index has no name and is numeric. Items that it lacks get a missing value.
    kind : {"pandas", "polars", "arrow"}, default "pandas"
    of_numbers : bool, default False
        Whether the ids of items begin at 0, and may be the numbers of rows of ``items``.

    Raises
    ------
    ValueError
        ``items`` has an item twice, numbers as ids where the lists have text, a column of these
        names, or an index that only counts fewer rows than there are items; or polars or Arrow has
        no type for ids of several types.
    ModuleNotFoundError
        The library is not installed.
    """
    check_choice("kind", kind, get_args(FrameKind))
    joined = dict(columns)
    if items is not None:
        listed = canonical(columns["item"])
        ids, more = _read_items(items, listed)
        if _counts_items(items, ids, listed):
            # Of a model of row numbers, the lists have these as int32.
            are_ids = getattr(columns["item"], "dtype", np.int32) != np.int32
            _log.log(
                logging.WARNING if are_ids and not of_numbers else logging.INFO,
                Notice(
                    "`items` has no item ids, and an index that counts its rows: its row 0 is "
                    "taken as that of the item 0, and so on; make the item ids its index, as in "
                    "`frame.set_index('item')`, or, if the items are these, name it with "
                    "`rename_axis('item')`"
                ),
            )
        if clash := [name for name in more if name in columns]:
            raise InputValueError(
                f"`items` has a column {clash[0]!r}, as the lists have:", "rename it in `items`"
            )
        known = _distinct(ids)
        rows = known.rows(listed, missing=-1)
        alike = known.are_numbers == (listed.dtype != object)
        if len(rows) and len(known) and not alike and (rows < 0).all():
            raise InputValueError(
                f"`items` has other ids than the lists: {known.summary}; the lists have "
                f"{Ids.factorize(listed)[0].summary}",
                "make the item ids its index, of the same type",
            )
        if len(known) and len(set(listed.tolist())) >= _SEVERAL and (rows < 0).all():
            _log.warning(
                Notice(
                    f"`items` has none of the items of the lists: {known.summary}; the lists have "
                    f"{Ids.factorize(listed)[0].summary}: pass the table of these items"
                )
            )
        joined |= {str(name): _taken(values, rows) for name, values in more.items()}
    if kind == "pandas":
        with needs("pandas", "to_frame needs pandas"):
            import pandas
        return pandas.DataFrame(joined)
    try:
        if kind == "polars":
            with needs("polars", 'to_frame(kind="polars") needs polars'):
                import polars
            return polars.DataFrame({name: _plain(each) for name, each in joined.items()})
        with needs("parquet", 'to_frame(kind="arrow") needs pyarrow'):
            import pyarrow
        return pyarrow.table({name: pyarrow.array(_plain(each)) for name, each in joined.items()})
    except (TypeError, ValueError) as error:  # also those of Arrow, which are of these
        raise InputValueError(
            f"`kind`: {kind} has no type for a column, such as ids of several types: {error}",
            'take kind="pandas"',
        ) from error


def _read_items(items: Any, listed: NDArray[Any]) -> tuple[Any, Mapping[Any, Any]]:
    """The ids of a table of items, and its other columns; ``listed`` are the ids to be found."""
    if isinstance(items, Mapping):
        return list(items), {"name": objects(items.values())}
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(items, pandas.Series | pandas.DataFrame):
        table = items
        if isinstance(items, pandas.Series):
            table = items.to_frame("name" if items.name is None else items.name)
        ids, column = _ids_of_pandas(table, listed)
        return ids, {name: table[name] for name in table.columns if name != column}
    names, values_of = columns_reader(items)
    found = guess(names, "item")
    if len(found) != 1:
        raise InputValueError(
            f"`items` must have one column of item ids, got {', '.join(map(str, names))}",
            "name it item",
        )
    return values_of(found[0]), {name: values_of(name) for name in names if name != found[0]}


def _ids_of_pandas(table: Any, listed: NDArray[Any]) -> tuple[Any, Hashable]:
    """The index, or the column of ids beside an index that only numbers rows, and its name."""
    index = table.index
    if index.name is not None or index.dtype.kind not in "iuf":
        return index, None
    for column in id_columns(list(table.columns), "item"):
        values = _of_pandas(table[column])
        if values.dtype.kind in ("iuf" if listed.dtype != object else "OU"):
            return values, column
        are_numbers = listed.dtype != object and len(listed) > 0
        if are_numbers and len(values) and all(map(_is_whole_text, values)):
            raise InputValueError(
                f"`items` has ids like {values[0]!r} in column {column!r}, and the lists have ids "
                f"like {listed[0]}:",
                "convert the ids: numbers and text are never the same id",
            )
    if listed.dtype != object and len(listed) and not is_labelled(table):
        last = int(listed.max())
        if last >= len(table):
            raise InputValueError(
                f"`items` has an index that counts its {counted(len(table), 'row')}, and the lists "
                f"have the item {last}",
                "make the item ids its index",
            )
    return index, None


def _is_whole_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip().isdecimal()


def _counts_items(items: Any, ids: Any, listed: NDArray[Any]) -> bool:
    """Whether rows of a table of pandas are joined by their numbers."""
    is_index = getattr(ids, "name", "") is None  # arrays and lists have no name
    return is_index and listed.dtype != object and len(listed) > 0 and not is_labelled(items)


def _distinct(ids: Any) -> Ids:
    try:
        return Ids.of(ids)
    except InputValueError as error:
        raise within("`items`", error) from error


def _taken(values: Any, rows: NDArray[np.int64]) -> Any:
    """The values of these rows, missing at -1; of pandas, with the types of its columns."""
    if hasattr(values, "reset_index"):
        column = values.reset_index(drop=True)
        return column.reindex(np.where(rows < 0, len(column), rows)).array
    if (rows >= 0).all():
        return values[rows]
    taken: NDArray[Any] = np.full(len(rows), None, dtype=object)
    taken[rows >= 0] = values[rows[rows >= 0]]
    return taken


def _plain(values: Any) -> Any:
    """Values as a library of Arrow reads them: lists of objects, with None for what is missing."""
    array = objects(values) if isinstance(values, list) else np.asarray(values)
    if array.dtype.kind not in "OUT":
        return array
    return [None if _is_gone(value) else value for value in array.tolist()]


def _is_gone(value: Any) -> bool:
    """Whether it is what pandas has for a missing value."""
    is_nan = isinstance(value, float) and value != value
    return is_nan or type(value).__name__ in ("NAType", "NaTType")
