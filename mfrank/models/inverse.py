"""The inverse of a Gram matrix plus a ridge, block by block, in the memory of one such matrix."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.memory import address_space_left, gibibytes
from mfrank.arrays.threads import usable_cores
from mfrank.arrays.time_limit import Work, check_time

__all__ = ["BLOCK", "inverse", "load_algebra"]

BLOCK = 512
"""Rows of a block."""
_LIBRARY, _OF_A_THREAD = 192 << 20, 48 << 20
"""Bytes of address space that LAPACK takes when it is loaded, and for each of its threads."""

Dense = NDArray[np.floating]


def load_algebra(needed: int, what: str, remedy: str) -> None:
    """Load LAPACK, and let BLAS take its buffers, before a fit takes its matrices.

    Where ``ulimit -v`` leaves no room for them, OpenBLAS would not say so: it tries for ever, or
    sends this process the signal of Ctrl-C.

    Parameters
    ----------
    needed : int
        Bytes of the fit's matrices.
    what, remedy : str
        As of :func:`mfrank.arrays.memory.check_memory`.

    Raises
    ------
    MemoryError
        There is no room for both.
    """
    if (left := address_space_left()) == math.inf:
        return
    if needed + _LIBRARY + _OF_A_THREAD * usable_cores() > left:
        raise MemoryError(
            f"{what} would need {gibibytes(needed)} of memory and some for linear algebra, but "
            f"ulimit -v leaves {gibibytes(max(0, int(left)))} to this process; {remedy}"
        )
    for some in (np.eye(BLOCK, dtype=np.float32), np.eye(BLOCK)):
        _small_inverse(some @ some)


def inverse(
    rows: Callable[[slice], Dense], n: int, ridge: float, dtype: DTypeLike = np.float64
) -> Dense:
    """Invert G + ridge I.

    Blocks of variables are swept out one after the other (Goodnight 1979). Let the pivot D be the
    inverse of a block on the diagonal, and P the columns of that block. Then the columns become P
    D, the block becomes -D, and everything else G - P D P'. When all are swept out, the matrix is
    minus the inverse. The products take as long as a Cholesky factorization and the inverse by it.

    Parameters
    ----------
    rows : function
        Called with slices, returns these rows of G, which is symmetric, positive semidefinite.
    n : int
        Rows of G.
    ridge : float
    dtype : float32 or float64, default float64
        Of the result and of the products; blocks on the diagonal are inverted in float64.

    Returns
    -------
    shape (n, n)

    Raises
    ------
    FloatingPointError
        The matrix is not positive definite up to rounding.
    OutOfTimeError
        See :mod:`mfrank.arrays.time_limit`.
    """
    blocks = [slice(begin, min(begin + BLOCK, n)) for begin in range(0, n, BLOCK)]
    swept = np.empty((n, n), dtype)
    for block in blocks:
        swept[block] = rows(block)
        check_time()
    swept[np.diag_indices(n)] += ridge
    work = Work(len(blocks) * sum(block.stop for block in blocks))
    for pivot in blocks:  # only blocks on and below the diagonal are kept up to date
        _sweep(swept, blocks, pivot, work)
    for block in blocks:
        swept[block, : block.stop] *= -1
        swept[: block.start, block] = swept[block, : block.start].T
    return swept


def _sweep(swept: Dense, blocks: list[slice], pivot: slice, work: Work) -> None:
    before, behind = slice(0, pivot.start), slice(pivot.stop, None)
    columns = np.vstack([swept[pivot, before].T, swept[pivot.start :, pivot]])
    within = _small_inverse(swept[pivot, pivot]).astype(swept.dtype, copy=False)
    scaled = columns @ within
    for block in blocks:
        if block != pivot:
            swept[block, : block.stop] -= scaled[block] @ columns[: block.stop].T
        work.advance(block.stop)
    swept[pivot, before] = scaled[before].T
    swept[behind, pivot] = scaled[behind]
    swept[pivot, pivot] = -within


def _small_inverse(matrix: Dense) -> Dense:
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(matrix, lower=1, clean=0)
    if not failed:
        factor, failed = dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        raise FloatingPointError("the matrix is not positive definite")
    lower = np.tril(factor)
    found: Dense = lower + np.tril(lower, -1).T
    return found
