"""Filters in GPU memory, checked and converted without a copy to the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank.arrays.csr import CSR
from mfrank.retrieval.queries import check_rows_there

__all__ = ["of_sparse", "of_table"]


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
