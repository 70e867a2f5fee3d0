"""Gram matrices, rotations, sparse products and the objective's observed part, on the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, Device, Grid
from mfrank.backends.cuda.blocks import blocks, warps
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.resident import Resident, resident_on
from mfrank.backends.row_problem import RowProblem

_BYTES_AT_ONCE = 1 << 28
"""Size of a copy of some rows; independent of free memory, so that runs sum the same parts."""


_TILE, _MOST_BLOCKS, _LEAST_ROWS = 64, 512, 128
"""Of the Gram matrix: side of a tile, number of blocks (about), and rows of a block (at least). All
follow from the table's shape, so that every device sums in the same order."""

_THREADS = 256  # of a block that moves numbers, one each


def gram(
    device: Device, factors: Array, weights: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F' diag(w) F and F' w in float64; returned on the host."""
    xp, (n, k) = device.xp, factors.shape
    if n == 0:
        return np.zeros((k, k)), np.zeros(k)
    side = -(-k // _TILE)
    n_tiles = side * (side + 1) // 2
    height = max(_LEAST_ROWS, -(-n // max(1, _MOST_BLOCKS // n_tiles)))
    n_parts = -(-n // height)
    tiles, vectors = xp.empty((n_parts, n_tiles, _TILE**2)), xp.empty((n_parts, k))
    module, threads = Module.of("gram", np.float64, _TILE), (_TILE // 4) ** 2
    kernel = "sum_floats" if factors.dtype == np.float32 else "sum_doubles"
    grid = Grid((n_parts, n_tiles), threads, 2 * 16 * (_TILE + 4) * 8)
    args = factors, weights, n, k, height, tiles, vectors
    device.launch(module, kernel, grid, args)
    sums = xp.empty((k + 1, k))
    every = Grid(-(-(k + 1) * k // 128), 128)
    device.launch(module, "add_parts", every, (tiles, vectors, n_parts, n_tiles, k, sums))
    found = device.asnumpy(sums)
    return found[:k], found[k]


def rotate(
    device: Device,
    factors: Array,
    basis: NDArray[np.float64],
    n_null: int,
    out: Array,
) -> None:
    """``factors @ basis`` into ``out``, which may be ``factors``."""
    turn, k = resident_on(device).small(basis, factors.dtype), factors.shape[1]
    for rows in some_rows(factors, factors.dtype.itemsize):
        if out is factors:
            out[rows] = factors[rows] @ turn
        else:
            device.xp.matmul(factors[rows], turn, out=out[rows])
    if n_null and len(factors):
        relative = max(4 * np.sqrt(k) * float(np.finfo(factors.dtype).eps), 1e-8)
        args = out, len(out), k, n_null, float(relative)
        device.launch(Module.of("sums", factors.dtype), "drop_noise", warps(len(out)), args)


def extrapolate(
    device: Device,
    solved: Array,
    weight: float,
    before: Array,
    basis: NDArray[np.float64],
    displacements: Array,
    turn: NDArray[np.float64],
) -> None:
    """Add ``weight (solved - (before - displacements @ turn) @ basis)``, rounded, to ``solved``.

    What is added is written to ``displacements`` (:func:`mfrank.backends.dense.halved`). Some rows
    at a time, for a small table all: many small steps would take the host longer than the device.
    """
    xp, dtype, small = device.xp, solved.dtype, resident_on(device).small
    turns, module = (small(basis, dtype), small(turn, dtype)), Module.of("displace", dtype)
    for rows in some_rows(solved, dtype.itemsize):
        some, halves = solved[rows], displacements[rows]
        last = xp.empty(some.shape, dtype)
        grid = Grid(-(-some.size // _THREADS), _THREADS)
        device.launch(module, "widen", grid, (halves, some.size, last))
        moved = last @ turns[1]
        xp.subtract(before[rows], moved, out=moved)
        xp.matmul(moved, turns[0], out=last)
        args = last, some.size, float(weight), some, halves
        device.launch(module, "displace", grid, args)


def sparse_product(device: Device, resident: Resident, rows: CSR, table: Array) -> Array:
    """Sparse ``rows`` (R, S) times ``table`` (S, K), in its dtype."""
    dtype, k, kept, parts = table.dtype, table.shape[1], resident.rows(rows), resident.parts(rows)
    columns = device.asarray(rows.indices if kept.indices is None else kept.indices)
    values = device.asarray(rows.data if kept.data is None else kept.data, dtype)
    n_parts, module = len(parts.begins), Module.of("sums", dtype)
    sums = device.xp.empty((n_parts, k), dtype)
    args = parts.begins, parts.ends, n_parts, columns, values, table, k, sums
    device.launch(module, "sum_parts", warps(n_parts), args)
    if n_parts == rows.n_rows:
        return sums
    out = device.xp.empty((rows.n_rows, k), dtype)
    every = Grid(-(-out.size // 128), 128)
    device.launch(module, "add_row_parts", every, (parts.first, sums, rows.n_rows, k, out))
    return out


def observed_value(
    device: Device, resident: Resident, problem: RowProblem, row_factors: Array, fixed: Array
) -> float:
    """Sum of c s^2 - 2 d s + k over the entries."""
    dtype, k = fixed.dtype, fixed.shape[1]
    total = float(problem.row_sums(problem.observed.constant, signed=True).sum())
    every = slice(0, problem.rows.n_rows)
    for block in blocks(device, resident, problem, every, 2, dtype):
        values = device.xp.empty(block.n_rows, np.float64)
        cells = block.indptr, block.first, block.indices, block.curvature, block.pull
        device.launch(
            Module.of("sums", dtype),
            "row_values",
            warps(block.n_rows),
            (*cells, block.n_rows, row_factors[block.rows], fixed, k, values),
        )
        total += float(values.sum())
    return total


def some_rows(factors: Array, bytes_of_a_number: int) -> list[slice]:
    """Slices of rows whose copies, at ``bytes_of_a_number``, are small."""
    n, k = factors.shape
    most = max(1, _BYTES_AT_ONCE // (k * bytes_of_a_number))
    return [slice(begin, min(begin + most, n)) for begin in range(0, n, most)]
