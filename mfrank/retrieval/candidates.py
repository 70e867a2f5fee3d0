"""What a list may hold: the filters of a call, checked and brought to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.csr import CSR
from mfrank.foreign import sparse_to_host, to_host
from mfrank.retrieval.asked import Asked, Rows, check_rows

__all__ = ["Candidates", "HasUserItems", "ItemFilter"]


@runtime_checkable
class HasUserItems(Protocol):
    """Anything that holds a user-item matrix, as Interactions do."""

    @property
    def user_items(self) -> sp.csr_array:
        """Interactions, shape (n_users, n_items)."""


ItemFilter: TypeAlias = ArrayLike | Sequence[Sequence[int]] | sp.sparray | sp.spmatrix | None
"""Item rows: one list for every query, or one per query (a sparse matrix, or a list of lists)."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The items that each list may hold, as backends read them (``Backend.top_k``).

    Attributes
    ----------
    exclude : CSR with a row per query, or None
        Items that a query must not get.
    exclude_all : int32, sorted and unique, or None
        Items that no query may get.
    only : CSR with a row per query, or with one row for all, or None
        The only items a query may get.
    """

    exclude: CSR | None = None
    exclude_all: NDArray[np.int32] | None = None
    only: CSR | None = None

    @classmethod
    def of(
        cls,
        asked: Asked,
        n_items: int,
        *,
        user_items: HasUserItems | sp.sparray | sp.spmatrix | CSR | None = None,
        filter_items: ItemFilter = None,
        items: ItemFilter = None,
    ) -> Candidates:
        """Check the filters of a call and bring them to one form.

        Parameters
        ----------
        asked : Asked
            Who is asked for.
        n_items : int
            Items the model has.
        user_items : Interactions or scipy sparse, optional
            What each query has seen and shall not get again. Every stored entry counts, an
            explicit zero too. Whole matrix or one row per query (:meth:`Asked.pick`); rows that
            are read already are taken as they are, one per query.
        filter_items : optional
            Items not to get: one list for all queries; or one per query, as a sparse matrix or a
            list of lists, whole or a row per query.
        items : optional
            The only items to get, in the same forms. An empty list allows none.

        Raises
        ------
        TypeError, ValueError
            The argument named has another shape, or holds what are not rows of items.
        """
        seen = user_items if isinstance(user_items, CSR) else _seen(user_items, asked, n_items)
        filter_items = to_host(sparse_to_host(filter_items), "filter_items")
        items = to_host(sparse_to_host(items), "items")
        exclude, exclude_all = seen, None
        if _per_query(filter_items):
            more = _pattern(filter_items, asked, n_items, "filter_items")
            both = more if seen is None or more is None else (_matrix(seen) + more).tocsr()
            exclude = _csr(both)
        elif filter_items is not None:
            exclude_all = _one_list(filter_items, n_items, "filter_items")
        only: CSR | None = None
        if _per_query(items):
            only = _csr(_pattern(items, asked, n_items, "items"))
        elif items is not None:
            allowed = _one_list(items, n_items, "items")
            only = CSR(np.array([0, len(allowed)]), allowed, None, n_items)
        return cls(exclude, exclude_all, only)

    def check(self, n_queries: int, n_items: int) -> None:
        """Raise unless made for so many queries and items."""
        for rows, allowed in ((self.exclude, {n_queries}), (self.only, {1, n_queries})):
            if rows is not None and (rows.n_rows not in allowed or rows.n_columns != n_items):
                raise ValueError(
                    f"candidates must be for {n_queries} queries and {n_items} items, "
                    f"got {rows.n_rows} and {rows.n_columns}"
                )

    def allow(self, items: Rows) -> NDArray[np.bool_]:
        """Whether query r may get ``items[r]``, for every r."""
        allowed = np.ones(len(items), dtype=bool)
        if self.only is not None:
            allowed &= _holds(self.only, items)
        if self.exclude_all is not None:
            allowed &= ~np.isin(items, self.exclude_all)
        if self.exclude is not None:
            allowed &= ~_holds(self.exclude, items)
        return allowed

    def without(self, items: Rows, n_items: int) -> Candidates:
        """Exclude ``items[r]`` from query r too."""
        single = CSR(np.arange(len(items) + 1), items.astype(np.int32), None, n_items)
        if self.exclude is None:
            return Candidates(single, self.exclude_all, self.only)
        both = (_matrix(self.exclude) + _matrix(single)).tocsr()
        return Candidates(_csr(both), self.exclude_all, self.only)


def _seen(user_items: Any, asked: Asked, n_items: int) -> CSR | None:
    if isinstance(user_items, HasUserItems):
        user_items = user_items.user_items
    user_items = sparse_to_host(user_items)
    if user_items is not None and not sp.issparse(user_items):
        raise TypeError(
            "user_items must be Interactions or a scipy sparse matrix, "
            f"got {type(user_items).__name__}"
        )
    return _csr(_pattern(user_items, asked, n_items, "user_items"))


def _per_query(values: ItemFilter) -> bool:
    if values is None:
        return False
    if sp.issparse(values):
        return True
    if isinstance(values, np.ndarray):
        return values.ndim > 1
    return isinstance(values, Sequence) and any(not np.isscalar(v) for v in values)


def _one_list(values: ItemFilter, n_items: int, name: str) -> NDArray[np.int32]:
    return np.unique(check_rows(values, n_items, name)).astype(np.int32)  # type: ignore[arg-type]


def _pattern(values: Any, asked: Asked, n_items: int, name: str) -> sp.csr_array | None:
    """Each query's stored columns, all of value True, sorted, no duplicates."""
    if values is None:
        return None
    matrix: Any = values if sp.issparse(values) else _from_lists(values, n_items, name)
    if matrix.ndim != 2 or matrix.shape[1] != n_items:
        raise ValueError(
            f"{name} must have a column for each of the {n_items} items, got shape {matrix.shape}"
        )
    picked = asked.pick(sp.csr_array(matrix), name)
    marks = np.ones(len(picked.indices), dtype=bool)
    rows = (marks, picked.indices, picked.indptr)
    # Sorting happens in place: never in the caller's arrays.
    pattern = sp.csr_array(rows, shape=picked.shape, copy=not picked.has_canonical_format)
    pattern.sum_duplicates()
    return pattern


def _from_lists(lists: Sequence[Sequence[int]], n_items: int, name: str) -> sp.csr_array:
    rows = [check_rows(row, n_items, f"{name}[{r}]") for r, row in enumerate(lists)]
    indptr = np.cumsum([0, *map(len, rows)])
    columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=indptr[-1])
    return sp.csr_array((np.ones(len(columns), dtype=bool), columns, indptr), (len(rows), n_items))


def _csr(matrix: sp.csr_array | None) -> CSR | None:
    return None if matrix is None else CSR.from_scipy(matrix, dtype=None)


def _matrix(rows: CSR) -> sp.csr_array:
    marks = np.ones(len(rows.indices), dtype=bool)
    return sp.csr_array((marks, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_columns))


def _holds(rows: CSR, items: Rows) -> NDArray[np.bool_]:
    """Whether row r holds ``items[r]``; a single row stands for all."""
    if rows.n_rows == 1:
        return np.isin(items, rows.indices)
    width = rows.n_columns
    stored = np.repeat(np.arange(rows.n_rows), rows.counts) * width + rows.indices
    return np.isin(np.arange(len(items)) * width + items, stored)
