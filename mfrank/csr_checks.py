"""The door for sparse matrices of scipy's: index arrays are checked before anyone follows them.

scipy's own ``check_format(full_check=True)`` passes an ``indptr`` that rises above the number of
entries and comes back; its routines then read, or write, memory that is not the matrix's. So no
routine of scipy's is given a matrix that has not come through here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.aligned import readable

__all__ = ["check_csr", "check_indptr", "checked", "checked_rows", "is_canonical"]


def checked(matrix: Any, name: str) -> sp.csr_array | sp.coo_array:
    """A sparse matrix of scipy's whose index arrays have been checked.

    Parameters
    ----------
    matrix : scipy.sparse, of any format
        It is not modified.
    name : str
        What it is called in errors.

    Returns
    -------
    csr_array or coo_array
        CSR of CSR and CSC, COO of all others, which may name a cell more than once. Arrays are
        shared with ``matrix`` where its format allows and they are aligned. It is a new object: its
        flags are computed, not believed.

    Raises
    ------
    TypeError
        It is no sparse matrix.
    ValueError
        It has not two dimensions, or its index arrays do not fit its shape or each other.
    """
    _check_sparse(matrix, name)
    if matrix.format == "csr":
        n_rows, n_columns = matrix.shape
        check_csr(matrix.indptr, matrix.indices, n_rows, n_columns, name, data=matrix.data)
        return sp.csr_array(_readable(matrix), matrix.shape)
    if matrix.format == "csc":
        n_rows, n_columns = matrix.shape
        check_csr(matrix.indptr, matrix.indices, n_columns, n_rows, name, data=matrix.data)
        columns = sp.csc_array(_readable(matrix), matrix.shape)
        return columns.tocsr()
    return _checked_triples(matrix, name)


def checked_rows(matrix: Any, name: str, rows: NDArray[np.int64] | None = None) -> sp.csr_array:
    """As :func:`checked`, always CSR; only some ``rows``, in their order, where they are given.

    Of a CSR, these rows alone are read, so that one row of a large matrix is had at once. The rows
    must lie in the matrix.
    """
    _check_sparse(matrix, name)
    if rows is None or matrix.format != "csr":
        whole = checked(matrix, name).tocsr()
        return whole if rows is None else whole[rows]
    _check_whole_numbers(matrix.indptr, f"{name}.indptr")
    _check_whole_numbers(matrix.indices, f"{name}.indices")
    _check_length(matrix.indptr, matrix.shape[0], name)
    begins, ends = (matrix.indptr[at].astype(np.int64) for at in (rows, rows + 1))
    nnz = len(matrix.indices)
    _check_values(matrix.data, nnz, name)
    if not ((begins >= 0) & (begins <= ends) & (ends <= nnz)).all():
        raise ValueError(f"{name}.indptr must ascend from 0 to its {nnz} entries")
    indptr = np.concatenate([[0], np.cumsum(ends - begins)])
    at = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], ends - begins)
    indices = matrix.indices[at]
    _check_columns(indices, matrix.shape[1], name)
    return sp.csr_array((matrix.data[at], indices, indptr), (len(rows), matrix.shape[1]))


def check_csr(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    n_rows: int,
    n_columns: int,
    name: str,
    *,
    data: NDArray[Any] | None = None,
) -> None:
    """Raise unless the arrays are the rows of a sparse matrix of this shape.

    Columns may be in any order within a row, and more than once: see :func:`is_canonical`. The
    largest temporary is a byte a row.

    Parameters
    ----------
    indptr : whole numbers, shape (n_rows + 1,)
        Row r holds the entries ``indptr[r]:indptr[r + 1]``.
    indices : whole numbers, shape (nnz,)
        Columns.
    n_rows, n_columns : int
    name : str
        What the matrix is called in errors.
    data : shape (nnz,), optional
        Values, of which only the number is looked at.

    Raises
    ------
    ValueError
        ``indptr`` has another length than n_rows + 1, does not begin at 0, falls, or does not end
        at nnz; a column is outside 0..n_columns - 1; values are more or fewer than columns.
    """
    _check_whole_numbers(indices, f"{name}.indices")
    check_indptr(indptr, len(indices), n_rows, name)
    _check_columns(indices, n_columns, name)
    if data is not None:
        _check_values(data, len(indices), name)


def check_indptr(indptr: NDArray[Any], nnz: int, n_rows: int, name: str) -> None:
    """Raise unless rows of these offsets are ``nnz`` entries one after the other.

    What :func:`check_csr` looks at before it reads a column; parameters and errors as there.
    """
    _check_whole_numbers(indptr, f"{name}.indptr")
    _check_length(indptr, n_rows, name)
    if indptr[0] != 0:
        raise ValueError(f"{name}.indptr must begin at 0, got {indptr[0]}")
    falls = indptr[1:] < indptr[:-1]  # a difference of unsigned numbers would not be negative
    if falls.any():
        row = int(falls.argmax())
        raise ValueError(
            f"{name}.indptr must not fall, got {indptr[row]} and then {indptr[row + 1]} at row "
            f"{row}"
        )
    if int(indptr[-1]) != nnz:
        raise ValueError(
            f"{name}.indptr must end at {nnz}, the number of columns, got {indptr[-1]}"
        )


def is_canonical(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Whether the columns of each row ascend without repeats; for arrays that are checked."""
    rises = indices[1:] > indices[:-1]
    inner = indptr[1:-1]
    begins = inner[(inner > 0) & (inner < len(indices))]
    rises[begins - 1] = True  # from the last column of a row to the first of another
    return bool(rises.all())


