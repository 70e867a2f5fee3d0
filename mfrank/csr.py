"""Sparse rows as the kernels read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.twins import converted

__all__ = ["CSR"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CSR:
    """Rows of a sparse matrix: 64-bit offsets, 32-bit columns, values of the factors' dtype.

    scipy keeps ``indptr`` and ``indices`` in one dtype, so beyond 2^31 entries its columns
    take twice the memory they need. Kernels never meet that case: they read this structure.
    Rows that filter lists may lie on a GPU.

    Attributes
    ----------
    indptr : int64, shape (n_rows + 1,)
        Row r holds the entries ``indptr[r]:indptr[r + 1]``; ``indptr[0]`` is 0.
    indices : int32, shape (nnz,)
        Columns, ascending within a row.
    data : float32 or float64, shape (nnz,), or None
        Values; None where the reader needs none, every stored value then counts as 1.
    n_columns : int
        Width of the matrix.
    across : CSR, optional
        The same matrix by its columns, where this was made of that.
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
        """View a canonical scipy CSR (sorted, no duplicates); copies only what has another dtype.

        ``dtype=None`` leaves the values out.
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
        return np.diff(self.indptr)

    def pattern(self) -> CSR:
        """The same without the values."""
        return CSR(self.indptr, self.indices, None, self.n_columns, self.across)

    def pick(self, rows: NDArray[np.int64]) -> CSR:
        """Some rows, in any order, without their values; a single one is a view."""
        begins, ends = self.indptr[rows], self.indptr[rows + 1]
        if len(rows) == 1:
            indices, counts = self.indices[begins[0] : ends[0]], ends - begins
            return CSR(np.array([0, counts[0]]), indices, None, self.n_columns)
        indptr = np.concatenate([[0], np.cumsum(ends - begins)])
        at = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], ends - begins)
        return CSR(indptr, self.indices[at], None, self.n_columns)

    def blocks(self, n_entries: int) -> Iterator[tuple[int, int]]:
        """Ranges of consecutive rows with up to ``n_entries`` entries, or one row with more."""
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
