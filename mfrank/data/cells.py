"""Observed cells as a canonical CSR: sorted, duplicates merged, without stored zeros."""

from __future__ import annotations

import logging
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.checks import is_count, shown
from mfrank.arrays.counted import counted
from mfrank.arrays.csr_checks import checked
from mfrank.arrays.read_only import unshared

__all__ = [
    "Duplicates",
    "check_shape",
    "core",
    "entry_rows",
    "from_sparse",
    "from_triples",
    "narrow",
    "select",
]

Duplicates = Literal["sum", "max", "last"]
Cells = tuple[sp.csr_array, NDArray[np.int64] | None]

_log = logging.getLogger("mfrank")


def check_shape(shape: tuple[int, int]) -> None:
    """Raise if rows or columns are too many for int32 numbers; entries may be more."""
    if not (isinstance(shape, tuple | list) and len(shape) == 2 and all(map(is_count, shape))):
        raise TypeError(f"shape must be (n_users, n_items), got {shown(shape)}")
    for name, n in zip(("users", "items"), shape, strict=True):
        if not 0 <= n < 2**31:
            raise ValueError(f"the number of {name} must lie in 0..2^31 - 1, got {n}")


def from_triples(
    users: NDArray[Any],
    items: NDArray[Any],
    values: NDArray[Any],
    timestamps: NDArray[np.int64] | None,
    *,
    shape: tuple[int, int],
    duplicates: Duplicates,
    dtype: DTypeLike = np.float32,
) -> Cells:
    """Build cells from row numbers (in range), finite values and, if given, timestamps.

    Values are merged in float64, then rounded to ``dtype``; a merged cell gets its latest
    timestamp.
    """
    order = _order(items, shape[1])
    order = order[_order(users[order], shape[0])]
    users, items, values = users[order], items[order], values[order]
    timestamps = None if timestamps is None else timestamps[order]
    first = np.ones(len(users), dtype=bool)
    first[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
    starts = np.flatnonzero(first)
    if len(starts) < len(users):
        repeated = counted(len(users) - len(starts), "repeated entry")
        _log.info("%s merged (%s)", repeated, duplicates)
        values = _merge(values, timestamps, starts, duplicates)
        timestamps = None if timestamps is None else np.maximum.reduceat(timestamps, starts)
        users, items = users[starts], items[starts]
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=shape[0]), out=indptr[1:])
    return _without_zeros(_rows(_rounded(values, dtype), items, indptr, shape), timestamps)


def from_sparse(matrix: Any, *, duplicates: Duplicates) -> sp.csr_array:
    """Build cells from a scipy sparse matrix in any format, which is not modified.

    Read-only arrays of the matrix may be shared; writable ones are copied.

    Raises
    ------
    ValueError
        If it is not two-dimensional, is too large, or its index arrays are damaged.
    TypeError
        If it is not sparse, or its values are neither booleans, integers nor real numbers.
    """
    triples = checked(matrix, "the matrix")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"values must be real numbers, got dtype {matrix.dtype}")
    check_shape(matrix.shape)
    dtype = np.float64 if matrix.dtype == np.float64 else np.float32
    if triples.format == "csr" and triples.has_canonical_format:
        index = _index_dtype(triples.nnz)
        indices, indptr = (
            unshared(array) if array.dtype == index else array.astype(index)  # one copy at most
            for array in (triples.indices, triples.indptr)
        )
        data = unshared(_rounded(triples.data, dtype))
        return _without_zeros(_rows(data, indices, indptr, matrix.shape), None)[0]
    triples = triples.tocoo()
    users, items = triples.coords
    return from_triples(
        users, items, triples.data, None, shape=matrix.shape, duplicates=duplicates, dtype=dtype
    )[0]


def entry_rows(rows: sp.csr_array) -> NDArray[np.int32]:
    """Row number of every entry, int32, shape (nnz,), aligned with ``rows.indices``."""
    return np.repeat(np.arange(rows.shape[0], dtype=np.int32), np.diff(rows.indptr))


