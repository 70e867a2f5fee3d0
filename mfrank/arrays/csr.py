"""Sparse rows in the layout that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.device_copies import converted

__all__ = ["CSR"]


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
        begins, ends = self.indptr[rows], self.indptr[rows + 1]
        if len(rows) == 1:
            indices, counts = self.indices[begins[0] : ends[0]], ends - begins
            return CSR(np.array([0, counts[0]]), indices, None, self.n_columns)
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
