"""The queries of a call: their rows in the model, and in a matrix or Interactions."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import (
    CSR,
    Listed,
    Picked,
    checked_rows,
    distinct,
    on_host,
    sparse_to_host,
    to_host,
)
from mfrank.data import Interactions, check_numbering, is_frame, select
from mfrank.errors import InputTypeError, InputValueError, within
from mfrank.retrieval.side import Raw, Rows, Side, check_rows_there, is_single

Matrix: TypeAlias = Interactions | sp.sparray | sp.spmatrix
"""Interactions, or a scipy or CuPy sparse matrix."""


class Queries(NamedTuple):
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
    def new(cls, n_queries: int) -> Queries:
        """Queries without a row in the model."""
        return cls(None, n_queries, 0)

    @classmethod
    def of_ids(cls, side: Side, raw: Raw) -> Queries:
        """Ids of a side; if any id is unknown, all are treated as new to the model."""
        many: Any = [raw] if is_single(raw) else raw
        rows: Rows
        if side.reads_rows(many):
            rows = check_rows_there(many, 2**31, f"{side.name}id")
            known = bool((rows < len(side.ids)).all())
        else:
            rows = side.find(many, f"{side.name}id", missing=-1)
            known = bool((rows >= 0).all())
        return cls(rows, len(rows), len(side.ids)) if known else cls.new(len(rows))

    def pick(self, matrix: Any, name: str) -> sp.csr_array:
        """Each query's row of a matrix argument, shape (U, n_columns).

        A matrix with U rows has one row per query, in order. A matrix with ``n_rows`` rows is the
        whole matrix, from which the row of each query is taken. Any other number of rows is a
        ValueError, which names the argument.
        """
        rows = on_host(self.rows) if self._takes_whole(matrix.shape[0], name) else None
        return checked_rows(matrix, name, rows)

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
        raise InputValueError(
            f"`{name}` must have as many rows as there are query ids, {self.n_queries}, in their "
            f"order{whole}; got {given}",
            f"Pass the rows of these ids, such as {name}[rows]",
        )


def given_rows(
    matrix: Matrix,
    raw: Raw,
    query_side: Side,
    answering: Side,
    argument: str,
    queries: Queries | None = None,
) -> sp.csr_array:
    """One row of interactions for each id of ``raw``, shape (len(raw), rows of ``answering``).

    Parameters
    ----------
    matrix : Interactions or sparse matrix
        Interactions are matched by id. A sparse matrix has one row per id or is the whole matrix
        (:meth:`Queries.pick`); its columns are the rows of ``answering``.
    raw : id or ids
        Ids of ``query_side``, which may be new to the model.
    query_side, answering : Side
    argument : str
        Name of the matrix, for error messages.
    queries : Queries, optional
        The same ids as queries, if already looked up.
    """
    matrix = sparse_to_host(matrix)
    if isinstance(matrix, Interactions):
        return _by_ids(matrix, matrix.user_items, raw, query_side, answering, argument)
    if not sp.issparse(matrix):
        remedy = "; read it by Interactions.from_frame first" if is_frame(matrix) else ""
        raise InputTypeError(
            f"`{argument}` must be Interactions or a scipy sparse matrix, got "
            f"{type(matrix).__name__}{remedy}"
        )
    check_columns(matrix, len(answering.ids), argument)
    return (queries or Queries.of_ids(query_side, raw)).pick(matrix, argument)


def given_seen(
    matrix: Interactions, raw: Raw, query_side: Side, answering: Side, argument: str
) -> sp.csr_array:
    """Like :func:`given_rows`, with zeros for cells that are only seen."""
    return _by_ids(matrix, matrix.seen, raw, query_side, answering, argument)


def _by_ids(
    matrix: Interactions,
    user_items: sp.csr_array,
    raw: Raw,
    query_side: Side,
    answering: Side,
    argument: str,
) -> sp.csr_array:
    """Rows of ``user_items``, which are of these interactions."""
    table, rows, columns = user_items, matrix.user_ids, matrix.item_ids
    if query_side.name == "item":
        table = matrix.item_users if table is matrix.user_items else table.T.tocsr()
        rows, columns = columns, rows
    labels = query_side.ids.raw(query_side.rows(raw, argument)) if query_side.by_row else raw
    check_numbering(rows, query_side.ids, argument, query_side.name)
    check_numbering(columns, answering.ids, argument, answering.name)
    try:
        picked = table[rows.rows([labels] if is_single(labels) else labels)]  # type: ignore[arg-type]
        if columns == answering.ids:
            return picked
        used = distinct(picked.indices)
        place = np.zeros(len(columns), dtype=np.int64)
        place[used] = answering.ids.rows(columns.raw(used), missing=-1)
        if (place[used] < 0).any():
            answering.ids.rows(columns.raw(distinct(picked.indices[picked.data != 0])))
            # Unknown ids that are only seen cannot be listed anyway.
            picked = select(picked, np.flatnonzero(place[picked.indices] >= 0))
    except ValueError as error:
        raise within(f"`{argument}`", error) from None
    shape = picked.shape[0], len(answering.ids)
    return sp.csr_array((picked.data, place[picked.indices], picked.indptr), shape)


def check_columns(matrix: Any, n_columns: int, name: str) -> None:
    """Raise ValueError unless a matrix argument has this number of columns."""
    if matrix.ndim != 2 or matrix.shape[1] != n_columns:
        noun = name.rpartition("_")[2]  # "user_items" and "filter_items" have items as columns
        raise InputValueError(
            f"`{name}` must have a column for each of the {n_columns} {noun}, got shape "
            f"{matrix.shape}"
        )


# The row of somebody new, made from the items that they like.
#
# It is not made from a scipy matrix: building one takes longer than solving the row and finding its
# list.


class LikedItems(NamedTuple):
    """A single row of a users x items matrix.

    Attributes
    ----------
    items : CSR, without values
        Every item of the row, to be filtered.
    likes : CSR
        The items with a value other than 0, from which the user's factors are solved.
    values : shape (entries of likes,)
        The values in ``likes``.
    given : int64, shape (n,)
        The rows of the items in the order of the call; -1 is left out.
    """

    items: CSR
    likes: CSR
    values: NDArray[Any]
    given: NDArray[np.int64]

    @classmethod
    def of(
        cls, columns: NDArray[np.int64], values: Any, n_items: int, dtype: DTypeLike
    ) -> LikedItems:
        """Build the row; values of a repeated item are summed.

        Parameters
        ----------
        columns : int64, shape (n,)
            Rows of the items, in any order; -1 is left out.
        values : shape (n,), or None
            None is 1 for each.
        n_items : int
        dtype : dtype
            Dtype of the values in ``likes``.

        Raises
        ------
        TypeError, ValueError
            ``values`` are not one finite real number for each of ``columns``.
        """
        numbers = None if values is None else _numbers(values, len(columns))
        order = columns.argsort(kind="stable")
        order = order[columns.searchsorted(0, sorter=order) :]
        ascending = columns[order]
        begins = np.empty(len(order), dtype=bool)
        begins[:1] = True
        np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
        items = ascending[begins].astype(np.int32)
        place = begins.cumsum() - 1
        if numbers is None:
            likes, kept = items, np.bincount(place).astype(dtype)
        else:
            sums = _fitting(np.bincount(place, numbers[order]), dtype)
            likes, kept = items[sums != 0], sums[sums != 0]
        return cls(_row(items, None, n_items), _row(likes, kept, n_items), kept, columns)


def _fitting(sums: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """The sums in this dtype; ValueError if one is not finite there."""
    with np.errstate(over="ignore"):
        merged = sums.astype(dtype)
    finite = np.isfinite(merged)
    if not finite.all():
        raise InputValueError(
            f"`values` must be finite and fit {np.dtype(dtype)}, got {sums[~finite][0]} for an "
            "item",
            "drop or replace it",
        )
    return merged


def _numbers(values: Any, size: int) -> NDArray[np.float64]:
    given = np.asarray(to_host(values, "values"))
    if given.shape != (size,):
        raise InputValueError(
            f"`values` must have one number for each of the {size} itemids, got shape {given.shape}"
        )
    if given.dtype.kind == "c":
        raise InputTypeError("`values` must be real numbers, got complex ones")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputValueError(f"`values` must be numbers: {error}") from error


def _row(items: NDArray[np.int32], values: NDArray[Any] | None, n_items: int) -> CSR:
    return CSR(np.array([0, len(items)]), items, values, n_items)
