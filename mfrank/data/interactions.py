"""Who interacted with what: the data that every fit, split and evaluation starts from."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mfrank.csr import CSR
from mfrank.data import cells, intake, tables
from mfrank.data.cells import Duplicates
from mfrank.data.columns import frame_columns
from mfrank.data.fields import IdsAs, spelled_like
from mfrank.data.ids import Ids, RawIds
from mfrank.data.intake import IdsLike
from mfrank.foreign import sparse_to_host
from mfrank.lazy import lazy
from mfrank.pickles import MadeOfFields
from mfrank.quadratic import Counts
from mfrank.read_only import read_only, read_only_rows

__all__ = ["Interactions"]

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(MadeOfFields):
    """Observed cells of the users x items matrix, with the ids of its rows and columns.

    Made by :meth:`from_arrays`, :meth:`from_sparse`, :meth:`from_pandas`, :meth:`from_file` or
    :meth:`of`, which keep these rules; immutable: its arrays are read-only, and it shares none with
    what it is made from, which is never modified.

    - A cell given more than once is merged by ``duplicates``: "sum" (the default; in float64),
      "max", or "last", the value with the latest timestamp if there are timestamps (of equal
      ones, and without timestamps, the last in the order given). A merged cell has the latest
      of its timestamps.
    - Zeros are dropped, also those that come out of a merge (+1 and -1), and their number is
      logged ("mfrank", INFO): a cell that says nothing is not observed. Negative values are
      kept; the objective decides what they mean.
    - NaN and infinite values, also sums beyond the range of float32, are refused.
    - Values become float32; only a float64 sparse matrix stays float64. Integers above 2^24 are
      rounded.
    - Users and items without entries stay, when ``shape``, ids or a matrix say they are there.
      There may be fewer than 2^31 of each, and any number of entries.

    Attributes
    ----------
    user_items : scipy.sparse.csr_array, shape (n_users, n_items)
        float32 or float64; columns ascending within a row, no duplicates, no zeros. Read-only:
        :meth:`to_scipy` gives a copy to work on.
    user_ids, item_ids : Ids
        Raw ids of rows and columns.
    timestamps : int64, shape (nnz,), or None
        Aligned with ``user_items.data``; in whatever unit they were given, dates in seconds.
    """

    user_items: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    timestamps: NDArray[np.int64] | None = None
    _views: dict[tuple[str, Any], CSR] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        shape = (len(self.user_ids), len(self.item_ids))
        if self.user_items.shape != shape:
            raise ValueError(
                f"the matrix has {self.user_items.shape[0]} users and {self.user_items.shape[1]} "
                f"items, but ids are given for {shape[0]} and {shape[1]}"
            )
        if self.timestamps is not None and len(self.timestamps) != self.user_items.nnz:
            raise ValueError(f"{len(self.timestamps)} timestamps for {self.nnz} entries")
        object.__setattr__(self, "user_items", read_only_rows(self.user_items, "user_items"))
        if self.timestamps is not None:
            object.__setattr__(self, "timestamps", read_only(self.timestamps))

    @classmethod
    def from_arrays(
        cls,
        users: RawIds,
        items: RawIds,
        values: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
        *,
        shape: tuple[int, int] | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Interactions from one array for each column, all of shape (n,).

        What lies on a GPU is copied: ids are numbered and entries sorted on the host.

        Parameters
        ----------
        users, items : array-like
            Raw ids: row numbers are looked up in ``user_ids`` and ``item_ids``, or given in
            sorted order. With ``shape`` they are the row numbers themselves.
        values : array-like of numbers, optional
            1 where left out, so that a pair given three times counts 3 by default.
        timestamps : array-like, optional
            Whole numbers, datetimes or ISO 8601 text (:func:`mfrank.data.columns.epoch_seconds`).
        shape : (n_users, n_items), optional
        duplicates : {"sum", "max", "last"}
        user_ids, item_ids : Ids or ids in row order, optional
            E.g. those of the training data, so that rows mean the same.

        Raises
        ------
        ValueError, TypeError
            If lengths differ, ids are unknown or missing, rows lie outside of ``shape``, or
            values are not finite; the message names the row.
        """
        return cls(
            *intake.from_arrays(
                users,
                items,
                values,
                timestamps,
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
    ) -> Interactions:
        """Interactions from a scipy (or CuPy) sparse matrix (users x items) in any format.

        Ids are given in row order; left out, the row numbers are the ids. The matrix is copied, but
        for arrays of a canonical CSR that cannot be written to (``flags.writeable`` is False, such
        as those of ``numpy.memmap(mode="r")``), which are shared. CuPy's are copied to be checked,
        and to plan fits with; of a canonical CSR without zeros that you keep, ``backend="cuda"``
        then reads the rows where they lie: do not write to these.

        Raises
        ------
        ValueError, TypeError
            If its values are not finite real numbers, or the ids are not as many as its rows.
        """
        return cls(
            *intake.from_sparse(matrix, duplicates=duplicates, user_ids=user_ids, item_ids=item_ids)
        )

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        *,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | None = None,
        timestamp: Hashable | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Interactions from a DataFrame with a row for each.

        ``user``, ``item``, ``value`` and ``timestamp`` name its columns. Those left out are
        guessed by their names (:mod:`mfrank.data.columns`); of these value and timestamp may be
        absent. The rest is as in :meth:`from_arrays`.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        return cls._from_columns(frame_columns(frame, chosen), duplicates, user_ids, item_ids)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        ids: IdsAs = "auto",
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Interactions from a file: .csv, .tsv or .txt, also with .gz, or .parquet.

        Columns are named or guessed as in :meth:`from_pandas`; for files without a header and for
        the errors see :func:`mfrank.data.tables.read_columns`.

        Parameters
        ----------
        ids : {"auto", "text"}, default "auto"
            A text file does not tell numbers from text: ``"auto"`` makes a column of ids whole
            numbers where every field is spelled as one, and leaves it text as written where one
            is not (``007``, ``1.0``); ``"text"`` makes ids text in any case. Where ``user_ids``
            or ``item_ids`` are given, a text file's ids are read as these are.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        columns = tables.read_columns(path, chosen, ids)
        user_ids, item_ids = intake.known("users", user_ids), intake.known("items", item_ids)
        if tables.is_text(path):
            columns["user"] = spelled_like(columns["user"], user_ids)
            columns["item"] = spelled_like(columns["item"], item_ids)
        return cls._from_columns(columns, duplicates, user_ids, item_ids)

    @classmethod
    def of(cls, data: Any) -> Interactions:
        """Interactions from whatever is one: itself, a sparse matrix (CuPy's too), or a DataFrame.

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
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(data, pandas.DataFrame):
            return cls.from_pandas(data)
        remedy = ""
        if isinstance(data, np.ndarray):
            remedy = "; convert a dense array with scipy.sparse.csr_array(array)"
        raise TypeError(
            "expected Interactions, a scipy sparse matrix (users x items) or a pandas DataFrame, "
            f"got {type(data).__name__}{remedy}"
        )

    @property
    def n_users(self) -> int:
        """Number of users, those without entries included."""
        return int(self.user_items.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items, those without entries included."""
        return int(self.user_items.shape[1])

    @property
    def nnz(self) -> int:
        """Number of observed cells."""
        return int(self.user_items.nnz)

    @lazy
    def item_users(self) -> sp.csr_array:
        """The other orientation, shape (n_items, n_users); built once."""
        return read_only_rows(self.user_items.T.tocsr(), "item_users")

    @lazy
    def counts(self) -> Counts:
        """Observed items of each user, and users of each item."""
        items = np.bincount(self.user_items.indices, minlength=self.n_items)
        users = np.diff(self.user_items.indptr)
        return Counts(*(read_only(each.astype(np.int64)) for each in (users, items)))

    @property
    def entry_users(self) -> NDArray[np.int32]:
        """User row of every entry, int32, aligned with ``user_items.indices``."""
        return cells.entry_rows(self.user_items)

    def user_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """Users' rows as kernels read them, kept; ``dtype=None`` leaves the values out."""
        return self._view("user_items", dtype)

    def item_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """Items' rows as kernels read them, kept; ``dtype=None`` leaves the values out."""
        return self._view("item_users", dtype)

    def take(self, mask: ArrayLike) -> Interactions:
        """Only the entries where ``mask`` is true; users, items and ids stay.

        ``mask`` is bool of shape (nnz,), aligned with ``user_items.data``.
        """
        chosen = np.asarray(mask)
        if chosen.dtype != bool or chosen.shape != (self.nnz,):
            raise ValueError(
                f"mask must be bool of shape ({self.nnz},), got {chosen.dtype} of {chosen.shape}"
            )
        kept = np.flatnonzero(chosen)
        times = None if self.timestamps is None else self.timestamps[kept]
        return Interactions(
            cells.select(self.user_items, kept), self.user_ids, self.item_ids, times
        )

    def at_least(self, threshold: float, *, binary: bool = False) -> Interactions:
        """Only the entries with values >= ``threshold``: implicit feedback from ratings.

        With ``binary`` the values kept become 1.
        """
        if not np.isfinite(threshold):
            raise ValueError(f"threshold must be finite, got {threshold}")
        kept = self.take(self.user_items.data >= float(threshold))
        if not binary:
            return kept
        rows = kept.user_items
        ones = sp.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), rows.shape)
        return replace(kept, user_items=ones)

    def k_core(
        self, k: int, *, user_k: int | None = None, item_k: int | None = None
    ) -> Interactions:
        """The largest part in which users have ``user_k`` entries or more and items ``item_k``.

        Users and items with fewer are dropped until there are none; ids follow. Both bounds are
        ``k`` unless given; 0 drops none. Nothing may remain, which is logged as a warning.
        """
        least = k if user_k is None else user_k, k if item_k is None else item_k
        for bound in least:
            if isinstance(bound, bool) or not isinstance(bound, int | np.integer) or bound < 0:
                raise ValueError(f"k must be a whole number, 0 or more, got {bound!r}")
        kept, rows, columns = cells.core(self.user_items, *least)
        if not len(kept):
            _log.warning("nothing remains of the %d entries in the k-core", self.nnz)
        user_items = cells.narrow(cells.select(self.user_items, kept), rows, columns)
        times = None if self.timestamps is None else self.timestamps[kept]
        return Interactions(
            user_items, self.user_ids.take(rows), self.item_ids.take(columns), times
        )

    def to_scipy(self) -> sp.csr_matrix:
        """The matrix users x items for other libraries: a copy of its own, to be written to.

        Of scipy's older class, as implicit reads no other: ``model.fit(data.to_scipy())``.
        """
        matrix: sp.csr_matrix = sp.csr_matrix(self.user_items, copy=True)
        return matrix

    def to_pandas(self) -> Any:
        """DataFrame with the columns user, item, value and, if there are any, timestamp.

        Raises
        ------
        ModuleNotFoundError
            If pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "to_pandas needs pandas: pip install mfrank[pandas]"
            ) from error
        columns = {
            "user": self.user_ids.labels[self.entry_users],
            "item": self.item_ids.labels[self.user_items.indices],
            "value": self.user_items.data,
        }
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        cells_in_all = self.n_users * self.n_items
        density = f", density {self.nnz / cells_in_all:.3%}" if cells_in_all else ""
        return (
            f"Interactions({self.n_users:,} users x {self.n_items:,} items, "
            f"{self.nnz:,} entries{density}{'' if self.timestamps is None else ', timestamps'})"
        )

    @classmethod
    def _from_columns(
        cls,
        columns: dict[str, NDArray[Any]],
        duplicates: Duplicates,
        user_ids: IdsLike | None,
        item_ids: IdsLike | None,
    ) -> Interactions:
        return cls.from_arrays(
            columns["user"],
            columns["item"],
            columns.get("value"),
            columns.get("timestamp"),
            duplicates=duplicates,
            user_ids=user_ids,
            item_ids=item_ids,
        )

    def _view(self, side: str, dtype: DTypeLike | None) -> CSR:
        key = side, None if dtype is None else np.dtype(dtype)
        if key not in self._views:
            across = None if side == "user_items" else self.user_rows(dtype)
            self._views[key] = CSR.from_scipy(getattr(self, side), dtype, across)
        return self._views[key]
