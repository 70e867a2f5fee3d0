"""About how long an epoch of ALS takes, from the numbers of rows, entries and factors.

Meant for a warning before a fit that would take hours: right within a factor of a few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import usable_cores
from mfrank.backends import SolveOptions
from mfrank.data import Counts

_EIGENVECTORS = 5e-10
"""Seconds, to be multiplied by K^3: eigenvectors of a K x K matrix, and their product with those
before."""
_MULTIPLY_ADDS = 1e10
"""Multiply-adds that a thread does in a second."""
_READING = 1000.0
"""Cost of reading an entry and its factors from memory, in multiply-adds."""
_VECTORS = 64
"""Bytes of a row's offset, number of entries, coefficients, weights, ridge and gain, 8 each."""
_CG_SLOWNESS = 4.0
"""Time of a multiply-add of conjugate gradients, relative to one of an exact solution
(row_solver.h)."""


def epoch_seconds(counts: Counts, width: int, options: SolveOptions) -> float:
    """Seconds of an epoch with ``width`` factors on this machine's processor."""
    threads = options.n_threads or usable_cores()
    each_row = 4 * (len(counts.users) + len(counts.items)) * width**2  # Gram matrix, rotations
    own = sum(_of_rows(side, width, options) for side in (counts.users, counts.items))
    return shared_seconds(width) + (each_row + own) / (threads * _MULTIPLY_ADDS)


def tables_at_once(n_users: int, n_items: int, row_bytes: int, *, best: bool = False) -> float:
    """Memory that a fit holds at once, as a multiple of the factors of all users and items.

    It holds one table of users, the items of this epoch and of the previous one, half the bytes of
    the items for momentum, and vectors with a number for each row. ``row_bytes`` are the bytes of
    the factors of a row; ``best`` tells whether the best epoch is kept in addition.
    """
    return 1 + 1.5 * n_items / (n_users + n_items) + _VECTORS / row_bytes + best


def shared_seconds(width: int) -> float:
    """Seconds of an epoch that depend on the number of factors only, on no rows or threads."""
    return 2 * _EIGENVECTORS * float(width) ** 3


def _of_rows(counts: NDArray[np.int64], width: int, options: SolveOptions) -> float:
    """Multiply-adds to solve rows with these numbers of entries, by the method that each takes."""
    n, k = counts.astype(np.float64), float(width)
    reading = _READING * float(n.sum())
    exact = np.minimum(n**2 * (k / 2 + n / 6), k**2 * (n / 2 + k / 6))
    if options.solver == "cholesky" or options.cg_tolerance is not None:
        return reading + float(exact.sum())
    iterated = _CG_SLOWNESS * 2 * n * k * options.cg_steps
    chosen = iterated if options.solver == "cg" else np.minimum(exact, iterated)
    return reading + float(chosen.sum())
