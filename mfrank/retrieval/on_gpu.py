"""Filters that lie on a GPU, checked and read where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank.csr import CSR
from mfrank.retrieval.asked import check_rows_there

__all__ = ["of_sparse", "of_table"]


def of_sparse(matrix: Any, n_items: int, name: str) -> CSR:
    """The columns stored in the rows of a sparse matrix of CuPy's, ascending, none twice.

    Parameters
    ----------
    matrix : shape (n, n_items)
        Of any format. Explicit zeros are stored too.
    n_items : int
    name : str
        The argument it was given as, for errors.

    Raises
    ------
    ValueError
        It has another width, or its index arrays are damaged.
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
            f"{name} is damaged: its columns must lie in 0..{n_items - 1}, and indptr ascend from "
            f"0 to the number of its entries, {len(indices)}"
        )
    return _ascending(CSR(indptr, indices.astype(np.int32, copy=False), None, n_items))


def of_table(table: Any, n_items: int, name: str) -> CSR:
    """The item rows in each row of an array, ascending, none twice.

    Raises
    ------
    TypeError, ValueError
        They are no integers, or lie outside ``0 <= row < n_items``; or the array has not two axes.
    """
    if table.ndim != 2:
        raise ValueError(f"{name} must have one or two axes, got shape {table.shape}")
    columns = check_rows_there(table.ravel(), n_items, name).astype(np.int32)
    indptr = np.arange(len(table) + 1, like=columns) * table.shape[1]
    return _ascending(CSR(indptr, columns, None, n_items))


def _ascending(rows: CSR) -> CSR:
    """The rows with their columns ascending, none twice; themselves where they are so."""
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
