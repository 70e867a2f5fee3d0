"""The queries of a call: checked row numbers, and each query's row of a matrix argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.csr_checks import checked_rows
from mfrank.arrays.interop import as_array
from mfrank.arrays.placement import beside, on_host
from mfrank.arrays.row_lists import Listed, Picked
from mfrank.data.unknown_ids import UnknownIdError

__all__ = ["Queries", "Rows", "check_rows", "check_rows_there"]

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
