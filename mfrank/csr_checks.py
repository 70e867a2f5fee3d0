"""Whether arrays are the rows of a sparse matrix, read strictly and without scipy.

scipy's own ``check_format(full_check=True)`` passes an ``indptr`` that rises above the number of
entries and comes back; whoever follows such a row reads memory that is not the matrix's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_csr", "check_indptr", "is_canonical"]


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
    if len(indices):
        least, most = int(indices.min()), int(indices.max())
        if least < 0 or most >= n_columns:
            raise ValueError(
                f"{name}.indices must lie in 0..{n_columns - 1}, got {least if least < 0 else most}"
            )
    if data is not None and np.shape(data) != indices.shape:
        raise ValueError(
            f"{name}.data must have a value for each of the {len(indices)} columns, got shape "
            f"{np.shape(data)}"
        )


def check_indptr(indptr: NDArray[Any], nnz: int, n_rows: int, name: str) -> None:
    """Raise unless rows of these offsets are ``nnz`` entries one after the other.

    What :func:`check_csr` looks at before it reads a column; parameters and errors as there.
    """
    _check_whole_numbers(indptr, f"{name}.indptr")
    if len(indptr) != n_rows + 1:
        raise ValueError(
            f"{name}.indptr must have {n_rows + 1} offsets, one more than rows, got {len(indptr)}"
        )
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


def _check_whole_numbers(array: NDArray[Any], name: str) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        got = getattr(array, "dtype", type(array).__name__)
        raise ValueError(
            f"{name} must be a one-dimensional numpy array of whole numbers, got {got} of shape "
            f"{np.shape(array)}"
        )
