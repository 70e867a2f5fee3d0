"""The queries and filters of a call, checked and converted to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    CSR,
    Listed,
    Picked,
    as_array,
    beside,
    checked_rows,
    distinct,
    holds,
    is_on_gpu,
    is_sparse_on_gpu,
    on_host,
    take,
)
from mfrank.data import UnknownIdError

# The queries of a call: checked row numbers, and each query's row of a matrix argument.


Rows: TypeAlias = NDArray[np.int64]


def check_rows(values: ArrayLike, n_rows: int, name: str) -> Rows:
    """Row numbers as a 1-D int64 numpy array.

    Raises
    ------
    TypeError
        The values are not integers; a boolean mask is refused, too.
    ValueError
        They are not one-dimensional.
    UnknownIdError
        They are outside ``0 <= row < n_rows``.
    """
    return on_host(check_rows_there(values, n_rows, name))


def check_rows_there(
    values: ArrayLike, n_rows: int, name: str, *, missing: int | None = None
) -> Rows:
    """Like :func:`check_rows`, but row numbers on a GPU stay there.

    ``missing`` replaces row numbers that are outside; without it they are an error.
    """
    rows = as_array(values, name)
    if rows.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got an array of shape {rows.shape}")
    if rows.size == 0:
        return beside(np.empty(0, dtype=np.int64), rows)
    if rows.dtype.kind not in "iu":
        remedy = "; use np.flatnonzero(mask)" if rows.dtype.kind == "b" else ""
        raise TypeError(f"{name} must be integer row numbers, got dtype {rows.dtype}{remedy}")
    wrong = (rows < 0) | (rows >= n_rows)
    if missing is not None:
        return np.where(wrong, np.int64(missing), rows.astype(np.int64))
    if wrong.any():
        unknown = on_host(rows[wrong]).tolist()
        raise UnknownIdError(f"{name} must lie in 0..{n_rows - 1}, got {unknown[0]}", unknown)
    checked: Rows = rows.astype(np.int64)
    return checked


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The queries of a call, and their rows in the model.

    Attributes
    ----------
    rows : int64, shape (U,), or None
        Row of each query in the model, on the host or GPU as passed; None if the queries are new
        to the model.
    n_queries : int
        U.
    n_rows : int
        Number of rows of the model on the queries' side; 0 if the queries are new.
    """

    rows: Rows | None
    n_queries: int
    n_rows: int

    @classmethod
    def known(cls, rows: ArrayLike, n_rows: int, name: str = "users") -> Queries:
        """Queries that are rows of the model; errors as in :func:`check_rows`."""
        checked = check_rows_there(rows, n_rows, name)
        return cls(checked, len(checked), n_rows)

    @classmethod
    def new(cls, n_queries: int) -> Queries:
        """Queries without a row in the model."""
        return cls(None, n_queries, 0)

    def pick(self, matrix: Any, name: str) -> sp.csr_array:
        """Each query's row of a matrix argument, shape (U, n_columns).

        A matrix with U rows has one row per query, in their order. A matrix with ``n_rows`` rows is
        the whole matrix, from which each query's row is taken.

        Parameters
        ----------
        matrix : scipy sparse matrix, any format
        name : str
            Name of the argument, for error messages.

        Raises
        ------
        ValueError
            The matrix has any other number of rows, or is damaged.
        """
        rows = on_host(self.rows) if self._takes_whole(matrix.shape[0], name) else None
        return checked_rows(matrix, name, rows)

    def own(self, matrix: Any, name: str) -> sp.csr_array:
        """Each query's row of a matrix that must have all rows of the model."""
        if self.rows is None or matrix.shape[0] != self.n_rows:
            raise ValueError(
                f"{name} must have one row for each of the model's {self.n_rows} rows, got "
                f"{matrix.shape[0]}"
            )
        return checked_rows(matrix, name, on_host(self.rows))

    def pick_lists(self, rows: CSR, name: str) -> Listed:
        """Like :meth:`pick` for a CSR without values, which is not copied."""
        whole = self._takes_whole(rows.n_rows, name)
        return Picked(rows, self.rows) if whole and self.rows is not None else rows

    def _takes_whole(self, given: int, name: str) -> bool:
        """Whether a matrix with ``given`` rows is the whole matrix, not one row per query.

        Raises ValueError if it is neither.
        """
        if given == self.n_queries:
            return False
        if self.rows is not None and given == self.n_rows:
            return True
        whole = "" if self.rows is None else f", or be the whole matrix of {self.n_rows}"
        raise ValueError(
            f"{name} must have as many rows as there are query ids, {self.n_queries}, in "
            f"their order{whole}; got {given}. Pass the rows of these ids, such as {name}[rows]"
        )


