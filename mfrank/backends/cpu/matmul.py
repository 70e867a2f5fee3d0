"""Products of dense matrices by numpy's BLAS, with the same bits for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import MOST_PARTS, parts_of, run_parts, single_threaded, usable_cores

_WORTH_A_THREAD = 2**22  # multiply-adds per thread, as in the extension


def multiply(left: NDArray[Any], right: NDArray[Any], n_threads: int = 0) -> NDArray[Any]:
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
