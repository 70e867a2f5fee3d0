"""Checks of scipy sparse matrices: index arrays are validated before they are used.

scipy's own ``check_format(full_check=True)`` accepts an ``indptr`` that rises above the number of
entries and falls again; scipy's routines then read or write out of bounds. So every matrix is
checked here before it is passed to a scipy routine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.placement import readable
from mfrank.errors import InputTypeError, InputValueError

_ENTRIES_AT_ONCE = 1 << 20  # so that arrays may be mapped that are larger than memory


def checked(matrix: Any, name: str) -> sp.csr_array | sp.coo_array:
    """Check the index arrays of a scipy sparse matrix and convert it to CSR or COO.

    CSR and CSC become CSR, all other formats COO; cells may occur more than once. Arrays are shared
    with ``matrix`` if its format allows it and they are aligned. The object is new, so that scipy
    computes its flags (``has_canonical_format``) instead of copying them.

    Raises
    ------
    TypeError
        It is not a scipy sparse matrix.
    ValueError
        It does not have two dimensions, or its index arrays do not fit its shape or each other.
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
    """Like :func:`checked`, but always CSR, and only the given ``rows``, in their order.

    Of a CSR only these rows are checked and read, so that a single row of a large matrix is cheap.
    ``rows`` must be valid row numbers; None means all rows.
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
        raise InputValueError(f"`{name}`.indptr must ascend from 0 to its {nnz} entries")
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
    """Raise unless the arrays form a CSR matrix of this shape.

    Row r holds the entries ``indptr[r]:indptr[r + 1]``; its columns may be unsorted and may repeat,
    see :func:`is_canonical`. Of ``data``, only the shape is checked. The largest temporary array
    takes one byte per row.

    Raises
    ------
    ValueError
        An index array is not a one-dimensional integer array; ``indptr`` does not have n_rows + 1
        elements, does not begin at 0, falls, or does not end at nnz; a column lies outside
        0..n_columns - 1; or ``data`` does not have shape (nnz,).
    """
    _check_whole_numbers(indices, f"{name}.indices")
    check_indptr(indptr, len(indices), n_rows, name)
    _check_columns(indices, n_columns, name)
    if data is not None:
        _check_values(data, len(indices), name)


def check_indptr(indptr: NDArray[Any], nnz: int, n_rows: int, name: str) -> None:
    """Raise unless ``indptr`` splits ``nnz`` entries into ``n_rows`` consecutive rows.

    This is the part of :func:`check_csr` that needs no columns; it raises the same errors.
    """
    _check_whole_numbers(indptr, f"{name}.indptr")
    _check_length(indptr, n_rows, name)
    if indptr[0] != 0:
        raise InputValueError(f"`{name}`.indptr must begin at 0, got {indptr[0]}")
    falls = indptr[1:] < indptr[:-1]  # a difference of unsigned integers is never negative
    if falls.any():
        row = int(falls.argmax())
        raise InputValueError(
            f"`{name}`.indptr must not fall, got {indptr[row]} and then {indptr[row + 1]} at row "
            f"{row}"
        )
    if int(indptr[-1]) != nnz:
        raise InputValueError(
            f"`{name}`.indptr must end at {nnz}, the number of entries, got {indptr[-1]}"
        )


def is_canonical(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Whether the columns of every row strictly ascend; the arrays must have been checked."""
    for begin in range(1, len(indices), _ENTRIES_AT_ONCE):
        end = min(begin + _ENTRIES_AT_ONCE, len(indices))
        rises = indices[begin:end] > indices[begin - 1 : end - 1]
        rows = slice(*np.searchsorted(indptr, [begin, end]))
        rises[indptr[rows].astype(np.int64) - begin] = True  # a row begins there
        if not rises.all():
            return False
    return True


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite."""
    parts = range(0, len(values), _ENTRIES_AT_ONCE)
    return all(bool(np.isfinite(values[at : at + _ENTRIES_AT_ONCE]).all()) for at in parts)


def _check_sparse(matrix: Any, name: str) -> None:
    is_sparse: bool = sp.issparse(matrix)
    if not is_sparse:
        remedy = ""
        if isinstance(matrix, np.ndarray):
            remedy = "; convert a dense array with scipy.sparse.csr_array(array)"
        raise InputTypeError(
            f"`{name}` must be a scipy sparse matrix, got {type(matrix).__name__}{remedy}"
        )
    if len(matrix.shape) != 2:
        raise InputValueError(
            f"`{name}` must have rows and columns, got {len(matrix.shape)} dimension(s)"
        )


def _checked_triples(matrix: Any, name: str) -> sp.coo_array:
    """Check a matrix that is neither CSR nor CSC, and convert it to COO.

    Zeros that fill up the blocks of a BSR are no entries.
    """
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
        raise InputValueError(
            f"`{name}` is damaged: its values do not fit its {matrix.format} structure"
        )
    triples = matrix.tocoo()
    fits = all(np.shape(places) == np.shape(triples.data) for places in triples.coords)
    if not (fits and all(places.dtype.kind in "iu" for places in triples.coords)):
        raise InputValueError(
            f"`{name}` is damaged: it must have a row and a column for each value"
        )
    for axis, (places, size) in enumerate(zip(triples.coords, matrix.shape, strict=True)):
        if len(places) and not (places.min() >= 0 and places.max() < size):
            side = ("row", "column")[axis]
            raise InputValueError(f"`{name}` is damaged: a {side} lies outside 0..{size - 1}")
    if matrix.format == "bsr" and matrix.blocksize != (1, 1):
        triples = sp.coo_array(triples)
        triples.eliminate_zeros()
    coords = tuple(map(readable, triples.coords))
    return sp.coo_array((readable(triples.data), coords), matrix.shape)


def _readable(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return readable(matrix.data), readable(matrix.indices), readable(matrix.indptr)


def _check_length(indptr: NDArray[Any], n_rows: int, name: str) -> None:
    if len(indptr) != n_rows + 1:
        raise InputValueError(
            f"`{name}`.indptr must have {n_rows + 1} offsets, one more than rows, got {len(indptr)}"
        )


def _check_columns(indices: NDArray[Any], n_columns: int, name: str) -> None:
    if len(indices):
        least, most = int(indices.min()), int(indices.max())
        if least < 0 or most >= n_columns:
            raise InputValueError(
                f"`{name}`.indices must lie in 0..{n_columns - 1}, got "
                f"{least if least < 0 else most}"
            )


def _check_values(data: Any, nnz: int, name: str) -> None:
    if np.shape(data) != (nnz,):
        raise InputValueError(
            f"`{name}`.data must have a value for each of the {nnz} entries, got shape "
            f"{np.shape(data)}"
        )


def _check_whole_numbers(array: NDArray[Any], name: str) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        got = getattr(array, "dtype", type(array).__name__)
        raise InputValueError(
            f"`{name}` must be a one-dimensional numpy array of whole numbers, got {got} of shape "
            f"{np.shape(array)}"
        )


def in_place(
    data: NDArray[Any],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    shape: tuple[int, int],
) -> sp.csr_array:
    """The CSR of checked arrays, which are not copied but for the offsets.

    scipy's constructor would copy columns beside int64 offsets, as int64, and a view of a much
    larger array; of mapped ones, it would read the whole file.
    """
    rows = sp.csr_array(shape, dtype=data.dtype)
    fits = indices.size <= np.iinfo(np.int32).max
    rows.data, rows.indices = data, indices if fits else indices.astype(np.int64)
    rows.indptr = indptr.astype(np.int32 if fits else np.int64)
    return rows
