"""Interactions of users with items: the input of every fit, split and evaluation."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mfrank.arrays import (
    CSR,
    MadeOfFields,
    as_array,
    check_flags,
    check_instance,
    counted,
    is_number,
    lazy,
    needs,
    read_only,
    read_only_rows,
    refuse_labels,
    shown,
    sparse_to_host,
    table,
)
from mfrank.data import cells, interaction_folder, selection, sources
from mfrank.data.cells import Cells, Counts, SummedCells, ValuesFrom
from mfrank.data.concatenation import as_parts, joined
from mfrank.data.events import EventWeights, KindWeights
from mfrank.data.fields import IdsAs
from mfrank.data.frame_chunks import ROWS_AT_ONCE
from mfrank.data.frames import is_frame
from mfrank.data.ids import Ids
from mfrank.data.ingest import ingest, ingest_chunks
from mfrank.data.labels import RawIds
from mfrank.data.layouts import Dialect, Lines
from mfrank.data.locations import Location
from mfrank.data.merging import Duplicates
from mfrank.data.notes import MOST_LINES, noting, weightings
from mfrank.data.row_choice import (
    ReadWeights,
    ReadWhere,
    Where,
    checked_event_weights,
    checked_where,
    joined_where,
)
from mfrank.data.sources import IdsLike
from mfrank.data.sql import rows_of_query
from mfrank.data.text_rows import AS_USUAL
from mfrank.data.time_units import TimestampUnit
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import Origin, path_of

if TYPE_CHECKING:
    from mfrank.data.report import DataReport


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(MadeOfFields):
    """Observed cells of the users x items matrix, with the ids of its rows and columns.

    Create with :meth:`from_arrays`, :meth:`from_sparse`, :meth:`from_frame`, :meth:`from_file` or
    :meth:`of`, which apply the rules below. Immutable: arrays are read-only. The input is never
    modified; it may be shared only where it is read-only.

    - Repeated cells are merged by ``duplicates``: "sum" (the default; in float64), "max", or
      "last". "last" takes the value with the latest timestamp; ties, and data without timestamps,
      are decided by input order. A merged cell gets its latest timestamp.
    - A cell of value 0 is *only seen*: models do not learn from it, and lists leave it out. The
      same holds for entries that :meth:`at_least` drops, that :meth:`weighted` makes 0, that cancel
      (+1 and -1), or that are too small for the dtype. The number of zeros is logged ("mfrank"), as
      a warning if the other values vary: on a rating scale, 0 may mean "not rated".
    - Negative values stay; the objective defines their meaning.
    - NaN, infinite values and sums beyond the range of float32 are refused.
    - Values become float32; only a float64 sparse matrix stays float64. Integers above 2^24 are
      rounded.
    - Users and items without entries stay if ``shape``, ids or a matrix include them. Each side has
      fewer than 2^31 rows; entries are unlimited.

    Attributes
    ----------
    user_items : scipy.sparse.csr_array, shape (n_users, n_items)
        float32 or float64; columns ascending within a row, no duplicates, no zeros. Read-only:
        :meth:`to_scipy` returns a writable copy.
    user_ids, item_ids : Ids
        Raw ids of rows and columns.
    timestamps : int64, shape (nnz,), or None
        Aligned with ``user_items.data``. Dates, and numbers of a stated or recognized unit, are
        seconds since 1970 (UTC); other numbers, such as days, are unchanged.
    seen_only : Interactions or None
        Seen cells without a value, such as ratings of 0 or below a threshold. They have the same
        shape and ids, values of 1, and timestamps if these interactions have some.
        ``dataclasses.replace(data, seen_only=None)`` removes them.
    threshold : float or None
        The highest threshold of :meth:`at_least`; None for raw data. Parts, joined parts with equal
        thresholds, folders and models inherit it.
    where : mapping of str to tuple of str, or None
        The columns of the table that was read, without ids and times: the values that ``where``
        chose rows by, as text, or None if rows with any value were read. Inherited as the
        threshold; models have the columns with values.
    event_weights : mapping of str to float, or None
        What an event of each kind counts (``weights``); empty for values as they are. Inherited
        as the threshold.
    """

    _noted = ("_summed", "_values_from", "_notes")

    user_items: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    timestamps: NDArray[np.int64] | None = None
    seen_only: Interactions | None = None
    threshold: float | None = field(default=None, kw_only=True)
    where: ReadWhere = field(default_factory=dict, kw_only=True)
    event_weights: ReadWeights = field(default_factory=dict, kw_only=True)
    origin: Origin = field(default_factory=dict, kw_only=True)
    _views: dict[tuple[str, Any], CSR] = field(default_factory=dict, init=False)
    # No arguments of the constructor, so that whoever replaces the matrix loses them.
    _summed: SummedCells | None = field(default=None, init=False)
    _values_from: ValuesFrom = field(default="given", init=False)
    _notes: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        if self.threshold is not None and not is_number(self.threshold):
            raise InputValueError(
                f"`threshold` must be a finite number or None, got {shown(self.threshold)}"
            )
        for name in ("user_ids", "item_ids"):
            check_instance(name, getattr(self, name), Ids, "Ids, such as Ids.of(labels)")
        if not sp.issparse(self.user_items):
            raise InputTypeError(
                "`user_items` must be a scipy.sparse.csr_array (users x items), got "
                f"{type(self.user_items).__name__}"
            )
        shape = (len(self.user_ids), len(self.item_ids))
        if self.user_items.shape != shape:
            raise InputValueError(
                f"`user_items` has {self.user_items.shape[0]} users and {self.user_items.shape[1]} "
                f"items, but ids are given for {shape[0]} and {shape[1]}"
            )
        if self.timestamps is not None and len(self.timestamps) != self.user_items.nnz:
            raise InputValueError(
                f"`timestamps` must have one for each entry: got {len(self.timestamps)} for "
                f"{counted(self.nnz, 'entry')}"
            )
        object.__setattr__(self, "user_items", read_only_rows(self.user_items, "user_items"))
        object.__setattr__(self, "origin", dict(self.origin))  # of its own, for its saves
        self._with_rows(self.where, self.event_weights)
        if self.timestamps is not None:
            object.__setattr__(self, "timestamps", read_only(self.timestamps))
        object.__setattr__(self, "seen_only", self._own_seen_only())

    def _own_seen_only(self) -> Interactions | None:
        """The cells that are only seen, with these ids; None if there are none."""
        given = self.seen_only
        if given is None:
            return None
        check_instance("seen_only", given, Interactions, "Interactions, or None")
        if given.user_items.shape != self.user_items.shape:
            raise InputValueError(
                f"`seen_only` must have the shape {self.user_items.shape}, got "
                f"{given.user_items.shape}"
            )
        if self.timestamps is not None and given.timestamps is None:
            raise InputValueError("`seen_only` must have timestamps, as these interactions have")
        if not given.nnz:
            return None
        own = given.user_ids is self.user_ids and given.item_ids is self.item_ids
        timed = self.timestamps is not None
        if own and timed == (given.timestamps is not None) and given.seen_only is None:
            return given
        return replace(
            given,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            timestamps=given.timestamps if timed else None,
            seen_only=None,
        )

    # Constructors.

    @classmethod
    def of(cls, data: Any) -> Interactions:
        """Convert Interactions (unchanged), a scipy or CuPy sparse matrix, or a table.

        See :meth:`from_frame` for tables.

        Raises
        ------
        TypeError
            If it is something else.
        """
        if isinstance(data, Interactions):
            return data
        data = sparse_to_host(data)
        if sp.issparse(data):
            return cls.from_sparse(data)
        if is_frame(data):
            return cls.from_frame(data)
        remedy = "make them with `Interactions.from_arrays`"
        if isinstance(data, np.ndarray):
            remedy = "convert a dense array with scipy.sparse.csr_array(array)"
        elif hasattr(data, "collect"):
            remedy = "collect() it first"
        raise InputTypeError(
            "expected Interactions, a scipy sparse matrix (users x items) or a DataFrame of pandas "
            f"or polars, got {type(data).__name__}",
            remedy,
        )

    @classmethod
    @noting
    def from_arrays(
        cls,
        users: RawIds,
        items: RawIds,
        values: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
        *,
        events: ArrayLike | None = None,
        weights: KindWeights | None = None,
        cap: float | None = None,
        half_life: float | None = None,
        timestamp_unit: TimestampUnit | None = None,
        shape: tuple[int, int] | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
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
        events : array-like of text or whole numbers, optional
            The kind of each event, such as "view"; needs ``weights``.
        weights : mapping of kind to number, optional
            What an event of each kind counts, such as ``{"view": 1, "purchase": 5}``: its value,
            times that of ``values``, if any. Events of a pair add up. 0 is only seen, below 0 is a
            dislike (see above), and None leaves the rows out. Models that read values learn from
            them, such as ALS under :class:`mfrank.WRMF`.
        cap, half_life : float, optional
            Of the sums of weights, as in :meth:`mfrank.Events.weighted`.
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
        columns, known_ids = (users, items, values, timestamps), (user_ids, item_ids)
        kinds = events, EventWeights.of_arrays(events, weights, cap, half_life)
        found = sources.from_arrays(*columns, timestamp_unit, duplicates, known_ids, shape, *kinds)
        return cls._of_cells(*found)

    @classmethod
    @noting
    def from_sparse(
        cls,
        matrix: Any,
        *,
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
        duplicates: Duplicates = "sum",
    ) -> Interactions:
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
        return cls._of_cells(*sources.from_sparse(matrix, duplicates, (user_ids, item_ids)))

    @classmethod
    @noting
    def from_frame(
        cls,
        frame: Any,
        *,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | Literal[False] | None = None,
        timestamp: Hashable | Literal[False] | None = None,
        event: Hashable | None = None,
        weights: KindWeights | None = None,
        cap: float | None = None,
        half_life: float | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Build interactions from a table with one row per interaction.

        Parameters
        ----------
        frame : DataFrame of pandas or polars, or Arrow table
            Also what has ``__arrow_c_stream__``, such as a relation of DuckDB, a dataset or a
            scanner of pyarrow, all read in batches by pyarrow; or a list or iterator of tables.
        user, item, value, timestamp : column name, optional
            By default, columns are recognized by name (:func:`mfrank.data.columns.guess`). Value
            and timestamp may be absent; False ignores them.
        event : column name, optional
            The kind of each event; needs ``weights``, with which it is recognized by name. A column
            of values is then read only if ``value`` names it.
        where : mapping of column name to a value or a list of values, optional
            Read only rows with these values, such as ``{"event": "purchase"}``, in all of these
            columns. Values are compared as text; a warning names those that no row has.
        weights, cap, half_life, timestamp_unit, duplicates, user_ids, item_ids
            As in :meth:`from_arrays`.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`from_arrays`, or a column is not recognized.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        ids, events = (user_ids, item_ids), EventWeights.of(event, weights, where, cap, half_life)
        how = chosen, timestamp_unit, duplicates, ids, events
        return cls._of_cells(*sources.from_frame(frame, *how))

    from_pandas = from_frame  # its name when it read no other tables

    @classmethod
    @noting
    def from_sql(
        cls,
        query: Any,
        connection: Any,
        *,
        params: Any = None,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | Literal[False] | None = None,
        timestamp: Hashable | Literal[False] | None = None,
        event: Hashable | None = None,
        weights: KindWeights | None = None,
        cap: float | None = None,
        half_life: float | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
        folder: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
    ) -> Interactions:
        """Build interactions from the rows of a database, which are read in chunks.

        The connection stays open, and its transaction as it is. psycopg and SQLAlchemy keep the
        rows on the server meanwhile, if it can.

        Parameters
        ----------
        query : str, or a statement of SQLAlchemy
            A SELECT, or the name of a table.
        connection : connection
            Of DB-API 2, such as of sqlite3, psycopg or duckdb; or a connection, an engine or the
            URL of SQLAlchemy.
        params : sequence or mapping, optional
            Values of the placeholders in the query, in the style of the driver; for SQLAlchemy a
            mapping of what is written as ``:name``.
        user, item, value, timestamp, event, weights, cap, half_life, where, timestamp_unit
        duplicates, user_ids, item_ids
            As in :meth:`from_frame`.
        folder : path, optional
            Where to write the interactions, as :meth:`ingest` does, in place of memory. Then
            ``user_ids`` and ``item_ids`` cannot be given.
        show_progress : bool, default False
            With ``folder``: show progress, in rows, on stderr.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`from_frame`, or the database refuses the query; its message is kept.
        ModuleNotFoundError
            The connection is a URL, and SQLAlchemy is not installed.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        events = EventWeights.of(event, weights, where, cap, half_life)
        if folder is not None and (user_ids is not None or item_ids is not None):
            raise InputValueError("`user_ids` and `item_ids` are not for `folder`:", "omit them")
        with closing(rows_of_query(query, connection, params, ROWS_AT_ONCE)) as chunks:
            if folder is None:
                how = timestamp_unit, duplicates, (user_ids, item_ids), events
                return cls._of_cells(*sources.from_chunks(chunks, "`query`", chosen, *how))
            mapped = ingest_chunks(
                *(chunks, "`query`", folder, chosen),
                unit=timestamp_unit,
                ids="auto",
                duplicates=duplicates,
                show_progress=show_progress,
                events=events,
            )
        return cls._of_folder(mapped)

    @classmethod
    @noting
    def from_file(
        cls,
        path: Location,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | Literal[False] | None = None,
        timestamp: str | int | Literal[False] | None = None,
        event: str | int | None = None,
        weights: KindWeights | None = None,
        cap: float | None = None,
        half_life: float | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
        sep: str | None = None,
        quote: str | None = AS_USUAL,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        encoding: str | None = None,
        comment: str | None = None,
        lines: Lines | None = None,
        ids: IdsAs = "auto",
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Build interactions from text or parquet files, recognized by their suffix.

        Text is .csv, .tsv, .txt, .dat or .data, also packed with .gz, .bz2, .xz, .zst or .zip,
        which is recognized by content; ``-`` is text on standard input, and ``"a.zip/b.csv"`` one
        file of several in a zip file. Several files are read as one, in the order of their names.
        Columns are as in :meth:`from_frame`, timestamps as in :meth:`from_arrays`.
        For files without a header, and for errors, see :func:`mfrank.data.tables.read_columns`.

        Parameters
        ----------
        path : path, or list of paths
            A file, a folder of files such as Spark writes, or a pattern such as ``"plays-*.csv"``;
            each also as a URL of fsspec, such as ``s3://shop/plays``, with the extra ``remote``.
            In folders and patterns, names that begin with ``_`` or ``.`` are skipped. A folder
            ``date=2024-01-31`` gives its files a column ``date``. Files without rows are skipped;
            all others must have the same columns, or, in text, no header after a first file with
            one.
        user, item, value, timestamp, event : str or int, optional
            Name of the column or, in text, its number from 1.
        weights, cap, half_life : optional
            What an event of each kind counts, and their sums, as in :meth:`from_arrays`.
        where : mapping of column to a value or a list of values, optional
            Rows to read, as in :meth:`from_frame`; columns by name or number.
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
        encoding : str, optional
            Encoding of text, such as ``"cp1252"``, by any name that Python knows. By default text
            is UTF-8, or UTF-16 or UTF-32 if its begin shows that, which is logged.
        comment : str, optional
            What lines begin with that are skipped wherever they are, such as ``"#"``. By default
            only comments above all rows are skipped. Both are logged.
        lines : {"rows", "lists", "baskets", "libfm", "libsvm"}, optional
            What a line of text is: one interaction, a user and their items, a basket of items (its
            number, from 0, is the user), a value and two features of 1 (user and item), or a label
            and items with values (the row's number, from 0, is the user). Recognized where the
            first lines show it, which is logged.
        ids : {"auto", "text"}, default "auto"
            Type of ids in a text file: ``"auto"`` reads a column as integers if every field is
            spelled as one, and otherwise as text (``007``, ``1.0``); ``"text"`` always reads text.
            Ids are then converted to the type of ``user_ids`` or ``item_ids``, if there are any.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        dialect = Dialect(sep, quote, header, columns, encoding, comment, lines)
        how = dialect, ids, timestamp_unit, duplicates
        weighed = (user_ids, item_ids), EventWeights.of(event, weights, where, cap, half_life)
        return cls._of_cells(*sources.from_file(path, chosen, *how, *weighed))

    @classmethod
    def _of_cells(
        cls,
        found: Cells,
        user_ids: Ids,
        item_ids: Ids,
        origin: Origin | None = None,
        threshold: float | None = None,
        where: ReadWhere | None = None,
        event_weights: ReadWeights | None = None,
    ) -> Interactions:
        """Interactions of canonical cells, with what is known of them."""
        only = found.seen_only
        seen_only = None if only is None else cls(only.rows, user_ids, item_ids, only.timestamps)
        made = cls(
            *(found.rows, user_ids, item_ids, found.timestamps, seen_only),
            threshold=threshold,
            where=where or {},
            event_weights=event_weights or {},
            origin=origin or {},
        )
        if found.summed is not None and len(found.summed.places):
            object.__setattr__(made, "_summed", found.summed)
        object.__setattr__(made, "_values_from", found.values_from)
        return made

    def _with_cells(self, found: Cells) -> Interactions:
        """These cells in place of its own; cells that are only seen stay, unless it has some."""
        if found.seen_only is None and self.seen_only is not None:
            found = found._replace(seen_only=self.seen_only.cells)
        made = self._of_cells(found, self.user_ids, self.item_ids, self.origin, *self._known)
        return made._with_notes(self._notes)

    @property
    def _known(self) -> tuple[float | None, ReadWhere, ReadWeights]:
        """What parts of these interactions inherit."""
        return self.threshold, self.where, self.event_weights

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read and left out to make these interactions, in lines; see :meth:`report`."""
        return self._notes

    @property
    def weightings(self) -> tuple[str, ...]:
        """Functions that weighted the values, such as ``("log_weight",)``."""
        return weightings(self)

    def _with_notes(self, lines: Iterable[str]) -> Interactions:
        """Take lines on how these interactions, which nobody has yet, were made."""
        each = tuple(dict.fromkeys((*self._notes, *lines)))
        object.__setattr__(self, "_notes", each[:MOST_LINES])
        return self

    def _with_rows(self, where: ReadWhere, weights: ReadWeights) -> Interactions:
        """Take the rows of which these interactions, which nobody has yet, were made."""
        object.__setattr__(self, "where", checked_where(where))
        object.__setattr__(self, "event_weights", checked_event_weights(weights))
        return self

    # The cells, and views of them.

    @property
    def cells(self) -> Cells:
        """The cells with values, without the ones that are only seen."""
        return Cells(self.user_items, self.timestamps, None, self._summed, self._values_from)

    @property
    def largest(self) -> NDArray[Any]:
        """The largest entry of each cell, if several were summed; otherwise the value."""
        return self.cells.largest

    @property
    def n_users(self) -> int:
        """Number of users, including users without entries."""
        return int(self.user_items.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items, including items without entries."""
        return int(self.user_items.shape[1])

    @property
    def nnz(self) -> int:
        """Number of observed cells."""
        return int(self.user_items.nnz)

    @lazy
    def item_users(self) -> sp.csr_array:
        """The transposed matrix as CSR, shape (n_items, n_users); built once."""
        return read_only_rows(self.user_items.T.tocsr(), "item_users")

    @lazy
    def counts(self) -> Counts:
        """Numbers of observed items of each user and of users of each item."""
        items = np.bincount(self.user_items.indices, minlength=self.n_items)
        users = np.diff(self.user_items.indptr)
        return Counts(*(read_only(each.astype(np.int64)) for each in (users, items)))

    @lazy
    def seen(self) -> sp.csr_array:
        """All seen cells, shape (n_users, n_items); lists leave them out.

        ``user_items`` plus the cells of ``seen_only`` with the stored value 0; without
        ``seen_only``, ``user_items`` itself. Built once, in memory.
        """
        if self.seen_only is None:
            return self.user_items
        return read_only_rows(cells.with_zeros(self.user_items, self.seen_only.user_items), "seen")

    @property
    def entry_users(self) -> NDArray[np.int32]:
        """User row of every entry, int32, shape (nnz,), aligned with ``user_items.indices``."""
        return cells.entry_rows(self.user_items)

    def user_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """The users' rows for the kernels, cached; ``dtype=None`` drops the values."""
        return self._view("user_items", dtype)

    def item_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """The items' rows for the kernels, cached; ``dtype=None`` drops the values."""
        return self._view("item_users", dtype)

    def seen_rows(self) -> CSR:
        """The users' rows of ``seen`` for the kernels, without values; cached."""
        return self.user_rows(None) if self.seen_only is None else self._view("seen", None)

    def _view(self, side: str, dtype: DTypeLike | None) -> CSR:
        key = side, None if dtype is None else np.dtype(dtype)
        if key not in self._views:
            across = self.user_rows(dtype) if side == "item_users" else None
            self._views[key] = CSR.from_scipy(getattr(self, side), dtype, across)
        return self._views[key]

    def to_scipy(self) -> sp.csr_matrix:
        """A writable copy of the users x items matrix for other libraries.

        It is a ``csr_matrix``, the only format that implicit reads: ``model.fit(data.to_scipy())``.
        """
        matrix: sp.csr_matrix = sp.csr_matrix(self.user_items, copy=True)
        return matrix

    def to_pandas(self) -> Any:
        """DataFrame with the columns user, item, value and, if there are any, timestamp.

        Cells that are only seen are in ``seen_only.to_pandas()``.

        Raises
        ------
        ModuleNotFoundError
            If pandas is not installed.
        """
        with needs("pandas", "to_pandas needs pandas"):
            import pandas
        columns = {
            "user": self.user_ids.labels[self.entry_users],
            "item": self.item_ids.labels[self.user_items.indices],
            "value": self.user_items.data,
        }
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps
        return pandas.DataFrame(columns)

    # Selections.

    @noting
    def take(self, mask: ArrayLike) -> Interactions:
        """Select the entries where ``mask`` is true; shape and ids stay.

        ``mask`` is bool of shape (nnz,), aligned with ``user_items.data``. Other entries are
        removed and no longer seen, as a test part requires; ``seen_only`` is unchanged.
        """
        refuse_labels("mask", mask, "make it of to_pandas(), which has the order of the entries")
        chosen = as_array(mask, "mask")
        if chosen.dtype != bool or chosen.shape != (self.nnz,):
            raise InputValueError(
                f"`mask` must be bool of shape ({self.nnz},), got {chosen.dtype} of {chosen.shape}"
            )
        return self._with_cells(self.cells.take(np.flatnonzero(chosen)))

    @noting
    def at_least(
        self, threshold: float, *, binary: bool = False, keep_seen: bool = True
    ) -> Interactions:
        """Select the entries with values >= ``threshold``: implicit feedback from ratings.

        Models do not learn from the other entries, but the users have seen these items: they move
        to ``seen_only``, and lists leave them out. Splits by time divide them by timestamp; in
        other splits they belong to the training part.

        The result, and a model fitted to it, have the attribute ``threshold``: other data with
        values below it, such as a test part without a threshold, cause a warning.

        Apply the threshold before weighting (:func:`mfrank.log_weight`, :meth:`weighted`): a
        threshold of weighted values, which are in other units, is not recorded.

        Warnings are logged for an empty result, for a threshold of weighted values, and for entries
        that pass only because repeated values were summed, such as two ratings of an item by the
        same user.

        Parameters
        ----------
        threshold : float
        binary : bool, default False
            Whether selected values become 1.
        keep_seen : bool, default True
            False removes the other entries and ``seen_only``, so these items can be recommended.
        """
        return selection.at_least(self, threshold, binary=binary, keep_seen=keep_seen)

    @noting
    def weighted(self, weights: ArrayLike) -> Interactions:
        """Multiply the value of each entry by its own weight, such as a weight of its source.

        For weights by time, use :func:`mfrank.recency_weight`. The effect depends on the model:
        ``WRMF`` reads values as confidences; objectives without values ignore them.

        Parameters
        ----------
        weights : array-like of numbers, shape (nnz,)
            >= 0, aligned with ``user_items.data``. Entries that become 0 are only seen: models do
            not learn from them, and lists leave them out. To remove entries, use ``take``.

        Returns
        -------
        Interactions
            With the same shape, ids and dtype.

        Raises
        ------
        ValueError
            There is not one weight >= 0 per entry, or a value becomes too large for the dtype.
        TypeError
            The weights are not numbers.

        Examples
        --------
        >>> import mfrank
        >>> data = mfrank.Interactions.from_arrays(["ann", "ben"], ["tea", "tea"])
        >>> data.weighted([1, 0.25]).user_items.data.tolist()
        [1.0, 0.25]
        """
        return selection.weighted(self, weights)

    @noting
    def capped(self, most: float) -> Interactions:
        """Lower larger values to ``most``: the tenth repeat says little more than the ninth.

        Values below ``-most``, of dislikes, become ``-most``.

        Parameters
        ----------
        most : float
            > 0, and not below the ``threshold`` of :meth:`at_least`.

        Examples
        --------
        >>> import mfrank
        >>> data = mfrank.Interactions.from_arrays(["ann", "ben"], ["tea", "tea"], [2, 30])
        >>> data.capped(5).user_items.data.tolist()
        [2.0, 5.0]
        """
        return selection.capped(self, most)

    @noting
    def k_core(
        self, k: int, *, user_k: int | None = None, item_k: int | None = None
    ) -> Interactions:
        """The largest part with at least ``user_k`` entries per user and ``item_k`` per item.

        Users and items with fewer entries are dropped, with their ids, until none is left. Both
        bounds default to ``k``; 0 drops none. Cells that are only seen do not count, and stay if
        their user and item stay. An empty result is logged as a warning.
        """
        return selection.k_core(self, k, user_k=user_k, item_k=item_k)

    # Folders on disk.

    def to_folder(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save as a folder of arrays that :meth:`open` memory-maps.

        The matrix is stored by users and by items. An entry takes about 16 bytes, 24 with
        timestamps; a cell that is only seen takes 4, or 12. The replacement is atomic: a crash
        leaves either the old or the new data.

        Parameters
        ----------
        folder : path
        overwrite : bool, default False
            Whether to replace the folder even if another process has saved to it since these
            interactions (or their source) were opened from it or saved to it.

        Returns
        -------
        Path of the folder

        Raises
        ------
        mfrank.files.folder.ChangedFolderError
            A ValueError: another process has saved to the folder (see ``overwrite``). Open it again
            and repeat the change.
        ValueError
            If the folder contains something else, or ids are neither integers nor strings.
        OSError
            If writing fails; the folder is unchanged.
        """
        path = path_of(folder, "folder")
        check_flags(overwrite=overwrite)
        interaction_folder.write(self, path, overwrite=overwrite)
        return path

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> Interactions:
        """Memory-map the interactions of :meth:`to_folder`, which may be larger than memory.

        ALS reads each entry from the disk (or the page cache) once per half-step, and the fit has
        the same bits as from memory. Opening reads the columns and values once, to check them. From
        2^31 entries on, column numbers are copied to memory, because scipy then needs 64 bits.

        Parameters
        ----------
        folder : path
        verify : bool, default False
            Also compare every file with its SHA-256.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        ValueError
            If it does not hold interactions, has another format version, or is damaged; the
            message says how.
        """
        check_flags(verify=verify)
        path = path_of(folder, "folder")
        opened = cls._of_folder(interaction_folder.read(path, verify=verify))
        interaction_folder.tell_of_other_split(path)
        return opened

    @classmethod
    def _of_folder(cls, mapped: interaction_folder.Mapped) -> Interactions:
        known = mapped.origin, mapped.threshold, mapped.where, mapped.event_weights
        opened = cls._of_cells(mapped.found, *(mapped.user_ids, mapped.item_ids, *known))
        opened._with_notes(mapped.notes)
        opened.__dict__.update(mapped.known)
        return opened

    @classmethod
    @noting
    def ingest(
        cls,
        files: Any,
        folder: str | os.PathLike[str],
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | Literal[False] | None = None,
        timestamp: str | int | Literal[False] | None = None,
        event: str | int | None = None,
        weights: KindWeights | None = None,
        cap: float | None = None,
        half_life: float | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
        sep: str | None = None,
        quote: str | None = AS_USUAL,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        encoding: str | None = None,
        comment: str | None = None,
        lines: Lines | None = None,
        ids: IdsAs = "auto",
        duplicates: Duplicates = "sum",
        show_progress: bool = False,
    ) -> Interactions:
        """Read files or tables, of any number and size, into a folder, and :meth:`open` it.

        The result equals :meth:`from_file` for a single file with the rows of all files, in the
        order of the file names.

        - Memory: the ids, plus a portion of a file (some 260,000 rows), then some eight million
          entries at a time.
        - Disk: up to 52 bytes per entry, in a temporary folder beside ``folder`` whose name begins
          with a dot.
        - Resuming: after a kill, Ctrl-C or a full disk, the same call resumes from the temporary
          folder, at most about half a minute back. A call with other files or options removes that
          folder. Tables cannot be read again from where it stopped, so nothing is kept of them.

        Parameters
        ----------
        files : path or list of paths; or a table, or a list or iterator of tables
            Text or parquet, as in :meth:`from_file`, but no streams, because each file is read
            twice. Tables are those of :meth:`from_frame`; the columns that are read are kept in the
            temporary folder. Rows of a database: ``from_sql(folder=)``.
        folder : path
            Its contents are replaced when everything has been read.
        user, item, value, timestamp, event, weights, cap, half_life, where, timestamp_unit
        sep, quote, header, columns, encoding, comment, lines, ids, duplicates
            As in :meth:`from_file`. If one file has integer ids and another text, all ids become
            text.
        show_progress : bool, default False
            Show progress, in rows, on stderr.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`from_file`; the message names the file and the row.
        OSError
            If the disk is full or a file cannot be read; the folder is unchanged. The message names
            the temporary folder from which the same call resumes, if there is one.
        """
        mapped = ingest(
            files,
            folder,
            {"user": user, "item": item, "value": value, "timestamp": timestamp},
            unit=timestamp_unit,
            ids=ids,
            dialect=Dialect(sep, quote, header, columns, encoding, comment, lines),
            duplicates=duplicates,
            show_progress=show_progress,
            events=EventWeights.of(event, weights, where, cap, half_life),
        )
        return cls._of_folder(mapped)

    # Several data sets as one.

    @classmethod
    @noting
    def concat(
        cls, parts: Sequence[Interactions], *, duplicates: Duplicates = "sum"
    ) -> Interactions:
        """Join the interactions of several data sets by id.

        Equal ids are the same user or item. Rows of the first part keep their numbers; new users
        and items follow. ``a + b`` is ``Interactions.concat([a, b])``. Values become float32.

        Parameters
        ----------
        parts : sequence of Interactions
            At least one.
        duplicates : {"sum", "max", "last"}, default "sum"
            How to merge cells that occur in several parts. If a cell is only seen in one part and
            has a value in another, the value wins.

        Raises
        ------
        ValueError, TypeError
            There are no parts, one is no Interactions, ids are integers in only some parts, or only
            some have timestamps, or in different units (``timestamp_unit="s"``, unconverted).
        """
        each = as_parts(parts, Interactions)
        origin = dict(item for part in each for item in part.origin.items())
        thresholds = {part.threshold for part in each}
        threshold = thresholds.pop() if len(thresholds) == 1 else None
        where, weights = joined_where([part.where for part in each]), each[0].event_weights
        if any(part.event_weights != weights for part in each):
            weights = {}
        made = cls._of_cells(*joined(each, duplicates), origin, threshold, where, weights)
        return made._with_notes(line for part in each for line in part.notes)

    def __add__(self, other: Interactions) -> Interactions:
        if not isinstance(other, Interactions):
            return NotImplemented
        return Interactions.concat([self, other])

    # Summaries.

    def report(self, test: Interactions | None = None) -> DataReport:
        """Say what was read, what it looks like and what is odd: the first look at new data.

        Parameters
        ----------
        test : Interactions, optional
            A test part: how much of it these interactions cannot tell anything about, have too, or
            are younger than.

        Returns
        -------
        DataReport
            Prints as a text; its attributes are the numbers.

        Raises
        ------
        TypeError
            ``test`` is no Interactions.
        UnknownIdError
            Only one of the two has ids, and both have as many rows, which are then likely the same.
        """
        from mfrank.data.report import DataReport

        if test is not None:
            check_instance("test", test, Interactions, "Interactions")
        return DataReport.of(self, test)

    def __repr__(self) -> str:
        density = f", density {self._density}" if self._density else ""
        times = "" if self.timestamps is None else ", timestamps"
        only = "" if self.seen_only is None else f", {self.seen_only.nnz:,} more only seen"
        return (
            f"Interactions({counted(self.n_users, 'user')} x {counted(self.n_items, 'item')}, "
            f"{counted(self.nnz, 'entry')}{density}{times}{only})"
        )

    def _repr_html_(self) -> str:
        from mfrank.data.report import span_of

        values, times = self.user_items.data, self.timestamps
        rows = [
            ("users", self.user_ids.summary),
            ("items", self.item_ids.summary),
            ("entries", f"{self.nnz:,}"),
            *([] if self.seen_only is None else [("only seen", f"{self.seen_only.nnz:,}")]),
            ("density", self._density or "none"),
            ("values", "ones" if (values == 1).all() else _range(values)),
            ("timestamps", "none" if times is None else span_of(times)),
        ]
        return table("Interactions", rows)

    @property
    def _density(self) -> str:
        """Fraction of the cells that are observed, as text; empty if there are no cells."""
        cells_in_all = self.n_users * self.n_items
        return f"{self.nnz / cells_in_all:.3%}" if cells_in_all else ""


def _range(numbers: NDArray[Any]) -> str:
    return f"{numbers.min()} to {numbers.max()}" if numbers.size else "none"