@runtime_checkable
class HasUserItems(Protocol):
    """Any object with a user-item matrix, such as Interactions."""

    @property
    def user_items(self) -> sp.csr_array:
        """Interactions, shape (n_users, n_items)."""


ItemFilter: TypeAlias = ArrayLike | Sequence[Sequence[int]] | sp.sparray | sp.spmatrix | None
"""Item rows: one list for all queries, or one per query (sparse matrix, 2-D array, nested list)."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Which items each list may contain, as arguments of ``Backend.top_k``.

    Arrays stay on the host or GPU where they were passed.

    Attributes
    ----------
    exclude : tuple of Listed, each with a row per query
        Items that a query must not get: the union of its rows.
    exclude_all : int32, sorted and unique, or None
        Items that no query may get.
    only : Listed with a row per query, CSR with a single row for all queries, or None
        The only items a query may get.
    """

    exclude: tuple[Listed, ...] = ()
    exclude_all: NDArray[np.int32] | None = None
    only: Listed | None = None

    @classmethod
    def of(
        cls,
        queries: Queries,
        n_items: int,
        *,
        user_items: HasUserItems | sp.sparray | sp.spmatrix | Listed | None = None,
        filter_items: ItemFilter | Listed = None,
        items: ItemFilter | Listed = None,
    ) -> Candidates:
        """Check the filters of a call and convert them to one form.

        Parameters
        ----------
        queries : Queries
            The queries.
        n_items : int
            Number of items of the model.
        user_items : Interactions, scipy or CuPy sparse matrix, or Listed, optional
            Items that each query has seen and must not get. Every stored entry counts, including
            explicit zeros. Interactions must have all rows of the model; a sparse matrix has a row
            per query or is the whole matrix (:meth:`Queries.pick`); a Listed has a row per query.
        filter_items : optional
            Items to exclude: one list for all queries, or one per query as a sparse matrix, list of
            lists or 2-D array (:meth:`Queries.pick`).
        items : optional
            The only items to return, in the same forms. An empty list allows none.

        Raises
        ------
        TypeError, ValueError
            An argument, named in the message, has the wrong shape or contains values that are not
            item rows.
        """
        filter_items, items = take(filter_items, "filter_items"), take(items, "items")
        exclude, exclude_all = [_seen(user_items, queries, n_items)], None
        if _per_query(filter_items):
            exclude.append(_lists(filter_items, queries, n_items, "filter_items"))
        elif filter_items is not None:
            exclude_all = _one_list(filter_items, n_items, "filter_items")
        only: Listed | None = None
        if _per_query(items):
            only = _lists(items, queries, n_items, "items")
        elif items is not None:
            allowed = _one_list(items, n_items, "items")
            only = CSR(beside(np.array([0, len(allowed)]), allowed), allowed, None, n_items)
        return cls(tuple(each for each in exclude if each is not None), exclude_all, only)

    def check(self, n_queries: int, n_items: int) -> None:
        """Raise ValueError unless the filters are for ``n_queries`` and ``n_items``."""
        one_each, or_one = {n_queries}, {1, n_queries}
        for rows, allowed in (*((each, one_each) for each in self.exclude), (self.only, or_one)):
            if rows is not None and (rows.n_rows not in allowed or rows.n_columns != n_items):
                raise ValueError(
                    f"candidates must be for {n_queries} queries and {n_items} items, "
                    f"got {rows.n_rows} and {rows.n_columns}"
                )

    def allow(self, items: Rows) -> NDArray[np.bool_]:
        """Whether query r may get ``items[r]``, bool (n_queries,), on the device of ``items``."""
        allowed = ~np.zeros(len(items), dtype=bool, like=items)
        if self.only is not None:
            allowed &= holds(self.only, items)
        if self.exclude_all is not None:
            allowed &= ~np.isin(items, beside(self.exclude_all, items))
        for lists in self.exclude:
            allowed &= ~holds(lists, items)
        return allowed

    def of_queries(self, rows: NDArray[np.int64]) -> Candidates:
        """The filters of some of the queries."""
        only = self.only
        if only is not None and only.n_rows > 1:
            only = _some(only, rows)
        return Candidates(tuple(_some(each, rows) for each in self.exclude), self.exclude_all, only)

    def without_any(self, items: NDArray[np.bool_] | None) -> Candidates:
        """Return a copy that also excludes these items, bool (n_items,), from all queries."""
        if items is None:
            return self
        rows = np.flatnonzero(items).astype(np.int32)
        if self.exclude_all is not None:
            given = self.exclude_all
            rows = distinct(np.concatenate([given, beside(rows, given)]))
        return Candidates(self.exclude, rows, self.only)

    def without(self, items: Rows, n_items: int) -> Candidates:
        """Return a copy that also excludes ``items[r]`` from query r."""
        every = np.arange(len(items) + 1, like=items)
        single = CSR(every, items.astype(np.int32), None, n_items)
        return Candidates((*self.exclude, single), self.exclude_all, self.only)


