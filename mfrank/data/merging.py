"""Entries of a matrix merged into cells, by user and item: sums, maxima or the last values.

The extension does the same in one pass over sorted keys, and adds up in the same order.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import ext as _ext

Duplicates = Literal["sum", "max", "last"]

_is_native: bool = _ext is not None
_MOST_BITS = 62
"""Of a user, an item and the place of an entry, as one number of 64 bits with a sign."""


class Entries(NamedTuple):
    """Row numbers, values and, perhaps, timestamps."""

    users: NDArray[Any]
    items: NDArray[Any]
    values: NDArray[Any]
    timestamps: NDArray[np.int64] | None


class Merged(NamedTuple):
    """The cells of a matrix in the order of a CSR.

    Attributes
    ----------
    values, items : arrays of one number for each cell
    indptr : int64, shape (n_users + 1,)
    timestamps : int64, the latest of each cell, or None
    summed : places (int64, ascending) and largest entries of the sums above these, or None
    are_repeats : bool
        Whether values are numbers of equal entries of 1, some of them above 1.
    """

    values: NDArray[Any]
    items: NDArray[Any]
    indptr: NDArray[np.int64]
    timestamps: NDArray[np.int64] | None
    summed: tuple[NDArray[np.int64], NDArray[Any]] | None
    are_repeats: bool


def merged(
    entries: Entries,
    shape: tuple[int, int],
    duplicates: Duplicates,
    dtype: DTypeLike,
    largest: NDArray[Any] | None,
) -> Merged:
    """Merge entries; the arguments are those of :func:`mfrank.data.cells.from_triples`."""
    is_plain = largest is None and np.dtype(dtype) == np.float32
    if _is_native and is_plain and _fit_keys(entries, shape):
        return _natively(entries, shape, duplicates)
    users, items, values, timestamps = entries
    order, users, items, first = _by_cell(users, items, shape)
    values = values[order]
    timestamps = None if timestamps is None else timestamps[order]
    largest = values if largest is None else largest[order]
    del order
    starts = np.flatnonzero(first)
    before, repeats = values, len(starts) < len(users)
    if repeats:
        values = _merge(values, timestamps, starts, duplicates)
        timestamps = None if timestamps is None else np.maximum.reduceat(timestamps, starts)
        users, items = users[starts], items[starts]
    summed, are_repeats = None, False
    if duplicates == "sum" and (repeats or largest is not before):
        are_repeats = bool((largest == 1).all())
        summed = None if are_repeats else _summed(values, largest, starts, dtype)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=shape[0]), out=indptr[1:])
    return Merged(rounded(values, dtype), items, indptr, timestamps, summed, are_repeats)


def _fit_keys(entries: Entries, shape: tuple[int, int]) -> bool:
    """Whether the extension takes these arrays, and a user, an item and a place fit one number."""
    columns = [each for each in entries if each is not None]
    fit = [each.dtype for each in columns[:2]] == [np.int32] * 2
    fit = fit and entries.values.dtype in (np.float32, np.float64)
    fit = fit and all(each.flags.c_contiguous and each.flags.aligned for each in columns)
    return fit and sum(max(n - 1, 0).bit_length() for n in (*shape, len(columns[0]))) <= _MOST_BITS


def _natively(entries: Entries, shape: tuple[int, int], duplicates: Duplicates) -> Merged:
    users, items, values, timestamps = entries
    n = len(users)
    of_item, of_place = (max(size - 1, 0).bit_length() for size in (shape[1], n))
    keys = np.empty(n, np.uint64)
    _ext.cell_keys(users, items, of_item, of_place, keys)
    keys.sort()
    indptr, columns = np.empty(shape[0] + 1, np.int64), np.empty(n, np.int32)
    found, latest = np.empty(n, np.float32), None if timestamps is None else np.empty(n, np.int64)
    n_cells, n_summed, are_ones = _ext.merge_cells(
        keys, of_item=of_item, of_place=of_place, n_items=shape[1], duplicates=duplicates,
        values=values, times=timestamps, indptr=indptr, items=columns, merged=found, latest=latest,
    )  # fmt: skip
    summed, are_repeats = None, False
    if n_cells < n and duplicates == "sum":
        are_repeats = are_ones
        places, highest = keys[: 2 * n_summed].reshape(-1, 2).T
        if not are_ones:
            greatest = highest.copy().view(np.float64).astype(values.dtype)
            summed = places.astype(np.int64), rounded(greatest, np.float32)
    del keys
    for array in (columns, found, latest):
        if array is not None and n_cells < n:
            array.resize(n_cells, refcheck=False)
    return Merged(found, columns, indptr, latest, summed, are_repeats)


def _by_cell(
    users: NDArray[Any], items: NDArray[Any], shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """The stable order of entries by their cells, their rows and columns, and which begin a cell.

    Where user, item and position fit one int64, these numbers are sorted as they are.
    """
    of_item, of_place = (max(n - 1, 0).bit_length() for n in (shape[1], len(users)))
    if max(shape[0] - 1, 0).bit_length() + of_item + of_place < 64:
        keys = users.astype(np.int64)
        for bits, part in ((of_item, items), (of_place, np.arange(len(users)))):
            keys <<= bits
            keys |= part
        keys.sort()
        order = keys & ((1 << of_place) - 1)
        keys >>= of_place
        first = _begin(keys)
        items = (keys & ((1 << of_item) - 1)).astype(np.int32)
        keys >>= of_item
        return order, keys, items, first
    order = _order(items, shape[1])
    order = order[_order(users[order], shape[0])]
    users, items = users[order], items[order]
    return order, users, items, _begin(users) | _begin(items)


def _begin(keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Which keys differ from the one before; the first does."""
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return first


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


def rounded(values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Values in ``dtype``; too large ones become infinite, and the caller raises on them."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def _summed(
    values: NDArray[Any], largest: NDArray[Any], starts: NDArray[np.int64], dtype: DTypeLike
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The cells that have more than their largest entry, and these entries."""
    sizes = np.diff(starts, append=len(largest))
    several = np.flatnonzero(sizes > 1)
    greatest = largest[starts]
    if len(several):
        bounds = np.stack([starts[several], starts[several] + sizes[several]], axis=1).ravel()
        bounds = bounds[: -1 if bounds[-1] == len(largest) else None]
        greatest[several] = np.maximum.reduceat(largest, bounds)[::2]  # not what is between
    places = np.flatnonzero(values > greatest)
    return places, rounded(greatest[places], dtype)
