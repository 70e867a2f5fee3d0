"""The filters of a call, checked and converted to one form: the candidates of each list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    CSR,
    Listed,
    Picked,
    beside,
    distinct,
    holds,
    is_on_gpu,
    is_sparse_on_gpu,
    on_host,
    shown,
    to_host,
)
from mfrank.data import OnUnknown
from mfrank.errors import InputTypeError, InputValueError
from mfrank.retrieval.queries import Queries, check_columns
from mfrank.retrieval.side import Rows, Side, check_rows_there, given_ids, is_single


class Candidates(NamedTuple):
    """The candidates of each list, as arguments of ``Backend.top_k``.

    Arrays stay on the device (host or GPU) on which they were passed.

    Attributes
    ----------
    exclude : tuple of Listed, each with a row per query
        Excluded items per query: the union of its rows.
    exclude_all : int32, sorted and unique, or None
        Items excluded for all queries.
    only : Listed with a row per query, CSR with a single row for all queries, or None
        The only allowed items.
    """

    exclude: tuple[Listed, ...] = ()
    exclude_all: NDArray[np.int32] | None = None
    only: Listed | None = None

    @classmethod
    def of(
        cls, queries: Queries, answering: Side, blocked: Any, only: Any, on_unknown: OnUnknown
    ) -> Candidates:
        """Check the filters of a call and convert them to row numbers.

        Parameters
        ----------
        queries : Queries
        answering : Side
            The side whose rows are listed.
        blocked, only : optional
            Ids to leave out, and the only ids to list; an empty list of the latter allows none.
            Either is one list for all queries, or one per query: lists of ids, a 2-D array, or a
            sparse matrix (:meth:`Queries.pick`), whose stored entries count, zeros included.
        on_unknown : {"error", "skip"}
            Whether unknown ids are an error or left out.

        Raises
        ------
        UnknownIdError
            An id is unknown, and ``on_unknown`` is "error".
        TypeError, ValueError
            An argument, named in the message, has the wrong shape or is damaged.
        """
        if blocked is None and only is None:
            return EVERY_ITEM
        noun, n_items = f"{answering.name}s", len(answering.ids)
        excluded = _listed(blocked, queries, answering, f"filter_{noun}", on_unknown)
        allowed = _listed(only, queries, answering, noun, on_unknown)
        if allowed is not None and not isinstance(allowed, CSR | Picked):
            ends = beside(np.array([0, len(allowed)]), allowed)
            allowed = CSR(ends, allowed, None, n_items)
        if isinstance(excluded, CSR | Picked):
            return cls((excluded,), None, allowed)
        return cls((), excluded, allowed)

    def check(self, n_queries: int, n_items: int) -> None:
        """Raise ValueError unless the filters are for ``n_queries`` and ``n_items``."""
        one_each, or_one = {n_queries}, {1, n_queries}
        for rows, allowed in (*((each, one_each) for each in self.exclude), (self.only, or_one)):
            if rows is not None and (rows.n_rows not in allowed or rows.n_columns != n_items):
                raise InputValueError(
                    f"`candidates` must be for {n_queries} queries and {n_items} items, got "
                    f"{rows.n_rows} and {rows.n_columns}"
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
            only = some_lists(only, rows)
        return Candidates(
            tuple(some_lists(each, rows) for each in self.exclude), self.exclude_all, only
        )

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

    def without_lists(self, lists: Listed | None) -> Candidates:
        """Return a copy that also excludes each query's own list, such as its seen items."""
        if lists is None:
            return self
        return Candidates((lists, *self.exclude), self.exclude_all, self.only)


EVERY_ITEM = Candidates()


def some_lists(lists: Listed, rows: NDArray[np.int64]) -> Listed:
    """The lists of some queries."""
    if isinstance(lists, Picked):
        return Picked(lists.whole, lists.rows[beside(rows, lists.rows)])
    return Picked(lists, beside(rows, lists.indptr))


# Filters in every accepted form: one list for all queries, or a row for each.


@dataclass(frozen=True, slots=True, eq=False)
class KnownRows:
    """A filter that is used again and again, such as a service's: rows that need no lookup.

    Attributes
    ----------
    rows : int32
        Row numbers of the model whose lists are filtered, ascending and distinct. If the array is
        read-only, a backend may keep what it makes of it for as long as the array lives.
    """

    rows: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)


_Converted: TypeAlias = NDArray[np.int32] | Listed | None
"""Item rows, ascending and distinct: one list for all queries, or one per query."""


