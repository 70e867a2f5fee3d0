"""Blocks of the rows of a sparse matrix: where they are cut, and how a worker gets one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, distinct, readable
from mfrank.backends.arguments import SolveOptions
from mfrank.backends.surface import RowSums
from mfrank.files import FilePart, part_in_file

_BLOCKS = 32
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 19, 1 << 22
"""Of a block: below, tasks cost more than their work; above, fixed factors fill a worker."""
_NONE = np.empty(0, dtype=np.int64)


def long_rows(rows: CSR, longest: int | None) -> NDArray[np.int64]:
    """Rows with at least ``longest`` entries; none if that is None."""
    return np.flatnonzero(rows.counts >= longest) if longest else np.empty(0, dtype=np.int64)


def bounds(rows: CSR, left_out: NDArray[np.int64] = _NONE) -> NDArray[np.int64]:
    """Bounds of blocks of rows with about equally many entries, from 0 to the end.

    They depend only on the rows. A row counts as one more entry, for its own factors. Entries of
    left-out rows are not counted.
    """
    counts = rows.counts + 1
    counts[left_out] = 1
    work = np.concatenate([[0], np.cumsum(counts)])
    size = int(np.clip(work[-1] // _BLOCKS, _FEWEST_ENTRIES, _MOST_ENTRIES))
    cuts = np.searchsorted(work, np.arange(size, work[-1], size))
    return distinct(np.concatenate([[0], cuts, [rows.n_rows]]))


_Pieces = Sequence[NDArray[Any] | FilePart]


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """Some rows of a matrix; columns and values are in a file that workers read, or are sent.

    Attributes
    ----------
    indptr : int64, shape (R + 1,)
    columns : int32, in pieces of entries altogether
    values : in pieces of entries altogether, or None
    n_columns : int
        Of the whole matrix.
    """

    indptr: NDArray[np.int64]
    columns: _Pieces
    values: _Pieces | None
    n_columns: int

    def pattern(self) -> CSR:
        """The rows, without values; read anew from a file."""
        return CSR(readable(self.indptr), _read(self.columns), None, self.n_columns)


@dataclass(frozen=True, slots=True, eq=False)
class RoutedBlock:
    """A block on a worker, and which columns it has entries in.

    Attributes
    ----------
    block : Block
    touched : int32, shape (T,)
        Ascending.
    """

    block: RowBlock
    touched: NDArray[np.int32]

    def rows(self, n_columns: int, *, values: bool) -> CSR:
        """The rows over the touched columns, which are numbered from 0; read anew from a file.

        ``n_columns`` is T or more. ``values`` is whether the rows have values.
        """
        places = np.empty(self.block.n_columns, dtype=np.int32)
        places[self.touched] = np.arange(len(self.touched), dtype=np.int32)
        columns = places[_read(self.block.columns)]
        data = _read(self.block.values) if values and self.block.values is not None else None
        return CSR(readable(self.block.indptr), columns, data, n_columns)


def block_of(rows: CSR, begin: int, end: int, left_out: NDArray[np.int64] = _NONE) -> RowBlock:
    """The block of rows ``begin:end``; those that are left out are there without entries."""
    out = left_out[slice(*np.searchsorted(left_out, [begin, end]))]
    counts = rows.counts[begin:end]
    counts[out - begin] = 0
    firsts = [rows.indptr[begin], *rows.indptr[out + 1]]
    lasts = [*rows.indptr[out], rows.indptr[end]]
    return _block(rows, counts, zip(firsts, lasts, strict=True))


def range_of(rows: CSR, some: NDArray[np.int64], begin: int, end: int) -> RowBlock:
    """The entries of some rows in columns ``begin:end``."""
    parts = [
        rows.indptr[row] + np.searchsorted(rows.row(row)[0], [begin, end]) for row in some.tolist()
    ]
    return _block(rows, np.array([last - first for first, last in parts], dtype=np.int64), parts)


def _block(rows: CSR, counts: NDArray[np.int64], parts: Iterable[Any]) -> RowBlock:
    """A block of rows with so many entries, which are parts of the matrix's."""
    slices = [slice(first, last) for first, last in parts if last > first]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns = _located(rows.indices, slices)
    values = None if rows.data is None else _located(rows.data, slices)
    return RowBlock(indptr, columns, values, rows.n_columns)


def route(block: RowBlock) -> RoutedBlock:
    """Find the columns that a block touches."""
    return RoutedBlock(block, distinct(_read(block.columns)))


def columns_of(routed: RoutedBlock) -> NDArray[np.int32]:
    """The columns that a block touches."""
    return routed.touched


def _located(array: NDArray[Any], slices: Sequence[slice]) -> _Pieces:
    """Parts of an array: where they are in its file, or themselves."""
    parts = [part_in_file(array[each]) for each in slices]
    in_file = [part for part in parts if part is not None]
    if parts and len(in_file) == len(parts):
        return in_file
    if len(slices) == 1:
        return [array[slices[0]]]
    return [np.concatenate([array[:0], *(array[each] for each in slices)])]


def _read(pieces: _Pieces) -> NDArray[Any]:
    arrays = [each.read() if isinstance(each, FilePart) else each for each in pieces]
    return readable(arrays[0]) if len(arrays) == 1 else np.concatenate(arrays)


# How a half-step is cut into tasks, which depends on the data and the width alone.


_SUMS_AT_ONCE = 1 << 26
"""Maximum bytes of the sums that a task returns: above, fewer rows are summed together."""


class SumPlan(NamedTuple):
    """Which rows are solved from sums over ranges of columns, and how many of them together.

    Attributes
    ----------
    rows_from : int
        Minimum number of entries of such rows; 0 if there are no such rows.
    at_once : int
    ranges : int64
        Where ranges of columns begin, and the end.
    """

    rows_from: int
    at_once: int
    ranges: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        row_sums: RowSums | None,
        n_factors: int,
        dtype: np.dtype[Any],
        options: SolveOptions,
        n_columns: int,
        *,
        curved: bool,
    ) -> Self:
        """The sums of a backend, by its ``Backend.SUMS``; none if it has none."""
        if row_sums is None:
            return cls(0, 1, np.empty(0, dtype=np.int64))
        size = n_factors * (curved * n_factors + 1) * dtype.itemsize
        return cls(
            row_sums.summed_from(n_factors, dtype, options, curved=curved),
            max(1, _SUMS_AT_ONCE // size),
            row_sums.column_ranges(n_columns),
        )


class Cuts:
    """Blocks of rows, without the entries of long rows; and groups of these, range by range.

    Attributes
    ----------
    slices : list of slice
        The rows of each block.
    groups : list of int64 arrays
        Long rows that are summed together.
    """

    def __init__(self, rows: CSR, sums: SumPlan) -> None:
        self._rows, self._ranges = rows, list(pairwise(sums.ranges.tolist()))
        self._long = long_rows(rows, sums.rows_from)
        ends = bounds(rows, self._long).tolist()
        self.slices = [slice(begin, end) for begin, end in pairwise(ends)]
        places = range(0, len(self._long), sums.at_once)
        self.groups = [self._long[first : first + sums.at_once] for first in places]

    def blocks(self) -> Iterator[RowBlock]:
        """The block of each slice."""
        for each in self.slices:
            yield block_of(self._rows, each.start, each.stop, self._long)

    def ranges(self, group: NDArray[np.int64]) -> Iterator[RowBlock]:
        """The entries of a group's rows in each range of columns."""
        for begin, end in self._ranges:
            yield range_of(self._rows, group, begin, end)