def some_lists(lists: sp.csr_array | Listed, rows: NDArray[np.int64]) -> sp.csr_array | Listed:
    """The lists of some queries."""
    return _some(lists, rows) if isinstance(lists, CSR | Picked) else lists[on_host(rows)]


def _some(lists: Listed, rows: NDArray[np.int64]) -> Listed:
    if isinstance(lists, Picked):
        return Picked(lists.whole, lists.rows[beside(rows, lists.rows)])
    return Picked(lists, beside(rows, lists.indptr))


def _seen(user_items: Any, queries: Queries, n_items: int) -> Listed | None:
    if user_items is None or isinstance(user_items, CSR | Picked):
        return user_items
    seen = user_items
    if isinstance(user_items, HasUserItems):
        # Interactions also have what is only seen.
        own = getattr(user_items, "seen", user_items.user_items)
        seen = queries.own(own, "user_items")
    if not (sp.issparse(seen) or is_sparse_on_gpu(seen)):
        raise TypeError(
            f"user_items must be Interactions or a scipy sparse matrix, got {type(seen).__name__}"
        )
    return _lists(seen, queries, n_items, "user_items")


def _per_query(values: Any) -> bool:
    if values is None:
        return False
    if sp.issparse(values) or is_sparse_on_gpu(values) or isinstance(values, CSR | Picked):
        return True
    if isinstance(values, np.ndarray) or is_on_gpu(values):
        return bool(values.ndim > 1)
    return isinstance(values, Sequence) and any(not np.isscalar(v) for v in values)


def _one_list(values: Any, n_items: int, name: str) -> NDArray[np.int32]:
    return distinct(check_rows_there(values, n_items, name)).astype(np.int32)


def _lists(values: Any, queries: Queries, n_items: int, name: str) -> Listed:
    """A row of ascending, distinct items for each query."""
    if isinstance(values, CSR | Picked):
        return values
    if is_sparse_on_gpu(values):
        return queries.pick_lists(of_sparse(values, n_items, name), name)
    if is_on_gpu(values):
        return queries.pick_lists(of_table(values, n_items, name), name)
    return CSR.from_scipy(_pattern(values, queries, n_items, name), dtype=None)