def _check_sparse(matrix: Any, name: str) -> None:
    is_sparse: bool = sp.issparse(matrix)
    if not is_sparse:
        remedy = ""
        if isinstance(matrix, np.ndarray):
            remedy = "; convert a dense array with scipy.sparse.csr_array(array)"
        raise TypeError(
            f"{name} must be a scipy sparse matrix, got {type(matrix).__name__}{remedy}"
        )
    if len(matrix.shape) != 2:
        raise ValueError(f"{name} must have rows and columns, got {len(matrix.shape)} dimension(s)")


def _checked_triples(matrix: Any, name: str) -> sp.coo_array:
    """Cells of a matrix that is neither CSR nor CSC."""
    fits = True
    if matrix.format == "bsr":
        height, width = matrix.blocksize
        n_rows, n_columns = matrix.shape[0] // height, matrix.shape[1] // width
        check_csr(matrix.indptr, matrix.indices, n_rows, n_columns, name)
        fits = matrix.data.shape == (len(matrix.indices), height, width)
    elif matrix.format == "lil":
        pairs = zip(matrix.rows, matrix.data, strict=False)
        fits = matrix.rows.shape == matrix.data.shape == matrix.shape[:1]
        fits = fits and all(len(columns) == len(values) for columns, values in pairs)
    elif matrix.format == "dia":
        fits = len(matrix.offsets) == len(matrix.data)
    if not fits:
        raise ValueError(f"{name} is damaged: its values do not fit its {matrix.format} structure")
    triples = matrix.tocoo()
    fits = all(np.shape(places) == np.shape(triples.data) for places in triples.coords)
    if not (fits and all(places.dtype.kind in "iu" for places in triples.coords)):
        raise ValueError(f"{name} is damaged: it must have a row and a column for each value")
    for axis, (places, size) in enumerate(zip(triples.coords, matrix.shape, strict=True)):
        if len(places) and not (places.min() >= 0 and places.max() < size):
            side = ("row", "column")[axis]
            raise ValueError(f"{name} is damaged: a {side} lies outside 0..{size - 1}")
    coords = tuple(map(readable, triples.coords))
    return sp.coo_array((readable(triples.data), coords), matrix.shape)


def _readable(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return readable(matrix.data), readable(matrix.indices), readable(matrix.indptr)


def _check_length(indptr: NDArray[Any], n_rows: int, name: str) -> None:
    if len(indptr) != n_rows + 1:
        raise ValueError(
            f"{name}.indptr must have {n_rows + 1} offsets, one more than rows, got {len(indptr)}"
        )


def _check_columns(indices: NDArray[Any], n_columns: int, name: str) -> None:
    if len(indices):
        least, most = int(indices.min()), int(indices.max())
        if least < 0 or most >= n_columns:
            raise ValueError(
                f"{name}.indices must lie in 0..{n_columns - 1}, got {least if least < 0 else most}"
            )


def _check_values(data: Any, nnz: int, name: str) -> None:
    if np.shape(data) != (nnz,):
        raise ValueError(
            f"{name}.data must have a value for each of the {nnz} columns, got shape "
            f"{np.shape(data)}"
        )


def _check_whole_numbers(array: NDArray[Any], name: str) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        got = getattr(array, "dtype", type(array).__name__)
        raise ValueError(
            f"{name} must be a one-dimensional numpy array of whole numbers, got {got} of shape "
            f"{np.shape(array)}"
        )
