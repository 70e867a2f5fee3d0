"""Exact solvers by Cholesky: a matrix of a row's entries or of the factors, one block per row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.device import Array, Grid
from mfrank.backends.cuda.blocks import Block
from mfrank.backends.cuda.plan import HEAVY, Group
from mfrank.backends.cuda.system import WARP, Results, System

__all__ = ["parts_of_rows", "solve_dual", "solve_heavy", "solve_primal", "solve_short"]

_IN_SHARED = 192  # Rows of the largest matrix that is kept in shared memory.
_PART_OF_FREE = 0.25  # fraction of free memory for larger matrices
_THREADS = 128  # of a block of warps that solve one row each


def solve_short(
    system: System, block: Block, group: Group, rows: Array, results: Results, has_right: bool
) -> None:
    """Solve rows with n <= 32 entries as :func:`solve_dual` does, by one warp each."""
    n, width = group.size, 64 * 32 // group.size  # as in kernels/short.cu
    numbers = n * (width + 4) + width + n + max(n * (n + 1) // 2, width)
    grid = Grid(
        -(-len(rows) * WARP // _THREADS), _THREADS, _THREADS // WARP * system.bytes_of(numbers)
    )
    entries = *system.cells(block), *system.diagonal(block), system.vector, *system.factors
    args = rows, len(rows), *entries, system.untouched, has_right, *results
    system.launch("short", "solve_short", grid, args, n)


def solve_dual(
    system: System, block: Block, group: Group, rows: Array, results: Results, has_right: bool
) -> None:
    """Solve rows with n <= K entries by an n x n matrix (Woodbury)."""
    shared = *system.whole(block), system.untouched, group.size, has_right
    for some, workspace, grid in _batches(system, len(rows), group.size):
        args = rows[some], *shared, workspace, *results
        system.launch("exact", "solve_dual", grid, args, _tile(group.size))


def solve_primal(
    system: System,
    block: Block,
    group: Group,
    rows: Array,
    results: Results,
    first_parts: Array | None = None,
    parts: Array | None = None,
) -> None:
    """Solve rows by a K x K matrix.

    If its sums over entries are computed already, row i's are
    ``parts[first_parts[i]:first_parts[i + 1]]``, to be added.
    """
    shared = *system.whole(block), system.untouched, group.size
    for some, workspace, grid in _batches(system, len(rows), group.size):
        first = None if first_parts is None else first_parts[some.start : some.stop + 1]
        args = rows[some], *shared, first, parts, workspace, *results
        system.launch("exact", "solve_primal", grid, args, _tile(group.size))


def solve_heavy(system: System, block: Block, group: Group, rows: Array, results: Results) -> None:
    """Like ``solve_primal``, with each row's matrix summed in parts by many blocks."""
    device, tile = system.device, _tile(group.size)
    side = group.size // tile
    n_pairs = side * (side + 1) // 2
    budget = int(_PART_OF_FREE * device.free_bytes()) // 2
    most = max(1, budget // (group.size**2 * system.dtype.itemsize))
    grid_threads, stage = (tile // 4) ** 2, system.stage(tile)
    for some, begins, ends, first in parts_of_rows(block, group.rows, HEAVY, most):
        parts = device.xp.empty((len(begins), n_pairs, tile, tile), system.dtype)
        cuts = device.asarray(begins), device.asarray(ends)
        args = *cuts, block.indices, block.curvature, *system.factors, parts
        grid = Grid((len(begins), n_pairs), grid_threads, stage)
        system.launch("exact", "sum_part", grid, args, tile)
        solve_primal(system, block, group, rows[some], results, device.asarray(first), parts)


def parts_of_rows(
    block: Block, rows: NDArray[np.int32], size: int, most: int
) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Batches of about ``most`` parts of at most ``size`` entries.

    Yields
    ------
    some : slice
        The batch's rows among ``rows``.
    begins, ends : int64
        Entries of each part.
    first_parts : int64, shape (rows of the batch + 1,)
    """
    counts = block.counts[rows]
    first = block.owner.indptr[block.rows.start + rows] - block.first
    n_parts = -(-counts // size)
    batch = (np.cumsum(n_parts) - n_parts) // most
    for number in np.unique(batch):
        some = slice(*np.searchsorted(batch, [number, number + 1]))
        n = n_parts[some]
        first_parts = np.concatenate([[0], np.cumsum(n)])
        within = np.arange(first_parts[-1]) - np.repeat(first_parts[:-1], n)
        begins = np.repeat(first[some], n) + size * within
        ends = np.minimum(begins + size, np.repeat(first[some] + counts[some], n))
        yield some, begins, ends, first_parts


def _batches(system: System, n_rows: int, size: int) -> Iterator[tuple[slice, Array | None, Grid]]:
    """Batches of rows, the workspace in global memory for larger matrices, and the grid."""
    tile, dtype = _tile(size), system.dtype
    threads = (tile // 4) ** 2
    vectors = system.bytes_of(*[system.k] * 2, *[size] * 3, system.over_groups(threads))
    shared = system.stage(tile) + 8 * threads // WARP + vectors
    inside = shared + system.bytes_of(size * size)
    if size <= _IN_SHARED and inside <= system.device.shared_bytes:
        yield slice(0, n_rows), None, Grid(n_rows, threads, inside)
        return
    budget = int(_PART_OF_FREE * system.device.free_bytes())
    most = max(1, min(n_rows, budget // (size * size * dtype.itemsize)))
    workspace = system.device.xp.empty((most, size, size), dtype)
    shared += system.bytes_of(tile * (tile + 1))
    for begin in range(0, n_rows, most):
        end = min(begin + most, n_rows)
        yield slice(begin, end), workspace, Grid(end - begin, threads, shared)


def _tile(size: int) -> int:
    return min(size, 64)