def _pattern(values: Any, queries: Queries, n_items: int, name: str) -> sp.csr_array:
    """Each query's stored columns, sorted and distinct, with value True."""
    matrix: Any = values if sp.issparse(values) else _from_lists(values, n_items, name)
    if matrix.ndim != 2 or matrix.shape[1] != n_items:
        raise ValueError(
            f"{name} must have a column for each of the {n_items} items, got shape {matrix.shape}"
        )
    picked = queries.pick(matrix, name)
    marks = np.ones(len(picked.indices), dtype=bool)
    rows = (marks, picked.indices, picked.indptr)
    # sum_duplicates sorts in place, so copy what may be the caller's arrays.
    pattern = sp.csr_array(rows, shape=picked.shape, copy=not picked.has_canonical_format)
    pattern.sum_duplicates()
    return pattern


def _from_lists(lists: Sequence[Sequence[int]], n_items: int, name: str) -> sp.csr_array:
    rows = [check_rows(row, n_items, f"{name}[{r}]") for r, row in enumerate(lists)]
    indptr = np.cumsum([0, *map(len, rows)])
    columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=indptr[-1])
    return sp.csr_array((np.ones(len(columns), dtype=bool), columns, indptr), (len(rows), n_items))


# Filters in GPU memory, checked and converted without a copy to the host.


def of_sparse(matrix: Any, n_items: int, name: str) -> CSR:
    """The stored columns of each row of a CuPy sparse matrix, ascending and distinct.

    Parameters
    ----------
    matrix : CuPy sparse matrix, shape (n, n_items)
        Any format. Explicit zeros count as stored.
    n_items : int
    name : str
        Name of the argument, for error messages.

    Raises
    ------
    ValueError
        The matrix has another width, or its index arrays are damaged.
    """
    if matrix.ndim != 2 or matrix.shape[1] != n_items:
        raise ValueError(
            f"{name} must have a column for each of the {n_items} items, got shape {matrix.shape}"
        )
    rows = matrix.tocsr()
    indptr, indices = rows.indptr.astype(np.int64), rows.indices
    there = (indptr[0] == 0) & (indptr[-1] == len(indices)) & (indptr[1:] >= indptr[:-1]).all()
    if not (there & (indices >= 0).all() & (indices < n_items).all()):
        raise ValueError(
            f"{name} is damaged: its columns must lie in 0..{n_items - 1}, and indptr must ascend "
            f"from 0 to the number of entries, {len(indices)}"
        )
    return _ascending(CSR(indptr, indices.astype(np.int32, copy=False), None, n_items))


def of_table(table: Any, n_items: int, name: str) -> CSR:
    """The item rows in each row of a 2-D array, ascending and distinct.

    Raises
    ------
    TypeError, ValueError
        The array is not 2-D, or has entries that are not integers in ``0 <= row < n_items``.
    """
    if table.ndim != 2:
        raise ValueError(f"{name} must have one or two axes, got shape {table.shape}")
    columns = check_rows_there(table.ravel(), n_items, name).astype(np.int32)
    indptr = np.arange(len(table) + 1, like=columns) * table.shape[1]
    return _ascending(CSR(indptr, columns, None, n_items))


def _ascending(rows: CSR) -> CSR:
    """Sort each row's columns and drop duplicates; return ``rows`` itself if nothing changes."""
    indices, width = rows.indices, rows.n_columns
    begins = np.zeros(len(indices) + 1, dtype=bool, like=indices)
    begins[rows.indptr] = True
    if not ((indices[1:] <= indices[:-1]) & ~begins[1:-1]).any():
        return rows
    every = np.arange(len(indices), like=indices)
    cells = np.unique(np.searchsorted(rows.indptr[1:], every, side="right") * width + indices)
    ends = np.arange(rows.n_rows + 1, like=indices) * width
    indptr = np.searchsorted(cells, ends).astype(np.int64)
    return CSR(indptr, (cells % width).astype(np.int32), None, width)
