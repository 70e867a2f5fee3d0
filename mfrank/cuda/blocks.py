"""Rows of a half-step on the device, as many at a time as its memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.csr import CSR
from mfrank.cuda.device import Array, Device, Grid
from mfrank.cuda.resident import PerRow, Resident, Rows
from mfrank.cuda.sources import Module
from mfrank.quadratic import RowProblem

__all__ = ["Block", "blocks", "warps"]

_PART_OF_FREE = 0.25  # of free memory, for the entries of a block and again for its rows
_MOST_ROWS = 1 << 22  # of a block: a grid has at most 2^31 - 1 blocks
_BYTES_OF_AN_ENTRY = 40  # columns and values of two blocks, coefficients of one, with float64
_MOST_STREAMED = 1 << 26  # entries of a block: what the host pins for them, it takes from others
_THREADS = 128
_WARP = 32


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive rows with what they observe.

    Attributes
    ----------
    owner : CSR
        Of the problem.
    rows : slice
        Which of its rows.
    indptr, indices, first
        Row r has the entries ``indptr[r] - first`` up to ``indptr[r + 1] - first``.
    curvature, pull : shape (nnz,)
        c and d of the entries, in the dtype of the factors, times the square of the scale of what
        these are read from, and times that scale.
    kinds : uint8, shape (R,), on the host
        1 where a row has curvature, + 2 where some of it is negative, + 4 where entries without
        curvature pull.
    weight, ridge : float64, shape (R,)
    """

    owner: CSR
    rows: slice
    indptr: Array
    indices: Array
    first: int
    curvature: Array
    pull: Array
    kinds: NDArray[np.uint8]
    weight: Array
    ridge: Array

    @property
    def n_rows(self) -> int:
        """R."""
        return int(self.rows.stop - self.rows.start)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Entries of each row, int64, shape (R,), on the host."""
        return np.diff(self.owner.indptr[self.rows.start : self.rows.stop + 1])


def warps(n_rows: int) -> Grid:
    """A warp for each row."""
    return Grid(-(-n_rows * _WARP // _THREADS), _THREADS)


def blocks(
    device: Device,
    resident: Resident,
    problem: RowProblem,
    within: slice,
    width: int,
    dtype: np.dtype[Any],
    scale: float = 1.0,
) -> Iterator[Block]:
    """Rows of the problem, in blocks; ``width`` numbers of each row are needed besides.

    Fixed factors are ``scale`` times what kernels read in their place.

    Entries that do not stay on the device are streamed: those of the next block while the kernels
    of this one run.
    """
    rows = problem.rows
    entries, numbers = _Entries(device, rows, resident.rows(rows)), resident.per_row(problem)
    budget = int(_PART_OF_FREE * device.free_bytes())
    most_entries = min(budget // _BYTES_OF_AN_ENTRY, entries.most)
    most_rows = min(_MOST_ROWS, budget // (width * dtype.itemsize))
    for part, fetched in entries.ahead(_cut(rows, within, most_entries, most_rows)):
        begins = entries.kept.indptr
        yield _block(device, problem, part, begins, *fetched(), numbers, dtype, scale)


_Fetched = Callable[[], tuple[Array, Array | None]]


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Columns and values of rows, on the device where they have room."""

    device: Device
    rows: CSR
    kept: Rows

    @property
    def most(self) -> int:
        """Entries of a block."""
        streams = self.kept.indices is None or (
            self.kept.data is None and self.rows.data is not None
        )
        return _MOST_STREAMED if streams else len(self.rows.indices)

    def ahead(self, parts: Iterator[slice]) -> Iterator[tuple[slice, _Fetched]]:
        """Parts with what gives their entries; those of the next are under way."""
        waiting: list[tuple[slice, _Fetched]] = []
        for part in parts:
            waiting.append((part, self._begin_part(part)))
            if len(waiting) == 2:
                yield waiting.pop(0)
        yield from waiting

    def _begin_part(self, part: slice) -> _Fetched:
        entries = slice(int(self.rows.indptr[part.start]), int(self.rows.indptr[part.stop]))
        fetched = [
            self._begin(kept, array, entries)
            for kept, array in (
                (self.kept.indices, self.rows.indices),
                (self.kept.data, self.rows.data),
            )
        ]
        return lambda: (fetched[0](), fetched[1]())

    def _begin(
        self, kept: Array | None, array: NDArray[Any] | None, entries: slice
    ) -> Callable[[], Array | None]:
        if kept is not None:
            return lambda: kept[entries]
        return (lambda: None) if array is None else self.device.upload(array[entries])


def _cut(rows: CSR, within: slice, most_entries: int, most_rows: int) -> Iterator[slice]:
    """Consecutive rows up to so many and with so many entries, or one row with more."""
    first = within.start
    while first < within.stop:
        enough = rows.indptr[first] + most_entries
        last = int(np.searchsorted(rows.indptr, enough, side="right")) - 1
        last = max(first + 1, min(last, first + most_rows, within.stop))
        yield slice(first, last)
        first = last


def _block(
    device: Device,
    problem: RowProblem,
    rows: slice,
    indptr: Array,
    columns: Array,
    values: Array | None,
    numbers: PerRow,
    dtype: np.dtype[Any],
    scale: float,
) -> Block:
    """Its coefficients loaded."""
    xp, observed = device.xp, problem.observed
    curvature, pull = (xp.empty(len(columns), dtype) for _ in range(2))
    kinds = xp.empty(rows.stop - rows.start, np.uint8)
    begins, first = indptr[rows.start : rows.stop + 1], int(problem.rows.indptr[rows.start])
    users = rows if problem.users_are_rows else slice(None)
    of_curvature = numbers.curvature_offset[users], observed.curvature.slope
    terms = *of_curvature, numbers.pull_offset[users], observed.pull.slope
    cells = begins, columns, values
    device.launch(
        Module.of("cells", dtype),
        "load_cells",
        warps(len(kinds)),
        (*cells, first, len(kinds), *terms, problem.users_are_rows, scale, curvature, pull, kinds),
    )
    return Block(
        problem.rows,
        rows,
        begins,
        columns,
        first,
        curvature,
        pull,
        device.asnumpy(kinds),
        numbers.weight[rows],
        numbers.ridge[rows],
    )
