"""Interactions from arrays, matrices, tables, files and other interactions."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.data import cells, validation
from mfrank.data import tables as table_files
from mfrank.data.cells import Duplicates, ValuesFrom
from mfrank.data.columns import IdsAs, spelled_like
from mfrank.data.frames import frame_columns
from mfrank.data.ids import Ids, UnknownIdError
from mfrank.data.labels import RawIds
from mfrank.data.layouts import Dialect
from mfrank.data.observed import Observed, Selectable
from mfrank.data.tables import is_text
from mfrank.data.text_files import AS_USUAL
from mfrank.data.time_units import TimestampUnit, check_parts, check_unit
from mfrank.data.validation import IdsLike, Parts


@dataclass(frozen=True, eq=False, repr=False)
class Sourced(Selectable):
    """Observed cells with constructors from arrays, matrices, tables and files."""

    @classmethod
    def from_arrays(
        cls,
        users: RawIds,
        items: RawIds,
        values: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
        *,
        timestamp_unit: TimestampUnit | None = None,
        shape: tuple[int, int] | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Self:
        """Build interactions from one array per column, each of shape (n,).

        Arrays on a GPU are copied to the host, where ids are numbered and entries sorted.

        Parameters
        ----------
        users, items : array-like
            Raw ids. ``user_ids`` and ``item_ids`` map them to row numbers; by default, the distinct
            ids are numbered (:meth:`mfrank.data.ids.Ids.factorize`). With ``shape``, they are row
            numbers themselves.
        values : array-like of numbers, optional
            1 by default, so a pair that occurs three times sums to 3.
        timestamps : array-like, optional
            Numbers, dates or ISO 8601 text; dates become seconds since 1970 (UTC).
        timestamp_unit : {"s", "ms", "us", "ns"} or None, default None
            Unit of numeric timestamps, which become seconds; "s" leaves them unchanged. None
            recognizes milli-, micro- and nanoseconds since 1970 and dates like 20240131, and logs
            it; other numbers, such as days or the order of events, are unchanged.
        shape : (n_users, n_items), optional
        duplicates : {"sum", "max", "last"}, default "sum"
        user_ids, item_ids : Ids or ids in row order, optional
            For example the ids of the training data, so that row numbers agree.

        Raises
        ------
        ValueError, TypeError
            If lengths differ, ids are unknown or missing, row numbers exceed ``shape``, values are
            not finite, or timestamps are not in one unit; the message names the row.
        """
        return cls._of_cells(
            *validation.from_arrays(
                users,
                items,
                values,
                timestamps,
                unit=timestamp_unit,
                shape=shape,
                duplicates=duplicates,
                user_ids=user_ids,
                item_ids=item_ids,
            )
        )

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        *,
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
        duplicates: Duplicates = "sum",
    ) -> Self:
        """Build interactions from a scipy or CuPy sparse matrix (users x items) in any format.

        Ids are in row order; by default they are the row numbers. The matrix is copied, except for
        read-only arrays of a canonical CSR (``flags.writeable`` is False, as in
        ``numpy.memmap(mode="r")``), which are shared. A CuPy matrix is copied to the host for
        checks and planning. As long as a canonical CuPy CSR without zeros exists,
        ``backend="cuda"`` reads its arrays in place: do not write to them.

        Raises
        ------
        ValueError, TypeError
            If values are not finite real numbers, or the numbers of ids do not match the shape.
        """
        return cls._of_cells(
            *validation.from_sparse(
                matrix, duplicates=duplicates, user_ids=user_ids, item_ids=item_ids
            )
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | Literal[False] | None = None,
        timestamp: Hashable | Literal[False] | None = None,
        timestamp_unit: TimestampUnit | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Self:
        """Build interactions from a table with one row per interaction.

        Parameters
        ----------
        frame : DataFrame of pandas or polars, or Arrow table
            Also any table with ``__arrow_c_stream__``, if pyarrow is installed.
        user, item, value, timestamp : column name, optional
            By default, columns are recognized by name (:func:`mfrank.data.columns.guess`). Value
            and timestamp may be absent; False ignores them.
        timestamp_unit, duplicates, user_ids, item_ids
            As in :meth:`from_arrays`.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`from_arrays`, or a column is not recognized.
        """
        check_unit(timestamp_unit)
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        columns = frame_columns(frame, chosen, timestamp_unit)
        return cls._from_columns(columns, duplicates, user_ids, item_ids)

    from_pandas = from_frame  # its name when it read no other tables

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | Literal[False] | None = None,
        timestamp: str | int | Literal[False] | None = None,
        timestamp_unit: TimestampUnit | None = None,
        sep: str | None = None,
        quote: str | None = AS_USUAL,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        ids: IdsAs = "auto",
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Self:
        """Build interactions from a text or parquet file, recognized by its suffix.

        Text is .csv, .tsv, .txt, .dat or .data, also with .gz; ``-`` is text on standard input.
        Columns are as in :meth:`from_frame`, timestamps as in :meth:`from_arrays`. For files
        without a header, and for errors, see :func:`mfrank.data.tables.read_columns`.

        Parameters
        ----------
        user, item, value, timestamp : str or int, optional
            Name of the column or, in text, its number from 1.
        sep : str or None, default None
            Separator of the fields of text: one character, or ``::``. None detects commas, tabs,
            semicolons, bars and ``::``, and spaces unless the file is .csv or .tsv.
        quote : "auto", None or str, default "auto"
            Quote character of text fields.

            - ``"auto"``: ``"``. A quoted row of several lines is logged as a warning. It is refused
              if each of its lines is a valid row, because a stray quote swallows rows.
            - ``'"'`` or any other character: without these checks.
            - None: quotes are ordinary text.
        header : bool, optional
            Whether the first row of text names the columns. By default it does if it has a known
            name, if columns are chosen by name, or if only the second row has a number.
        columns : sequence of str, optional
            Names of all columns of text, in order; ``"-"`` ignores a column. For files without a
            header, or to replace its names (``header=True``).
        ids : {"auto", "text"}, default "auto"
            Type of ids in a text file: ``"auto"`` reads a column as integers if every field is
            spelled as one, and otherwise as text (``007``, ``1.0``); ``"text"`` always reads text.
            Ids are then converted to the type of ``user_ids`` or ``item_ids``, if there are any.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        check_unit(timestamp_unit)
        dialect = Dialect(sep, quote, header, columns)
        found = table_files.read_columns(path, chosen, ids, dialect, timestamp_unit)
        user_ids, item_ids = (
            validation.known("users", user_ids),
            validation.known("items", item_ids),
        )
        if is_text(path):
            found["user"] = spelled_like(found["user"], user_ids)
            found["item"] = spelled_like(found["item"], item_ids)
        try:
            return cls._from_columns(found, duplicates, user_ids, item_ids)
        except UnknownIdError as error:
            raise error.given_as(str(path)) from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def _from_columns(
        cls,
        columns: dict[str, NDArray[Any]],
        duplicates: Duplicates,
        user_ids: IdsLike | None,
        item_ids: IdsLike | None,
    ) -> Self:
        return cls.from_arrays(
            columns["user"],
            columns["item"],
            columns.get("value"),
            columns.get("timestamp"),
            timestamp_unit="s",  # as they are: their unit is settled
            duplicates=duplicates,
            user_ids=user_ids,
            item_ids=item_ids,
        )