def given_filter(values: Any, argument: str) -> Any:
    """A filter in a reusable form; its lists may be sets.

    Raises
    ------
    TypeError
        The filter is a mapping, or a column of lists, whose order may differ from the query ids.
    """
    if values is None or sp.issparse(values) or is_sparse_on_gpu(values):
        return values
    given: Any = given_ids(values, argument, ordered=False)
    if is_single(given):
        return [given]
    if not isinstance(given, list | tuple):
        if is_on_gpu(given) or isinstance(given, range):
            return given
        taken = np.asarray(given)
        if taken.dtype != object or taken.ndim != 1 or all(map(is_single, taken)):
            return given
        if given is not taken:
            raise InputTypeError(
                f"`{argument}` must be one list of ids, or a list of lists, got a column of lists "
                f"({type(given).__name__})",
                "pass its .tolist(), in the order of the query ids",
            )
        given = taken.tolist()
    if all(map(is_single, given)):
        return given
    for place, row in enumerate(given):
        if is_single(row):
            raise InputTypeError(
                f"`{argument}` must be one list of ids, or have a list for each query id; got "
                f"{shown(row)} among lists, in place {place}"
            )
    return [given_ids(row, argument, ordered=False) for row in given]


def is_nested(values: Any) -> bool:
    """Whether a filter has one list per query."""
    if isinstance(values, np.ndarray) or is_on_gpu(values):
        return bool(values.ndim > 1)
    if isinstance(values, range):  # of numbers, however many
        return False
    return isinstance(values, Sequence) and not all(map(is_single, values))


def columns_of(rows: sp.csr_array) -> CSR:
    """The stored columns of each row of a checked matrix, ascending and distinct."""
    if not rows.has_canonical_format:
        marks = np.ones(len(rows.indices), dtype=bool)
        # sum_duplicates sorts in place, so copy what may be the caller's arrays.
        rows = sp.csr_array((marks, rows.indices, rows.indptr), rows.shape, copy=True)
        rows.sum_duplicates()
    return CSR.from_scipy(rows, dtype=None)


def _listed(
    values: Any, queries: Queries, side: Side, argument: str, on_unknown: OnUnknown
) -> _Converted:
    """A filter in ids. Row numbers on a GPU stay there, except a 2-D array with unknown ones."""
    if isinstance(values, KnownRows):
        return values.rows
    values, n_items = given_filter(values, argument), len(side.ids)
    if values is None:
        return None
    if sp.issparse(values) or is_sparse_on_gpu(values):
        return _of_matrix(values, queries, n_items, argument)
    if not side.speaks_rows:
        values = to_host(values, argument)  # where labels are looked up
    if not is_nested(values):
        return distinct(side.rows_of_known(values, argument, on_unknown)).astype(np.int32)
    if len(values) != queries.n_queries:
        raise InputValueError(
            f"`{argument}` must have a list for each of the {queries.n_queries} queries, or be "
            f"one list for all; got {len(values)} lists"
        )
    if is_on_gpu(values):
        if on_unknown == "error" and values.dtype.kind in "iu":
            return of_table(values, n_items, argument)
        values = on_host(values)
    rows = [on_host(side.rows_of_known(row, argument, on_unknown)) for row in values]
    return _of_lists(rows, n_items)


def _of_lists(lists: Sequence[Rows], n_items: int) -> CSR:
    ends = np.cumsum([0, *map(len, lists)])
    columns = np.concatenate(lists or [np.empty(0, dtype=np.int64)]).astype(np.int32)
    return _ascending(CSR(ends, columns, None, n_items))


def _of_matrix(matrix: Any, queries: Queries, n_items: int, name: str) -> Listed:
    """The stored columns of each query's row."""
    if is_sparse_on_gpu(matrix):
        return queries.pick_lists(of_sparse(matrix, n_items, name), name)
    check_columns(matrix, n_items, name)
    return columns_of(queries.pick(matrix, name))


# Filters on the side where they lie, host or GPU.


def of_sparse(matrix: Any, n_items: int, name: str) -> CSR:
    """The stored columns, zeros too, of each row of a CuPy sparse matrix, ascending and distinct.

    Raises
    ------
    ValueError
        The matrix has another width, or its index arrays are damaged.
    """
    check_columns(matrix, n_items, name)
    rows = matrix.tocsr()
    indptr, indices = rows.indptr.astype(np.int64), rows.indices
    there = (indptr[0] == 0) & (indptr[-1] == len(indices)) & (indptr[1:] >= indptr[:-1]).all()
    if not (there & (indices >= 0).all() & (indices < n_items).all()):
        raise InputValueError(
            f"`{name}` is damaged: its columns must lie in 0..{n_items - 1}, and indptr must "
            f"ascend from 0 to the number of entries, {len(indices)}"
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
        raise InputValueError(f"`{name}` must have one or two axes, got shape {table.shape}")
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
    cells = distinct(np.searchsorted(rows.indptr[1:], every, side="right") * width + indices)
    ends = np.arange(rows.n_rows + 1, like=indices) * width
    indptr = np.searchsorted(cells, ends).astype(np.int64)
    return CSR(indptr, (cells % width).astype(np.int32), None, width)
