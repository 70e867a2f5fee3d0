"""Gram matrices, rotations and the objective's observed part, on the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Array, Device, Grid
from mfrank.backends.cuda.blocks import blocks, warps
from mfrank.backends.cuda.resident import Resident, resident_on
from mfrank.backends.cuda.sources import Module
from mfrank.backends.row_problem import RowProblem

_BYTES_AT_ONCE = 1 << 28
"""Size of a copy of some rows; independent of free memory, so that runs sum the same parts."""


_TILE, _MOST_BLOCKS, _LEAST_ROWS = 64, 512, 128
"""Of the Gram matrix: side of a tile, number of blocks (about), and rows of a block (at least). All
follow from the table's shape, so that every device sums in the same order."""


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
    """``factors @ basis`` into ``out``."""
    turn, k = resident_on(device).small(basis, factors.dtype), factors.shape[1]
    for rows in some_rows(factors, factors.dtype.itemsize):
        out[rows] = factors[rows] @ turn
    if n_null and len(factors):
        relative = max(4 * np.sqrt(k) * float(np.finfo(factors.dtype).eps), 1e-8)
        args = out, len(out), k, n_null, float(relative)
        device.launch(Module.of("sums", factors.dtype), "drop_noise", warps(len(out)), args)


def observed_value(
    device: Device, resident: Resident, problem: RowProblem, row_factors: Array, fixed: Array
) -> float:
    """Sum of c s^2 - 2 d s + k over the entries."""
    dtype, k = fixed.dtype, fixed.shape[1]
    total = float(problem.row_sums(problem.observed.constant, likes_only=True).sum())
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