def select(rows: sp.csr_array, kept: NDArray[np.int64]) -> sp.csr_array:
    """The same matrix with only the entries at the positions ``kept`` (ascending)."""
    indptr = np.searchsorted(kept, rows.indptr)
    return _rows(rows.data[kept], rows.indices[kept], indptr, rows.shape)


def narrow(
    rows: sp.csr_array, kept_rows: NDArray[np.int64], kept_columns: NDArray[np.int64]
) -> sp.csr_array:
    """Keep only the given rows and columns (ascending), renumbered; others must be empty."""
    number = np.zeros(rows.shape[1], dtype=rows.indices.dtype)
    number[kept_columns] = np.arange(len(kept_columns))
    indptr = np.append(rows.indptr[kept_rows], rows.indptr[-1])
    shape = len(kept_rows), len(kept_columns)
    return _rows(rows.data, number[rows.indices], indptr, shape)


def core(
    rows: sp.csr_array, row_k: int, column_k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Entries, rows and columns of the k-core, as ascending positions.

    Rows with fewer than ``row_k`` entries and columns with fewer than ``column_k`` are dropped
    repeatedly until there are none.
    """
    of_rows, of_columns, kept = entry_rows(rows), rows.indices, np.arange(len(rows.data))
    while True:
        row_lives = np.bincount(of_rows, minlength=rows.shape[0]) >= row_k
        column_lives = np.bincount(of_columns, minlength=rows.shape[1]) >= column_k
        lives = row_lives[of_rows] & column_lives[of_columns]
        if lives.all():
            return kept, np.flatnonzero(row_lives), np.flatnonzero(column_lives)
        of_rows, of_columns, kept = of_rows[lives], of_columns[lives], kept[lives]


def _rows(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """A CSR with int32 columns where scipy can have them: the kernels read them as they are."""
    index = _index_dtype(len(indices))
    arrays = data, indices.astype(index, copy=False), indptr.astype(index, copy=False)
    return sp.csr_array(arrays, shape=shape)


def _index_dtype(n_entries: int) -> type[np.int32 | np.int64]:
    """What scipy has for both offsets and columns; the former count the entries."""
    return np.int32 if n_entries < 2**31 else np.int64


def _order(keys: NDArray[Any], n_keys: int) -> NDArray[Any]:
    """Stable argsort of keys in 0..n_keys-1, in linear time.

    Transposing the matrix with a single entry (r, keys[r]) in each row r is a counting sort.
    """
    n = len(keys)
    entries = (np.zeros(n, dtype=np.int8), keys, np.arange(n + 1))
    return np.asarray(sp.csr_array(entries, shape=(n, n_keys)).tocsc().indices)


def _merge(
    values: NDArray[Any],
    timestamps: NDArray[np.int64] | None,
    starts: NDArray[np.int64],
    duplicates: Duplicates,
) -> NDArray[Any]:
    """One value for each run of equal cells; runs begin at ``starts``."""
    if duplicates == "sum":
        return np.add.reduceat(values, starts, dtype=np.float64)
    if duplicates == "max":
        return np.maximum.reduceat(values, starts)
    ends = np.append(starts[1:], len(values))
    if timestamps is None:
        return np.asarray(values[ends - 1])
    latest = np.repeat(np.maximum.reduceat(timestamps, starts), ends - starts)
    candidates = np.where(timestamps == latest, np.arange(len(values)), -1)
    return np.asarray(values[np.maximum.reduceat(candidates, starts)])


def _rounded(values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Values in ``dtype``; too large ones become infinite, and the caller raises on them."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def _without_zeros(rows: sp.csr_array, timestamps: NDArray[np.int64] | None) -> Cells:
    kept = np.flatnonzero(rows.data)
    if len(kept) == len(rows.data):
        return rows, timestamps
    entries = counted(rows.nnz, "entry")
    _log.info("%s of %s dropped: zero", f"{rows.nnz - len(kept):,}", entries)
    return select(rows, kept), None if timestamps is None else timestamps[kept]
