"""Blocks of a half-step's rows on the device, as large as its memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Device, Grid
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.resident import DeviceRows, PerRow, Resident
from mfrank.backends.row_problem import RowProblem

_PART_OF_FREE = 0.25  # fraction of free memory for a block's entries, and again for its rows
_MOST_ROWS = 1 << 22  # of a block: a grid has at most 2^31 - 1 blocks
_BYTES_OF_AN_ENTRY = 40  # columns and values of two blocks, coefficients of one, with float64
_MOST_STREAMED = 1 << 26  # entries of a block, to limit the host memory that is pinned for them
_MOST_KEPT = 1 / 16  # largest fraction of free memory that coefficients may take in order to stay
_THREADS = 128
_WARP = 32


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive rows of a problem with their entries, on the device.

    Attributes
    ----------
    owner : CSR
        All rows of the problem.
    rows : slice
        The block's rows of ``owner``.
    counts : int64, shape (R,), on the host
        Entries of each row.
    indptr, indices, first
        Row r has the entries ``indptr[r] - first`` up to ``indptr[r + 1] - first``.
    curvature, pull : shape (nnz,)
        c times scale^2 and d times scale of the entries, in the dtype of the factors, where scale
        is that of the fixed factors (:class:`mfrank.backends.cuda.system.Fixed`).
    kinds : uint8, shape (R,), on the host
        Bits of each row: 1 if it has curvature, 2 if some curvature is negative, 4 if some entries
        have a pull but no curvature.
    weight, ridge : float64, shape (R,)
    prior : shape (R, K), optional
        Where the ridges pull to, in the dtype of the factors.
    """

    owner: CSR
    rows: slice
    counts: NDArray[np.int64]
    indptr: Array
    indices: Array
    first: int
    curvature: Array
    pull: Array
    kinds: NDArray[np.uint8]
    weight: Array
    ridge: Array
    prior: Array | None = None

    @property
    def n_rows(self) -> int:
        """R."""
        return int(self.rows.stop - self.rows.start)


def warps(n_rows: int) -> Grid:
    """One warp per row."""
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
    """Divide the problem's rows ``within`` into blocks that fit in memory.

    Each row needs memory for ``width`` more numbers of ``dtype``. Fixed factors are ``scale`` times
    the values that kernels read. Entries that do not stay on the device are streamed: those of the
    next block are copied while the kernels of this one run. A block that is all of the rows, and
    small, stays on the device for later calls.
    """
    rows = problem.rows
    entries, numbers = _Entries(device, rows, resident.rows(rows)), resident.per_row(problem)
    kept = resident.blocks(problem)
    key = within.start, within.stop, dtype, scale
    if key in kept:
        yield kept[key]
        return
    free = device.free_bytes()
    budget = int(_PART_OF_FREE * free)
    most_entries = min(budget // _BYTES_OF_AN_ENTRY, entries.most)
    most_rows = min(_MOST_ROWS, budget // (width * dtype.itemsize))
    for part, fetched in entries.ahead(_cut(rows, within, most_entries, most_rows)):
        begins = entries.kept.indptr
        block = _block(device, problem, part, begins, *fetched(), numbers, dtype, scale)
        if part == within and scale == 1 and block.pull.nbytes <= _MOST_KEPT * free:
            kept[key] = block
        yield block


_Fetched = Callable[[], tuple[Array, Array | None]]


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Columns and values of rows, on the device if they fit."""

    device: Device
    rows: CSR
    kept: DeviceRows

    @property
    def most(self) -> int:
        """Maximum number of entries of a block."""
        streams = self.kept.indices is None or (
            self.kept.data is None and self.rows.data is not None
        )
        return _MOST_STREAMED if streams else len(self.rows.indices)

    def ahead(self, parts: Iterator[slice]) -> Iterator[tuple[slice, _Fetched]]:
        """Each part and a function that returns its entries, with the next part being copied."""
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
    """Consecutive rows within both limits, or a single row with more entries."""
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
    """Compute the coefficients of a block's entries."""
    xp, observed = device.xp, problem.observed
    curvature, pull = (xp.empty(len(columns), dtype) for _ in range(2))
    kinds = xp.empty(rows.stop - rows.start, np.uint8)
    begins, first = indptr[rows.start : rows.stop + 1], int(problem.rows.indptr[rows.start])
    users = rows if problem.users_are_rows else slice(None)
    of_curvature = numbers.curvature_offset[users], observed.curvature.slope
    of_pull = numbers.pull_offset[users], observed.pull.slope, observed.pull.of_dislikes
    terms = *of_curvature, *of_pull
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
        np.diff(problem.rows.indptr[rows.start : rows.stop + 1]),
        begins,
        columns,
        first,
        curvature,
        pull,
        device.asnumpy(kinds),
        numbers.weight[rows],
        numbers.ridge[rows],
    )
