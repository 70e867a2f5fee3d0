"""Operations on tables of factors by numpy, scipy and BLAS, common to several backends."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, inf, ldexp
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import (
    CSR,
    MOST_PARTS,
    Array,
    contracted,
    empty_aligned,
    empty_beside,
    parts_of,
    run_parts,
    single_threaded,
    usable_cores,
)


def eigh(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See :meth:`mfrank.backends.Backend.eigh`."""
    with single_threaded():
        values, vectors = np.linalg.eigh(matrix)
    return values, signed(vectors)


def signed(vectors: Any) -> Any:
    """Eigenvectors, as columns, each with its entry of largest magnitude positive.

    So signs do not depend on the library that found them.
    """
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(vectors), like=vectors)]
    return vectors * np.where(largest < 0, -1.0, 1.0)


# Factors in float16: half the bytes of float32, for kernels limited by memory bandwidth.
#
# float16 has 11 significant bits from 6e-5 to 65504, fewer below and no numbers above. Scores are
# products, so the factors of one side can have any scale. They are therefore divided by a power of
# two first, which is exact and makes any scale from 1e-16 to 1e16 usable.


_LARGEST = 15  # The largest scaled factor is below 2 to this power.
_MOST = 40  # Largest exponent of the scale, whose square must be a normal float32.


def scale_of(factors: Any) -> float:
    """Power of two that factors, shape (R, K), are divided by before rounding.

    A factor keeps all 11 bits if it is at least 2^-28 of the largest.
    """
    largest = max(float(factors.max()), -float(factors.min())) if factors.size else 0.0
    if not 0 < largest < inf:
        return 1.0
    return ldexp(1.0, min(max(frexp(largest)[1] - _LARGEST, -_MOST), _MOST))


def rounded(factors: Any, scale: float) -> Any:
    """``factors / scale`` in float16, rounded to nearest, ties to even; numpy or device arrays.

    Float64 is rounded to float32 first, as CuPy would do in any case.
    """
    return (factors / scale).astype(np.float32).astype(np.float16)


# Displacements by which momentum moved rows, in half of the bytes of the table.
#
# A displacement may be rounded: the same number is added to the table and subtracted again. float32
# tables have displacements in bfloat16, the upper half of a float32, which has its range; numpy has
# no such type, so these are stored as uint16. float64 tables have them in float32.


_ROWS_AT_ONCE = 1 << 14
"""Rows computed at a time, so that intermediate results do not take another table."""

Rotate = Callable[[Array, NDArray[np.float64], int, Array, int], None]


def half_of(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype of the displacements of a float32 or float64 table."""
    return np.dtype(np.uint16 if np.dtype(dtype) == np.float32 else np.float32)


def none_of(table: Any) -> Array:
    """Displacements of 0, on the device of their table."""
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
    """The exact values of :func:`halved`, in float32 or float64."""
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
    turn = of_both(turn, basis)
    for begin in range(0, len(solved), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        last, moved = (empty_beside(solved, solved[rows].shape) for _ in range(2))
        rotate(before[rows], basis, 0, last, n_threads)
        rotate(widened(displacements[rows]), turn, 0, moved, n_threads)
        step = (solved[rows] - last + moved) * solved.dtype.type(weight)
        displacements[rows] = halved(step)
        solved[rows] += widened(displacements[rows])


def of_both(turn: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rotation by ``turn`` and then by ``basis``."""
    with single_threaded():
        return np.asarray(turn @ basis)


def withdraw(
    rotate: Rotate,
    moved: Array,
    displacements: Array,
    turn: NDArray[np.float64],
    n_threads: int,
) -> None:
    """Subtract ``displacements @ turn`` in place, after the moved rows were rotated."""
    for begin in range(0, len(moved), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        by = empty_beside(moved, moved[rows].shape)
        rotate(widened(displacements[rows]), turn, 0, by, n_threads)
        moved[rows] -= by


# Products by numpy's BLAS, with the same bits for any number of threads.

_WORTH_A_THREAD = 2**22  # multiply-adds per thread, as in the extension


def product(left: NDArray[Any], right: NDArray[Any], n_threads: int = 0) -> NDArray[Any]:
    """``left @ right``, in parts that do not depend on ``n_threads``, one thread each.

    The longest of the three sizes is cut: BLAS copies the factors of each part, and so copies only
    the smaller factor, or none, more than once.
    """
    (rows, terms), columns = left.shape, right.shape[1]
    out = np.empty((rows, columns), dtype=left.dtype)
    threads = min(n_threads or usable_cores(), int(out.size * terms / _WORTH_A_THREAD))
    if terms * (rows + columns) >= MOST_PARTS * out.size:
        return _sum_of_parts(left, right, out, threads)

    def one(part: slice) -> None:
        if rows >= columns:
            np.matmul(left[part], right, out=out[part])
        else:
            np.matmul(left, right[:, part], out=out[:, part])

    with single_threaded():
        run_parts(one, parts_of(max(rows, columns)), threads)
    return out


def _sum_of_parts(
    left: NDArray[Any], right: NDArray[Any], out: NDArray[Any], n_threads: int
) -> NDArray[Any]:
    """Sum products of parts of the terms; together these are no larger than the factors."""
    parts = parts_of(len(right))
    sums = np.empty((len(parts), *out.shape), out.dtype)

    def one(numbered: tuple[int, slice]) -> None:
        number, part = numbered
        np.matmul(left[:, part], right[part], out=sums[number])

    with single_threaded():
        run_parts(one, list(enumerate(parts)), n_threads)
    return np.sum(sums, axis=0, out=out)


def sparse_product(rows: CSR, table: Array) -> Array:
    """``Backend.sparse_product`` by scipy."""
    shape = rows.n_rows, rows.n_columns
    matrix: Any = sp.csr_array((rows.data, rows.indices, rows.indptr), shape)  # type: ignore[arg-type]
    summed: Array = matrix @ table
    return summed


# Rows on the unit sphere or in the unit ball: the numpy implementation.
#
# These functions of :class:`mfrank.backends.Backend` work for arrays of any library with numpy's
# interface.


def tangent(table: Array, rows: NDArray[np.int64], sums: Array, n_threads: int = 0) -> Array:
    """See :meth:`mfrank.backends.Backend.tangent`."""
    own = table[rows]
    own *= contracted("rk,rk->r", sums, own)[:, None]
    sums -= own
    return sums


def ball_gradients(
    table: Array, rows: NDArray[np.int64], sums: Array, totals: Array, n_threads: int = 0
) -> Array:
    """See :meth:`mfrank.backends.Backend.ball_gradients`."""
    sums -= totals[:, None] * table[rows]
    sums *= 2
    return sums


def project_rows(table: Array, rows: NDArray[np.int64], *, ball: bool, n_threads: int = 0) -> None:
    """See :meth:`mfrank.backends.Backend.project_rows`."""
    own = table[rows]
    lengths = np.sqrt((own.astype(np.float64) ** 2).sum(1, keepdims=True))
    far = lengths[:, 0] > (1 if ball else 0)
    table[rows[far]] = (own[far] / lengths[far]).astype(table.dtype)
