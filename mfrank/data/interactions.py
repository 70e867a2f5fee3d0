"""Interactions of users with items: the input of every fit, split and evaluation."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mfrank.arrays.checks import check_instance, is_number, shown
from mfrank.arrays.csr import CSR
from mfrank.arrays.interop import as_array, sparse_to_host
from mfrank.arrays.lazy import lazy
from mfrank.arrays.notebook import table
from mfrank.arrays.read_only import read_only, read_only_rows
from mfrank.data import cells, table_files, validation
from mfrank.data.cells import Duplicates
from mfrank.data.columns import frame_columns
from mfrank.data.concat import joined_ids, joined_times
from mfrank.data.counts import Counts
from mfrank.data.fields import IdsAs, spelled_like
from mfrank.data.ids import Ids, RawIds
from mfrank.data.pickling import MadeOfFields
from mfrank.data.validation import IdsLike

__all__ = ["Interactions"]

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(MadeOfFields):
    """Observed cells of the users x items matrix, with the ids of its rows and columns.

    Create with :meth:`from_arrays`, :meth:`from_sparse`, :meth:`from_pandas`, :meth:`from_file` or
    :meth:`of`, which apply the rules below. Immutable: its arrays are read-only, the input is never
    modified, and only read-only arrays of the input may be shared.

    - Repeated cells are merged by ``duplicates``: "sum" (the default; in float64), "max", or
      "last", the value with the latest timestamp (among equal timestamps, and without timestamps,
      the last in the order given). A merged cell gets its latest timestamp.
    - Zeros are dropped, also those that result from a merge (+1 and -1), and their number is
      logged ("mfrank", INFO): a zero is not an observation. Negative values are kept; the
      objective decides what they mean.
    - NaN and infinite values, also sums beyond the range of float32, are refused.
    - Values become float32; only a float64 sparse matrix stays float64. Integers above 2^24 are
      rounded.
    - Users and items without entries are kept if ``shape``, ids or a matrix include them. There
      may be fewer than 2^31 of each, and any number of entries.

    Attributes
    ----------
    user_items : scipy.sparse.csr_array, shape (n_users, n_items)
        float32 or float64; columns ascending within a row, no duplicates, no zeros. Read-only:
        :meth:`to_scipy` returns a writable copy.
    user_ids, item_ids : Ids
        Raw ids of rows and columns.
    timestamps : int64, shape (nnz,), or None
        Aligned with ``user_items.data``; in the unit given, dates in seconds since 1970 (UTC).
    """

    user_items: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    timestamps: NDArray[np.int64] | None = None
    _views: dict[tuple[str, Any], CSR] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for name in ("user_ids", "item_ids"):
            check_instance(name, getattr(self, name), Ids, "Ids, such as Ids.of(labels)")
        if not sp.issparse(self.user_items):
            raise TypeError(
                "user_items must be a scipy.sparse.csr_array (users x items), got "
                f"{type(self.user_items).__name__}"
            )
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
        """Build interactions from one array per column, all of shape (n,).

        Arrays on a GPU are copied to the host, where ids are numbered and entries sorted.

        Parameters
        ----------
        users, items : array-like
            Raw ids. Their row numbers are looked up in ``user_ids`` and ``item_ids``; without
            these, the distinct ids are numbered (:meth:`mfrank.data.ids.Ids.factorize`). With
            ``shape`` they are row numbers themselves.
        values : array-like of numbers, optional
            1 by default, so that a pair given three times sums to 3.
        timestamps : array-like, optional
            Integers, datetimes or ISO 8601 text (:func:`mfrank.data.columns.epoch_seconds`).
        shape : (n_users, n_items), optional
        duplicates : {"sum", "max", "last"}, default "sum"
        user_ids, item_ids : Ids or ids in row order, optional
            For example those of the training data, so that row numbers mean the same.

        Raises
        ------
        ValueError, TypeError
            If lengths differ, ids are unknown or missing, rows lie outside of ``shape``, or
            values are not finite; the message names the row.
        """
        return cls(
            *validation.from_arrays(
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
        """Build interactions from a scipy or CuPy sparse matrix (users x items) in any format.

        Ids are in row order; by default they are the row numbers. The matrix is copied, except for
        read-only arrays of a canonical CSR (``flags.writeable`` is False, as in
        ``numpy.memmap(mode="r")``), which are shared. A CuPy matrix is copied to the host for
        checks and planning; if it is a canonical CSR without zeros and you keep it,
        ``backend="cuda"`` reads its arrays in place: do not write to them.

        Raises
        ------
        ValueError, TypeError
            If its values are not finite real numbers, or the numbers of ids do not fit its shape.
        """
        return cls(
            *validation.from_sparse(
                matrix, duplicates=duplicates, user_ids=user_ids, item_ids=item_ids
            )
        )

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        *,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | Literal[False] | None = None,
        timestamp: Hashable | Literal[False] | None = None,
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Build interactions from a DataFrame with one row per interaction.

        ``user``, ``item``, ``value`` and ``timestamp`` are names of its columns. By default columns
        are recognized by name (:func:`mfrank.data.columns.guess`); value and timestamp may be
        absent, and are ignored if False. The other parameters are those of :meth:`from_arrays`.
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
        value: str | Literal[False] | None = None,
        timestamp: str | Literal[False] | None = None,
        sep: str | None = None,
        ids: IdsAs = "auto",
        duplicates: Duplicates = "sum",
        user_ids: IdsLike | None = None,
        item_ids: IdsLike | None = None,
    ) -> Interactions:
        """Build interactions from a file of text or parquet, recognized by its suffix.

        Text is .csv, .tsv, .txt, .dat or .data, also with .gz; ``-`` is text on the standard input.
        Columns are named, recognized or ignored as in :meth:`from_pandas`; for files without a
        header and for errors see :func:`mfrank.data.table_files.read_columns`.

        Parameters
        ----------
        sep : str or None, default None
            What separates the fields of text: one character, or ``::``. None detects commas, tabs,
            semicolons, bars and ``::``, and spaces unless the file is .csv or .tsv.
        ids : {"auto", "text"}, default "auto"
            A text file does not distinguish numbers from text: ``"auto"`` reads a column of ids as
            integers if every field is spelled as one, and else as text (``007``, ``1.0``);
            ``"text"`` always reads text. Ids of a text file are then converted to the type of
            ``user_ids`` or ``item_ids``, if given.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        columns = table_files.read_columns(path, chosen, ids, sep)
        user_ids, item_ids = (
            validation.known("users", user_ids),
            validation.known("items", item_ids),
        )
        if table_files.is_text(path):
            columns["user"] = spelled_like(columns["user"], user_ids)
            columns["item"] = spelled_like(columns["item"], item_ids)
        return cls._from_columns(columns, duplicates, user_ids, item_ids)

    @classmethod
    def of(cls, data: Any) -> Interactions:
        """Convert Interactions (unchanged), a scipy or CuPy sparse matrix, or a DataFrame.

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

    @classmethod
    def concat(
        cls, parts: Sequence[Interactions], *, duplicates: Duplicates = "sum"
    ) -> Interactions:
        """Join the interactions of several data sets; an equal id is the same user or item.

        Rows of the first part keep their numbers, and new users and items follow. ``a + b`` is
        ``Interactions.concat([a, b])``. Values become float32.

        Parameters
        ----------
        parts : sequence of Interactions
            At least one.
        duplicates : {"sum", "max", "last"}, default "sum"
            How cells that several parts have are merged.

        Raises
        ------
        ValueError
            If there are no parts, ids are whole numbers in one and not in another, or only some
            have timestamps.
        TypeError
            If something else is among them.
        """
        each = list(parts) if isinstance(parts, Iterable) else [parts]
        wrong = [part for part in each if not isinstance(part, Interactions)]
        if wrong or not isinstance(parts, Iterable):
            kind = type((wrong or each)[0]).__name__
            raise TypeError(f"parts must be a list of Interactions, got {kind}")
        if not each:
            raise ValueError("parts must have at least one Interactions")
        user_ids = joined_ids("user", [part.user_ids for part in each])
        item_ids = joined_ids("item", [part.item_ids for part in each])
        rows = [user_ids.rows(part.user_ids.labels)[part.entry_users] for part in each]
        columns = [item_ids.rows(part.item_ids.labels)[part.user_items.indices] for part in each]
        return cls.from_arrays(
            np.concatenate(rows),
            np.concatenate(columns),
            np.concatenate([part.user_items.data for part in each]),
            joined_times([part.timestamps for part in each]),
            shape=(len(user_ids), len(item_ids)),
            duplicates=duplicates,
            user_ids=user_ids,
            item_ids=item_ids,
        )

    def __add__(self, other: Interactions) -> Interactions:
        if not isinstance(other, Interactions):
            return NotImplemented
        return Interactions.concat([self, other])

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
        """The transposed matrix as CSR, shape (n_items, n_users); built once."""
        return read_only_rows(self.user_items.T.tocsr(), "item_users")

    @lazy
    def counts(self) -> Counts:
        """Numbers of observed items of each user and of users of each item."""
        items = np.bincount(self.user_items.indices, minlength=self.n_items)
        users = np.diff(self.user_items.indptr)
        return Counts(*(read_only(each.astype(np.int64)) for each in (users, items)))

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

    def take(self, mask: ArrayLike) -> Interactions:
        """Keep only the entries where ``mask`` is true; shape and ids stay.

        ``mask`` is bool of shape (nnz,), aligned with ``user_items.data``.
        """
        chosen = as_array(mask, "mask")
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
        """Keep only the entries with values >= ``threshold``: implicit feedback from ratings.

        With ``binary`` their values become 1.
        """
        if not is_number(threshold):
            raise ValueError(f"threshold must be a finite number, got {shown(threshold)}")
        kept = self.take(self.user_items.data >= float(threshold))
        if not binary:
            return kept
        rows = kept.user_items
        ones = sp.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), rows.shape)
        return replace(kept, user_items=ones)

    def k_core(
        self, k: int, *, user_k: int | None = None, item_k: int | None = None
    ) -> Interactions:
        """The largest part in which users have at least ``user_k`` entries and items ``item_k``.

        Users and items with fewer are dropped repeatedly, with their ids, until there are none.
        Both bounds are ``k`` by default; 0 drops none. An empty result is logged as a warning.
        """
        least = k if user_k is None else user_k, k if item_k is None else item_k
        for bound in least:
            if isinstance(bound, bool) or not isinstance(bound, int | np.integer) or bound < 0:
                raise ValueError(f"k must be a whole number, 0 or more, got {shown(bound)}")
        kept, rows, columns = cells.core(self.user_items, *least)
        if not len(kept):
            _log.warning("nothing remains of the %d entries in the k-core", self.nnz)
        user_items = cells.narrow(cells.select(self.user_items, kept), rows, columns)
        times = None if self.timestamps is None else self.timestamps[kept]
        return Interactions(
            user_items, self.user_ids.take(rows), self.item_ids.take(columns), times
        )

    def to_scipy(self) -> sp.csr_matrix:
        """A writable copy of the users x items matrix for other libraries.

        It is a ``csr_matrix``, because implicit reads nothing else: ``model.fit(data.to_scipy())``.
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
        density = f", density {self._density}" if self._density else ""
        return (
            f"Interactions({self.n_users:,} users x {self.n_items:,} items, "
            f"{self.nnz:,} entries{density}{'' if self.timestamps is None else ', timestamps'})"
        )

    def _repr_html_(self) -> str:
        values, times = self.user_items.data, self.timestamps
        rows = [
            ("users", self.user_ids.summary),
            ("items", self.item_ids.summary),
            ("entries", f"{self.nnz:,}"),
            ("density", self._density or "none"),
            ("values", "ones" if (values == 1).all() else _range(values)),
            ("timestamps", "none" if times is None else _range(times)),
        ]
        return table("Interactions", rows)

    @property
    def _density(self) -> str:
        """Fraction of the cells that are observed, as text; empty if there are no cells."""
        cells_in_all = self.n_users * self.n_items
        return f"{self.nnz / cells_in_all:.3%}" if cells_in_all else ""

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


def _range(numbers: NDArray[Any]) -> str:
    return f"{numbers.min()} to {numbers.max()}" if numbers.size else "none"
