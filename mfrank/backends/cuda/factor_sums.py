"""Gram matrices, rotations and the objective's observed part, on the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.device import Array, Device
from mfrank.backends.cuda.blocks import blocks, warps
from mfrank.backends.cuda.resident import Resident
from mfrank.backends.cuda.sources import Module
from mfrank.backends.row_problem import RowProblem

__all__ = ["gram", "observed_value", "rotate", "some_rows"]

_BYTES_AT_ONCE = 1 << 28
"""Size of a copy of some rows; independent of free memory, so that runs sum the same parts."""


_IN_GROUPS = 1 << 20
"""Numbers in the groups' Gram matrices together."""


def gram(
    device: Device, factors: Array, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F' diag(w) F and F' w by cuBLAS in float64, some rows at a time; returned on the host.

    The products are of many groups of rows at once: a single one, of two wide and short matrices,
    would leave most of the device idle.
    """
    xp, k = device.xp, factors.shape[1]
    weighted, n_groups = device.asarray(weights, np.float64)[:, None], max(1, _IN_GROUPS // k**2)
    matrix, vector = xp.zeros((k, k)), xp.zeros(k)
    for rows in some_rows(factors, 16):
        n = rows.stop - rows.start
        height = -(-n // n_groups)
        wide, scaled = (xp.zeros((n_groups * height, k)) for _ in range(2))
        wide[:n] = factors[rows]
        xp.multiply(weighted[rows], wide[:n], out=scaled[:n])
        of_groups = (n_groups, height, k)
        lying = wide.reshape(of_groups).transpose(0, 2, 1)
        matrix += xp.matmul(lying, scaled.reshape(of_groups)).sum(axis=0)
        vector += scaled.sum(axis=0)
    upper = np.triu(device.asnumpy(matrix))
    return upper + np.triu(upper, 1).T, device.asnumpy(vector)


def rotate(
    device: Device,
    factors: Array,
    basis: NDArray[np.float64],
    n_null: int,
    out: Array,
    plus: tuple[float, Array] | None,
) -> None:
    """``factors @ basis``, and scale times the table of ``plus``, into ``out``."""
    turn, k = device.asarray(basis, factors.dtype), factors.shape[1]
    for rows in some_rows(factors, factors.dtype.itemsize):
        out[rows] = factors[rows] @ turn
    if n_null and len(factors):
        relative = max(4 * np.sqrt(k) * float(np.finfo(factors.dtype).eps), 1e-8)
        args = out, len(out), k, n_null, float(relative)
        device.launch(Module.of("sums", factors.dtype), "drop_noise", warps(len(out)), args)
    if plus is not None:
        scale, table = factors.dtype.type(plus[0]), plus[1]
        for rows in some_rows(table, table.dtype.itemsize):
            out[rows] += scale * table[rows]


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
