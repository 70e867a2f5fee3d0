"""The solvers of rows: Cholesky, conjugate gradients, and sums of long rows by many blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Array, Grid
from mfrank.backends.cuda.blocks import Block
from mfrank.backends.cuda.kernel_sources import QUADS
from mfrank.backends.cuda.plan import HEAVY, Group, steps_worth
from mfrank.backends.cuda.system import WARP, Results, System

if TYPE_CHECKING:
    from mfrank.backends.arguments import SolveOptions

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
    entries = *system.cells(block), *system.diagonal(block), *system.background(block)
    entries = *entries, *system.factors
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


# Conjugate gradients on rows, one block of threads each, and sums of long rows by many blocks.


_STAGED = 48 << 10  # bytes of a row's factors in shared memory: four blocks share a processor
_HALF_STAGED = 24 << 10  # up to which more blocks share it, of fewer threads
_FEW_THREADS, _CG_THREADS = 128, 256
_PART = 512  # entries of a part of a long row
_PART_OF_FREE_FOR_SUMS = 0.125  # fraction of free memory for the sums of parts
_VECTORS = 4  # of K numbers, of an iteration (kernels/iterate.cu)
_STATE = 3  # numbers of a long row's state (kernels/iterate.cu)


def iterate(
    system: System,
    block: Block,
    group: Group,
    rows: Array,
    starts: Array,
    options: SolveOptions,
    results: Results,
) -> None:
    """Iterate rows with at most ``group.size`` entries from ``starts``, shape (rows, K)."""
    quads, most, threads, products = _products(system, group.size)
    shared = products + 8 * threads // WARP + system.bytes_of(*[system.k] * _VECTORS)
    entries = *system.cells(block), *system.diagonal(block), *system.background(block)
    entries = *entries, *system.factors
    until = *_steps(system, block, group, options), *_tolerance(system, options)
    args = rows, *entries, most, starts, *until, *results
    system.launch("iterate", "iterate", Grid(len(rows), threads, shared), args, quads)


def iterate_long(
    system: System,
    block: Block,
    group: Group,
    rows: Array,
    starts: Array,
    options: SolveOptions,
    results: Results,
) -> None:
    """Iterate rows whose products are summed in parts, each by a block of threads."""
    device, k, xp = system.device, system.k, system.device.xp
    bytes_of_a_part = 2 * k * system.dtype.itemsize
    at_once = max(1, int(_PART_OF_FREE_FOR_SUMS * device.free_bytes()) // bytes_of_a_part)
    quads, most, threads, products = _products(system, _PART)
    steps, n_steps = _steps(system, block, group, options)
    tolerance = _tolerance(system, options)
    sums_of_parts = Grid(1, threads, products + system.bytes_of(k))
    one_step = Grid(1, 256, 8 * 256 // WARP + system.bytes_of(k, k))
    for some, begins, ends, first_parts in parts_of_rows(block, group.rows, _PART, at_once):
        n_rows, n_parts = len(first_parts) - 1, len(begins)
        owners = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(first_parts))
        parts = tuple(map(device.asarray, (owners, begins, ends)))
        images, pulls = (xp.empty((n_parts, k), system.dtype) for _ in range(2))
        residuals, directions, rights = (xp.empty((n_rows, k), system.dtype) for _ in range(3))
        states, x = xp.zeros((n_rows, _STATE)), starts[some]
        entries = *parts, block.indices, block.curvature, block.pull, *system.factors, most
        own_steps = None if steps is None else steps[some]
        last = n_steps if steps is None else int(steps[some].max())
        of_rows = rows[some], device.asarray(first_parts), *system.diagonal(block)
        of_rows = *of_rows, *system.background(block)
        until = own_steps, n_steps, *tolerance
        state = x, residuals, directions, rights, states
        for step in range(-1, last):
            moved = (x, states, images, pulls) if step < 0 else (directions, states, images, None)
            args = *entries, *moved
            every = sums_of_parts._replace(blocks=n_parts)
            system.launch("iterate", "sum_long", every, args, quads)
            done = *of_rows, k, images, pulls, step, *until, *state, *results
            system.launch("iterate", "step_long", one_step._replace(blocks=n_rows), done, quads)


def add_long_pulls(system: System, block: Block, group: Group, rows: Array, out: Array) -> None:
    """Write right-hand sides of long rows to ``out``, summed in parts by many blocks."""
    device, k = system.device, system.k
    at_once = int(_PART_OF_FREE_FOR_SUMS * device.free_bytes()) // (k * system.dtype.itemsize)
    shared = system.bytes_of(system.over_groups(_CG_THREADS))
    for some, begins, ends, first_parts in parts_of_rows(block, group.rows, _PART, max(1, at_once)):
        sums = device.xp.empty((len(begins), k), system.dtype)
        cuts = device.asarray(begins), device.asarray(ends)
        parts = *cuts, block.indices, block.pull, *system.factors, sums
        system.launch("diagonal", "sum_pulls", Grid(len(begins), _CG_THREADS, shared), parts)
        shared_part = block.weight, block.ridge, *system.background(block), k, out
        args = rows[some], device.asarray(first_parts), sums, *shared_part
        system.launch("diagonal", "add_sums", Grid(len(first_parts) - 1, _CG_THREADS), args)


def _products(system: System, n: int) -> tuple[int, int, int, int]:
    """How to make products with a row of ``n`` entries.

    Returns
    -------
    quads : int
        Of an entry's factors in a lane's registers, or 0 if they are staged in shared memory.
    most : int
        Entries to stage at a time.
    threads, n_bytes : int
        Threads of a row and its shared memory.
    """
    quads = 1 << (-(-system.k // (4 * WARP)) - 1).bit_length()
    vectors = system.bytes_of(*[system.k] * _VECTORS) + 8 * _CG_THREADS // WARP
    sums = system.bytes_of(_CG_THREADS // WARP * system.k, system.k, system.k)
    if quads in QUADS and vectors + sums <= system.device.shared_bytes:
        return quads, n, _CG_THREADS, sums
    return 0, *_staged(system, n)


def _staged(system: System, n: int) -> tuple[int, int, int]:
    """How many of ``n`` entries to stage at a time, threads, and bytes (kernels/staged.cuh)."""
    quads = -(-system.k // 4)
    line = 4 * (quads if quads % 2 else quads + 1)
    sums = [system.over_groups(_CG_THREADS)] * 2  # no fewer threads sum more
    vectors = system.bytes_of(line, *sums, *[system.k] * _VECTORS) + 8 * _CG_THREADS // WARP
    budget = min(_STAGED, system.device.shared_bytes - vectors - system.bytes_of(n))
    most = max(1, min(n, budget // (line * system.dtype.itemsize)))
    n_bytes = most * line * system.dtype.itemsize
    threads = _FEW_THREADS if n_bytes <= _HALF_STAGED else _CG_THREADS
    sums = [system.over_groups(threads)] * 2
    return most, threads, system.bytes_of(most * line, most, line, *sums)


def _steps(
    system: System, block: Block, group: Group, options: SolveOptions
) -> tuple[Array | None, int]:
    """Each row's most steps, or None and those of all."""
    if options.cg_tolerance is None:
        return None, options.cg_steps
    affordable = steps_worth(block.counts[group.rows], system.k).astype(np.int32)
    return system.device.asarray(np.maximum(options.cg_steps, affordable)), options.cg_steps


def _tolerance(system: System, options: SolveOptions) -> tuple[float, bool]:
    return options.residual(system.dtype), options.cg_tolerance is not None
