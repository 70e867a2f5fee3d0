"""The filters of a call, checked and converted to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.distinct import distinct
from mfrank.arrays.interop import is_on_gpu, is_sparse_on_gpu, take
from mfrank.arrays.placement import beside, on_host
from mfrank.arrays.row_lists import Listed, Picked, holds
from mfrank.retrieval import gpu_filters
from mfrank.retrieval.queries import Queries, Rows, check_rows, check_rows_there

__all__ = ["Candidates", "HasUserItems", "ItemFilter", "some_lists"]


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
        return queries.pick_lists(gpu_filters.of_sparse(values, n_items, name), name)
    if is_on_gpu(values):
        return queries.pick_lists(gpu_filters.of_table(values, n_items, name), name)
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
