"""Sparse rows and lists of columns in the layouts that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.device import converted
from mfrank.arrays.placement import beside, on_host


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CSR:
    """Rows of a sparse matrix: 64-bit offsets, 32-bit columns, values in the factors' dtype.

    scipy stores ``indptr`` and ``indices`` in one dtype, so beyond 2^31 entries its column
    numbers take twice the memory they need; here they are always int32. Rows that filter lists
    may lie on a GPU.

    Attributes
    ----------
    indptr : int64, shape (n_rows + 1,)
        Row r holds the entries ``indptr[r]:indptr[r + 1]``; ``indptr[0]`` is 0.
    indices : int32, shape (nnz,)
        Columns, ascending within a row.
    data : float32 or float64, shape (nnz,), or None
        Values. None if the reader needs only the columns: every entry then counts as 1.
    n_columns : int
        Width of the matrix.
    across : CSR, optional
        The transposed matrix, if this one was computed from it.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any] | None
    n_columns: int
    across: CSR | None = None

    @classmethod
    def from_scipy(
        cls,
        matrix: sp.csr_array,
        dtype: DTypeLike | None = np.float32,
        across: CSR | None = None,
    ) -> CSR:
        """View a canonical scipy CSR (sorted, no duplicates); copy only arrays of another dtype.

        ``dtype=None`` drops the values.
        """
        data = None if dtype is None else converted(matrix.data, dtype)
        return cls(
            converted(matrix.indptr, np.int64),
            converted(matrix.indices, np.int32),
            data,
            int(matrix.shape[1]),
            across,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Entries of each row, int64, shape (n_rows,)."""
        return self.indptr[1:] - self.indptr[:-1]  # np.diff takes several times as long for few

    def pattern(self) -> CSR:
        """The same rows without values."""
        return CSR(self.indptr, self.indices, None, self.n_columns, self.across)

    def pick(self, rows: NDArray[np.int64]) -> CSR:
        """The given rows, in any order, without values; a single row is a view."""
        if len(rows) == 1:
            row = int(rows[0])
            begin, end = self.indptr[row : row + 2].tolist()
            return CSR(np.array([0, end - begin]), self.indices[begin:end], None, self.n_columns)
        begins, ends = self.indptr[rows], self.indptr[rows + 1]
        indptr = np.concatenate([[0], np.cumsum(ends - begins)])
        at = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], ends - begins)
        return CSR(indptr, self.indices[at], None, self.n_columns)

    def blocks(self, n_entries: int) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of rows that split the matrix into blocks.

        A block has at most ``n_entries`` entries, or is a single longer row.
        """
        first = 0
        while first < self.n_rows:
            enough = self.indptr[first] + n_entries
            last = max(first + 1, int(np.searchsorted(self.indptr, enough, side="right")) - 1)
            yield first, last
            first = last

    def row(self, r: int) -> tuple[NDArray[np.int32], NDArray[Any] | None]:
        """Columns and values of row ``r``."""
        part = slice(self.indptr[r], self.indptr[r + 1])
        return self.indices[part], None if self.data is None else self.data[part]


# Lists of columns: the rows of a CSR or a selection of them, on the host or on a GPU.


class Picked(NamedTuple):
    """A selection of rows of a CSR; nothing is copied until it is read.

    Attributes
    ----------
    whole : CSR
    rows : int64, shape (U,)
        The selected rows of ``whole``, in any order; on the host or on a GPU.
    """

    whole: CSR
    rows: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of selected rows, U."""
        return len(self.rows)

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix."""
        return self.whole.n_columns


Listed: TypeAlias = CSR | Picked
"""A list of columns for each row; values are ignored."""


def listed_on_host(lists: Listed) -> CSR:
    """The lists as a CSR in numpy; selected rows are copied into one."""
    if isinstance(lists, Picked):
        return listed_on_host(lists.whole).pick(on_host(lists.rows))
    indices = on_host(lists.indices)
    if indices is lists.indices:
        return lists
    return CSR(on_host(lists.indptr), indices, None, lists.n_columns)


def union(several: Sequence[Listed]) -> CSR | None:
    """For each row the union of its lists, in numpy; None if ``several`` is empty."""
    rows = list(map(listed_on_host, several))
    if len(rows) < 2:
        return rows[0] if rows else None
    return CSR.from_scipy(sum(map(_matrix, rows[1:]), start=_matrix(rows[0])).tocsr(), dtype=None)


def holds(lists: Listed, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the list of row r contains ``columns[r]``, for every r.

    A CSR of a single row is used for all of ``columns``. The result has the shape of ``columns``
    and lies where they lie, on the host or a GPU.
    """
    whole = lists.whole if isinstance(lists, Picked) else lists
    wanted = beside(columns, whole.indices)
    if lists.n_rows == 1 and not isinstance(lists, Picked):
        return beside(np.isin(wanted, whole.indices), columns)
    low, high = whole.indptr[:-1], whole.indptr[1:]
    if isinstance(lists, Picked):
        rows = beside(lists.rows, low)
        low, high = low[rows], high[rows]
    if not (len(whole.indices) and len(wanted)):
        return beside(np.zeros(len(columns), dtype=bool), columns)
    ends, last = high, len(whole.indices) - 1
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        before = whole.indices[np.minimum(middle, last)] < wanted
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    contained = (low < ends) & (whole.indices[np.minimum(low, last)] == wanted)
    return beside(contained, columns)


def _matrix(rows: CSR) -> Any:
    marks = np.ones(len(rows.indices), dtype=bool)
    return sp.csr_array((marks, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_columns))


# Distinct values of integer arrays.


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Sorted distinct values of an integer array of any shape, like ``numpy.unique``.

    Since 2.3 numpy's own uses a hash table, in C++ code that aborts the process if a daemon thread
    runs it at exit; it is also slower on large catalogs.
    """
    ascending = np.sort(numbers, axis=None)
    new = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    return np.concatenate([ascending[:1], ascending[new]])