# Interactions of several data sets as one, such as today's clicks after those of earlier days.


def joined(each: Sequence[Observed], duplicates: Duplicates) -> Parts:
    """Join interactions into one set of cells; rows of the first keep their numbers.

    A cell is only seen if it occurs in one of them and has a value in none.

    Raises
    ------
    ValueError
        If ids are integers in only some, only some have timestamps, or these are in different
        units.
    """
    validation.check_duplicates(duplicates)
    user_ids = joined_ids("user", [one.user_ids for one in each])
    item_ids = joined_ids("item", [one.item_ids for one in each])
    shape = len(user_ids), len(item_ids)
    cells.check_shape(shape)
    rows = [user_ids.rows(one.user_ids.labels) for one in each]
    columns = [item_ids.rows(one.item_ids.labels) for one in each]
    found = cells.from_triples(
        np.concatenate([at[one.entry_users] for at, one in zip(rows, each, strict=True)]),
        np.concatenate([at[one.user_items.indices] for at, one in zip(columns, each, strict=True)]),
        np.concatenate([one.user_items.data for one in each]),
        _joined_times(each),
        shape=shape,
        duplicates=duplicates,
        largest=np.concatenate([one.largest for one in each]),
    )
    sources = {one.cells.values_from for one in each}
    if "weights" in sources or (len(sources) == 1 and found.values_from == "given"):
        source: ValuesFrom = "weights" if "weights" in sources else sources.pop()
        found = found._replace(values_from=source)
    seen_only = [] if found.seen_only is None else [found.seen_only]
    for one, users, items in zip(each, rows, columns, strict=True):
        if (only := one.seen_only) is not None:
            seen_only.append(cells.moved(only.cells, users, items, shape))
    if seen_only:
        known = cells.joined(seen_only)
        left = known.take(cells.not_in(known.rows, found.rows))
        found = found._replace(seen_only=left)
    return validation.finite(found, user_ids, item_ids)


def joined_ids(name: str, each: Sequence[Ids]) -> Ids:
    """The ids of the first, then the new ids of the others, so rows of the first stay.

    Raises
    ------
    ValueError
        If only some ids are integers: equal ids would seem to differ.
    """
    ids, *others = (one for one in each if len(one)) if any(map(len, each)) else each[:1]
    for other in others:
        if ids.labels.dtype != other.labels.dtype:
            raise ValueError(
                f"{name} ids are like {ids.labels.item(0)!r} in one part and like "
                f"{other.labels.item(0)!r} "
                'in another; convert one of them, or read both with ids="text"'
            )
        new = other.labels[ids.rows(other.labels, missing=-1) < 0]
        if len(new):
            ids = ids.followed_by(new)
    return ids


def _joined_times(each: Sequence[Observed]) -> NDArray[np.int64] | None:
    """All timestamps, or None if there are none; ValueError if they do not fit together."""
    times = [one.timestamps for one in each if one.timestamps is not None]
    if len(times) not in (0, len(each)):
        raise ValueError(
            f"{len(times)} of {len(each)} parts have timestamps; leave them out of these with "
            "dataclasses.replace(part, timestamps=None)"
        )
    if not times:
        return None
    spans = dict[str, tuple[int, int]]()
    for number, one in enumerate(each, 1):
        known = [one.timestamps, None if one.seen_only is None else one.seen_only.timestamps]
        ends = [end for some in known if some is not None and len(some) for end in _ends(some)]
        if ends:
            spans[f"part {number}"] = min(ends), max(ends)
    check_parts(spans, "read each part in its own unit, timestamp_unit=")
    return np.concatenate(times)


def _ends(times: NDArray[np.int64]) -> tuple[int, int]:
    return int(times.min()), int(times.max())
