"""Conjugate gradients on rows, one block of threads each, and sums of long rows by many blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mfrank.arrays.device import Array, Grid
from mfrank.backends.cuda.blocks import Block
from mfrank.backends.cuda.exact import parts_of_rows
from mfrank.backends.cuda.plan import Group, steps_worth
from mfrank.backends.cuda.system import WARP, Results, System

if TYPE_CHECKING:
    from mfrank.backends.solve_options import SolveOptions

__all__ = ["add_long_pulls", "iterate", "iterate_long"]

_STAGED = 48 << 10  # bytes of a row's factors in shared memory: four blocks share a processor
_HALF_STAGED = 24 << 10  # up to which more blocks share it, of fewer threads
_FEW_THREADS, _THREADS = 128, 256
_PART = 512  # entries of a part of a long row
_PART_OF_FREE = 0.125  # fraction of free memory for the sums of parts
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
    most, threads, staged = _staged(system, group.size)
    shared = staged + 8 * threads // WARP + system.bytes_of(*[system.k] * _VECTORS)
    entries = *system.cells(block), *system.diagonal(block), system.vector, *system.factors
    until = *_steps(system, block, group, options), *_tolerance(system, options)
    args = rows, *entries, most, starts, *until, *results
    system.launch("iterate", "iterate", Grid(len(rows), threads, shared), args)


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
    at_once = max(1, int(_PART_OF_FREE * device.free_bytes()) // bytes_of_a_part)
    most, threads, staged = _staged(system, _PART)
    steps, n_steps = _steps(system, block, group, options)
    tolerance = _tolerance(system, options)
    sums_of_parts = Grid(1, threads, staged + system.bytes_of(k))
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
        of_rows = rows[some], device.asarray(first_parts), *system.diagonal(block), system.vector
        until = own_steps, n_steps, *tolerance
        state = x, residuals, directions, rights, states
        for step in range(-1, max(last, 0)):
            moved = (x, states, images, pulls) if step < 0 else (directions, states, images, None)
            args = *entries, *moved
            system.launch("iterate", "sum_long", sums_of_parts._replace(blocks=n_parts), args)
            done = *of_rows, k, images, pulls, step, *until, *state, *results
            system.launch("iterate", "step_long", one_step._replace(blocks=n_rows), done)


def add_long_pulls(system: System, block: Block, group: Group, rows: Array, out: Array) -> None:
    """Write right-hand sides of long rows to ``out``, summed in parts by many blocks."""
    device, k = system.device, system.k
    at_once = int(_PART_OF_FREE * device.free_bytes()) // (k * system.dtype.itemsize)
    shared = system.bytes_of(system.over_groups(_THREADS))
    for some, begins, ends, first_parts in parts_of_rows(block, group.rows, _PART, max(1, at_once)):
        sums = device.xp.empty((len(begins), k), system.dtype)
        cuts = device.asarray(begins), device.asarray(ends)
        parts = *cuts, block.indices, block.pull, *system.factors, sums
        system.launch("diagonal", "sum_pulls", Grid(len(begins), _THREADS, shared), parts)
        shared_part = block.weight, system.vector, k, out
        args = rows[some], device.asarray(first_parts), sums, *shared_part
        system.launch("diagonal", "add_sums", Grid(len(first_parts) - 1, _THREADS), args)


def _staged(system: System, n: int) -> tuple[int, int, int]:
    """How many of ``n`` entries to stage at a time, threads, and bytes (kernels/staged.cuh)."""
    quads = -(-system.k // 4)
    line = 4 * (quads if quads % 2 else quads + 1)
    sums = [system.over_groups(_THREADS)] * 2  # no fewer threads sum more
    vectors = system.bytes_of(line, *sums, *[system.k] * _VECTORS) + 8 * _THREADS // WARP
    budget = min(_STAGED, system.device.shared_bytes - vectors - system.bytes_of(n))
    most = max(1, min(n, budget // (line * system.dtype.itemsize)))
    n_bytes = most * line * system.dtype.itemsize
    threads = _FEW_THREADS if n_bytes <= _HALF_STAGED else _THREADS
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
