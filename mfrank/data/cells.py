"""Observed cells as a canonical CSR (sorted, duplicates merged), and their counts.

A cell of value 0 is only seen: models do not learn from it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import check_memory, checked, counted, is_count, shown, unshared
from mfrank.data.merging import Duplicates, Entries, merged, rounded
from mfrank.data.notes import log as _log
from mfrank.errors import InputTypeError, InputValueError, Notice

ValuesFrom = Literal["given", "ones", "repeats", "threshold", "weights"]
"""Where values come from: as they were given, from a column of ones, from the number of equal rows,
from those that reached a threshold; or they are weighted, and not in the units of other data. What
is said about values depends on it."""


class SummedCells(NamedTuple):
    """Cells whose value is the sum (not the count) of several entries.

    Attributes
    ----------
    places : int64, ascending
        Positions of these cells among all cells.
    largest : floating-point, of the same length
        Largest entry of each of these cells.
    """

    places: NDArray[np.int64]
    largest: NDArray[np.floating]

    def take(self, kept: NDArray[np.int64]) -> SummedCells:
        """The summed cells at the positions ``kept`` (ascending), with new positions."""
        new = np.searchsorted(kept, self.places)
        there = new < len(kept)
        there[there] = kept[new[there]] == self.places[there]
        return SummedCells(new[there], self.largest[there])


class Cells(NamedTuple):
    """Observed cells, and the cells that became 0 when entries were merged.

    Attributes
    ----------
    rows : csr_array
        Canonical, without zeros.
    timestamps : int64, shape (nnz,), or None
    seen_only : Cells or None
        Cells of value 0: stored as 0, entries that cancel, or a sum that is too small for the
        dtype. Their values here are 1.
    summed : Summed or None
    values_from : ValuesFrom
    """

    rows: sp.csr_array
    timestamps: NDArray[np.int64] | None = None
    seen_only: Cells | None = None
    summed: SummedCells | None = None
    values_from: ValuesFrom = "given"

    @property
    def largest(self) -> NDArray[Any]:
        """The largest entry of each cell, if several were summed; otherwise the value."""
        if self.values_from == "repeats":
            return np.ones_like(self.rows.data)
        if self.summed is None:
            return self.rows.data
        largest = self.rows.data.copy()
        largest[self.summed.places] = self.summed.largest
        return largest

    def take(self, kept: NDArray[np.int64]) -> Cells:
        """The cells at the positions ``kept`` (ascending)."""
        times = None if self.timestamps is None else self.timestamps[kept]
        summed = None if self.summed is None else self.summed.take(kept)
        return Cells(select(self.rows, kept), times, self.seen_only, summed, self.values_from)


_AT_ONCE = 1 << 20


@dataclass
class CellTally:
    """Numbers of merged entries and of cells with value 0, logged once for all portions.

    Attributes
    ----------
    duplicates : {"sum", "max", "last"}
    n_merged, n_cells, n_zeros : int
        Merged entries, remaining cells, and cells of value 0.
    """

    duplicates: Duplicates
    n_merged: int = 0
    n_cells: int = 0
    n_zeros: int = 0

    def tell(self, values: NDArray[Any], summed: SummedCells | None = None) -> None:
        """Log the numbers, if there is anything to log; ``values`` are of the remaining cells.

        Zeros are a warning unless all other values are equal, as in binary data: on a rating scale,
        0 may mean a dislike, or "not rated". So are sums of ratings, which leave their scale.
        """
        if self.n_merged:
            _log.info("%s merged (%s)", counted(self.n_merged, "repeated entry"), self.duplicates)
        if self.n_merged and summed is not None and _are_ratings(values, summed):
            largest = values[summed.places].max()
            _log.warning(
                Notice(
                    f"values look like ratings, and those of {counted(len(summed.places), 'pair')} "
                    f"of user and item given more than once are added, up to {largest:g}; "
                    '`duplicates="last"` keeps the latest, `duplicates="max"` the largest'
                )
            )
        if self.n_zeros:
            are_marks = len(values) > 0 and values.min() == values.max()
            _log.log(
                logging.INFO if are_marks else logging.WARNING,
                Notice(
                    f"{self.n_zeros:,} of {counted(self.n_cells, 'entry')} with the value 0 count "
                    "as only seen: nothing is learned from them, and lists leave them out; "
                    "`dataclasses.replace(data, seen_only=None)` forgets them"
                ),
            )


_MOST_LEVELS, _HIGHEST_RATING, _FEWEST_RATINGS, _ALL_OF_SAMPLE = 20, 10, 5, 100_000


def _are_ratings(values: NDArray[Any], summed: SummedCells) -> bool:
    """Whether entries, before they were added, look like ratings."""
    if not len(summed.places):  # all that was merged is 0
        return False
    values = values.copy()
    values[summed.places] = summed.largest
    return look_like_ratings(values)


def look_like_ratings(values: NDArray[Any]) -> bool:
    """Whether values look like ratings: half steps from .5 to 10.

    Of which the lowest is no third, as it is of quantities and counts.
    """
    step = -(-len(values) // _ALL_OF_SAMPLE)
    levels, counts = np.unique(values[:: max(1, step)], return_counts=True)
    if not 3 <= len(levels) <= _MOST_LEVELS or counts.sum() < _FEWEST_RATINGS:
        return False
    in_steps = levels[0] > 0 and levels[-1] <= _HIGHEST_RATING and not (2 * levels % 1).any()
    return bool(in_steps and 3 * counts[0] < counts.sum())


_LARGE, _BYTES_OF_ROW = 1 << 27, 16
"""Rows and columns from which on their memory is checked: of offsets and counts."""


def check_shape(shape: tuple[int, int]) -> None:
    """Raise if rows or columns are too many for int32 numbers; entries may be more."""
    if not (isinstance(shape, tuple | list) and len(shape) == 2 and all(map(is_count, shape))):
        raise InputTypeError(f"`shape` must be (`n_users`, `n_items`), got {shown(shape)}")
    for name, n in zip(("users", "items"), shape, strict=True):
        if not 0 <= n < 2**31:
            raise InputValueError(
                f"the number of {name} must lie in 0..2^31 - 1, got {shown(n)}", place=name
            )


def check_room(shape: tuple[int, int]) -> None:
    """Raise, like :func:`check_shape`, or MemoryError if there is no room for so many rows."""
    check_shape(shape)
    if sum(shape) > _LARGE:
        what = f"interactions of the shape ({shape[0]:,}, {shape[1]:,})"
        remedy = "lower these numbers; raw ids need no shape, and are numbered"
        check_memory(_BYTES_OF_ROW * sum(map(int, shape)), what, remedy)


def from_triples(
    users: NDArray[Any],
    items: NDArray[Any],
    values: NDArray[Any],
    timestamps: NDArray[np.int64] | None,
    *,
    shape: tuple[int, int],
    duplicates: Duplicates,
    dtype: DTypeLike = np.float32,
    largest: NDArray[Any] | None = None,
    tally: CellTally | None = None,
) -> Cells:
    """Build cells from row numbers (in range), finite values and, if given, timestamps.

    Values are merged in float64, then rounded to ``dtype``; a merged cell gets its latest
    timestamp. If values are themselves sums, ``largest`` has the largest entry of each. The numbers
    of merged entries and zeros are logged, or added to ``tally``.
    """
    entries = Entries(users, items, values, timestamps)
    found = merged(entries, shape, duplicates, dtype, largest)
    rows = _rows(found.values, found.items, found.indptr, shape)
    summed = None if found.summed is None else SummedCells(*found.summed)
    values_from: ValuesFrom = "repeats" if found.are_repeats else "given"
    counts = CellTally(duplicates) if tally is None else tally
    counts.n_merged += len(users) - len(found.items)
    made = _without_zeros(Cells(rows, found.timestamps, None, summed, values_from), counts)
    if tally is None:
        counts.tell(made.rows.data, made.summed)
    return made


def from_sparse(matrix: Any, *, duplicates: Duplicates) -> Cells:
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
        raise InputTypeError(f"`values` must be real numbers, got dtype {matrix.dtype}")
    check_shape(matrix.shape)
    dtype = np.float64 if matrix.dtype == np.float64 else np.float32
    if triples.format == "csr" and triples.has_canonical_format:
        index = _index_dtype(triples.nnz)
        indices, indptr = (
            unshared(array) if array.dtype == index else array.astype(index)  # one copy at most
            for array in (triples.indices, triples.indptr)
        )
        data = unshared(rounded(triples.data, dtype))
        tally = CellTally(duplicates)
        found = _without_zeros(Cells(_rows(data, indices, indptr, matrix.shape)), tally)
        tally.tell(found.rows.data)
        return found
    triples = triples.tocoo()
    users, items = triples.coords
    return from_triples(
        users, items, triples.data, None, shape=matrix.shape, duplicates=duplicates, dtype=dtype
    )


def entry_rows(rows: sp.csr_array) -> NDArray[np.int32]:
    """Row number of every entry, int32, shape (nnz,), aligned with ``rows.indices``."""
    return np.repeat(np.arange(rows.shape[0], dtype=np.int32), np.diff(rows.indptr))


def select(rows: sp.csr_array, kept: NDArray[np.int64]) -> sp.csr_array:
    """The same matrix with only the entries at the positions ``kept`` (ascending)."""
    indptr = np.searchsorted(kept, rows.indptr)
    return _rows(rows.data[kept], rows.indices[kept], indptr, rows.shape)


def ones(rows: sp.csr_array) -> sp.csr_array:
    """The same cells, all with the value 1."""
    return _rows(np.ones(rows.nnz, np.float32), rows.indices, rows.indptr, rows.shape)


def with_values(found: Cells, values: NDArray[Any]) -> Cells:
    """The same cells with other values, none of them 0 and none a sum."""
    rows = sp.csr_array((values, found.rows.indices, found.rows.indptr), found.rows.shape)
    return Cells(rows, found.timestamps, found.seen_only)


def capped(found: Cells, most: float) -> Cells:
    """The same cells with no value beyond ``most``, nor below ``-most``."""
    values = np.clip(found.rows.data, -most, most).astype(found.rows.dtype)
    return with_values(found, values)._replace(values_from="given")


def moved(found: Cells, users: NDArray[Any], items: NDArray[Any], shape: tuple[int, int]) -> Cells:
    """The cells in other rows and columns; cells moved to -1 are left out."""
    rows, columns = users[entry_rows(found.rows)], items[found.rows.indices]
    known = (rows >= 0) & (columns >= 0)
    placed = from_triples(
        rows[known],
        columns[known],
        found.rows.data[known],
        None if found.timestamps is None else found.timestamps[known],
        shape=shape,
        duplicates="sum",
        dtype=found.rows.dtype,
    )
    return placed._replace(values_from=found.values_from)


def joined(several: Sequence[Cells]) -> Cells:
    """The union of the cells of several matrices of one shape, with the latest timestamps.

    Values are 1. Timestamps are left out if one of the matrices has none.
    """
    times = [each.timestamps for each in several if each.timestamps is not None]
    rows = [each.rows for each in several]
    return from_triples(
        np.concatenate(list(map(entry_rows, rows))),
        np.concatenate([each.indices for each in rows]),
        np.ones(sum(each.nnz for each in rows), np.float32),
        np.concatenate(times) if len(times) == len(rows) else None,
        shape=rows[0].shape,
        duplicates="max",
        tally=CellTally("sum"),
    )


def with_zeros(rows: sp.csr_array, others: sp.csr_array) -> sp.csr_array:
    """``rows`` and, with the stored value 0, the cells that only ``others`` have.

    Both are canonical, and so is the result. scipy would add up the values, and drop the zeros.
    """
    if not others.nnz:
        return rows
    # In a sum, 1 marks a cell of the others alone, and an even or odd 2 n the n-th one of rows.
    places = np.arange(2, 2 * rows.nnz + 2, 2)
    both: Any = sp.csr_array((places, rows.indices, rows.indptr), rows.shape) + sp.csr_array(
        (np.ones(others.nnz, np.int64), others.indices, others.indptr), others.shape
    )
    values = np.append(rows.data.dtype.type(0), rows.data)[both.data // 2]
    return _rows(values, both.indices, both.indptr, rows.shape)


def without_zeros(rows: sp.csr_array) -> sp.csr_array:
    """``rows`` without stored zeros, as before :func:`with_zeros`; ``rows`` is unchanged."""
    return select(rows, np.flatnonzero(rows.data)) if has_zeros(rows) else rows


def has_zeros(rows: sp.csr_array) -> bool:
    """Whether zeros are stored; does not allocate an array as long as the values."""
    parts = range(0, rows.nnz, _AT_ONCE)
    return not all(rows.data[begin : begin + _AT_ONCE].all() for begin in parts)


def positive_range(values: NDArray[Any]) -> tuple[float, float]:
    """The smallest and largest value above 0, read in parts; infinity and 0 if there is none."""
    least, most = np.inf, 0.0
    for begin in range(0, len(values), _AT_ONCE):
        part = values[begin : begin + _AT_ONCE]
        part = part[part > 0]
        least = float(part.min(initial=least))
        most = float(part.max(initial=most))
    return least, most


def in_shape(matrix: sp.csr_array, shape: tuple[int, int]) -> sp.csr_array:
    """The same entries, with empty rows and columns appended; arrays are shared."""
    indptr: Any = np.full(shape[0] + 1, matrix.indptr[-1], dtype=matrix.indptr.dtype)
    indptr[: len(matrix.indptr)] = matrix.indptr
    return sp.csr_array((matrix.data, matrix.indices, indptr), shape)


def not_in(rows: sp.csr_array, others: sp.csr_array) -> NDArray[np.int64]:
    """Positions of the entries of ``rows`` whose cells are not stored in ``others``."""
    own, theirs = (
        entry_rows(each).astype(np.int64) * each.shape[1] + each.indices for each in (rows, others)
    )
    return np.flatnonzero(~np.isin(own, theirs, assume_unique=True))


def narrow(
    rows: sp.csr_array, kept_rows: NDArray[np.int64], kept_columns: NDArray[np.int64]
) -> sp.csr_array:
    """Select rows and columns (ascending) and renumber them; all others must be empty."""
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


def _without_zeros(found: Cells, tally: CellTally) -> Cells:
    """The cells with a value; the others are only seen."""
    values = found.rows.data
    kept = np.flatnonzero(values)
    tally.n_cells += len(values)
    tally.n_zeros += len(values) - len(kept)
    if len(kept) == len(values):
        return found
    gone = found.take(np.flatnonzero(values == 0))
    return found.take(kept)._replace(seen_only=Cells(ones(gone.rows), gone.timestamps))


# Numbers of observed items of each user and of observed users of each item.


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Observed items of each user (n_x) and observed users of each item (m_y).

    Attributes
    ----------
    users, items : int64, shape (n_users,) and (n_items,)
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
