"""Blocks of the rows of a sparse matrix: where they are cut, and how a worker gets one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.distinct import distinct
from mfrank.arrays.placement import readable
from mfrank.files.mapped import FilePart, part_in_file

__all__ = ["Block", "RoutedBlock", "block_of", "bounds", "columns_of", "route"]

_BLOCKS = 32
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 19, 1 << 22
"""Of a block: below, tasks cost more than their work; above, fixed factors fill a worker."""


def bounds(rows: CSR) -> NDArray[np.int64]:
    """Where the rows are cut into blocks with about as many entries each, from 0 to the end.

    They depend on nothing but the rows. A row counts as an entry, too, for its own factors.
    """
    work = rows.indptr + np.arange(rows.n_rows + 1)
    size = int(np.clip(work[-1] // _BLOCKS, _FEWEST_ENTRIES, _MOST_ENTRIES))
    cuts = np.searchsorted(work, np.arange(size, work[-1], size))
    return distinct(np.concatenate([[0], cuts, [rows.n_rows]]))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of a matrix; columns and values lie in a file that workers read, or travel.

    Attributes
    ----------
    indptr : int64, shape (R + 1,)
    columns : int32, shape (entries,)
    values : shape (entries,), or None
    n_columns : int
        Of the whole matrix.
    """

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32] | FilePart
    values: NDArray[Any] | FilePart | None
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

    block: Block
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


def block_of(rows: CSR, begin: int, end: int) -> Block:
    """The block of rows ``begin:end``."""
    first, last = int(rows.indptr[begin]), int(rows.indptr[end])
    indptr = rows.indptr[begin : end + 1] - first
    columns: Any = _located(rows.indices[first:last])
    values = None if rows.data is None else _located(rows.data[first:last])
    return Block(indptr, columns, values, rows.n_columns)


def route(block: Block) -> RoutedBlock:
    """Find the columns that a block touches."""
    return RoutedBlock(block, distinct(_read(block.columns)))


def columns_of(routed: RoutedBlock) -> NDArray[np.int32]:
    """The columns that a block touches."""
    return routed.touched


def _located(array: NDArray[Any]) -> NDArray[Any] | FilePart:
    return part_in_file(array) or array


def _read(array: NDArray[Any] | FilePart) -> NDArray[Any]:
    return array.read() if isinstance(array, FilePart) else readable(array)
