"""How far momentum moved rows, in half of their bytes.

A displacement only has to be approximate: the table that it is added to is exact, and so is the
table that is left when it is subtracted again. float32 tables have displacements in bfloat16, the
upper half of a float32, which has its range; numpy has no such type, so these are stored as uint16.
float64 tables have them in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.placement import Array, empty_aligned, empty_beside

__all__ = ["extrapolate", "half_of", "halved", "none_of", "widened", "withdraw"]

_ROWS_AT_ONCE = 1 << 14
"""Rows computed at a time, so that intermediate results do not take another table."""

Rotate = Callable[[Array, NDArray[np.float64], int, Array, int], None]


def half_of(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype of the displacements of a float32 or float64 table."""
    return np.dtype(np.uint16 if np.dtype(dtype) == np.float32 else np.float32)


def none_of(table: Any) -> Array:
    """Displacements of 0, on the side of the table that they belong to."""
    half = half_of(table.dtype)
    if not isinstance(table, np.ndarray):
        return np.zeros(table.shape, dtype=half, like=table)
    displacements = empty_aligned(table.shape, half)
    displacements[:] = 0
    return displacements


def halved(values: Array) -> Array:
    """Round float32 or float64 to the nearest number of half the bytes, ties to even."""
    if values.dtype != np.float32:
        return values.astype(np.float32)
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16).astype(np.uint16)


def widened(half: Array) -> Array:
    """The numbers that :func:`halved` stands for, exactly, in float32 or float64."""
    if half.dtype != np.uint16:
        return half.astype(np.float64)
    return (half.astype(np.uint32) << 16).view(np.float32)


def extrapolate(
    rotate: Rotate,
    solved: Array,
    weight: float,
    before: Array,
    basis: NDArray[np.float64],
    displacements: Array,
    turn: NDArray[np.float64],
    n_threads: int,
) -> None:
    """``Backend.extrapolate`` by rotations, for arrays of numpy or with its interface."""
    for begin in range(0, len(solved), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        last, moved = (empty_beside(solved, solved[rows].shape) for _ in range(2))
        rotate(before[rows], basis, 0, last, n_threads)
        rotate(widened(displacements[rows]), turn, 0, moved, n_threads)
        step = (solved[rows] - last + moved) * solved.dtype.type(weight)
        displacements[rows] = halved(step)
        solved[rows] += widened(displacements[rows])


def withdraw(
    rotate: Rotate,
    moved: Array,
    displacements: Array,
    turn: NDArray[np.float64],
    n_threads: int,
) -> None:
    """Take back ``displacements @ turn``, in place, where the moved rows were turned since."""
    for begin in range(0, len(moved), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        by = empty_beside(moved, moved[rows].shape)
        rotate(widened(displacements[rows]), turn, 0, by, n_threads)
        moved[rows] -= by
