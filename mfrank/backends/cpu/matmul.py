"""Products of dense matrices by numpy's BLAS, with the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded, usable_cores

__all__ = ["multiply"]

Part = TypeVar("Part")

_PARTS, _LEAST = 16, 32
_WORTH_A_THREAD = 2**22  # multiply-adds per thread, as in the extension


def multiply(left: NDArray[Any], right: NDArray[Any], n_threads: int = 0) -> NDArray[Any]:
    """``left @ right``, in parts that do not depend on ``n_threads``, one thread each.

    The longest of the three sizes is cut: BLAS copies the factors of each part, and so copies only
    the smaller factor, or none, more than once.
    """
    (rows, terms), columns = left.shape, right.shape[1]
    out = np.empty((rows, columns), dtype=left.dtype)
    threads = min(n_threads or usable_cores(), int(out.size * terms / _WORTH_A_THREAD))
    if terms * (rows + columns) >= _PARTS * out.size:
        return _sum_of_parts(left, right, out, threads)

    def one(part: slice) -> None:
        if rows >= columns:
            np.matmul(left[part], right, out=out[part])
        else:
            np.matmul(left, right[:, part], out=out[:, part])

    with single_threaded():
        _run_parts(one, _parts(max(rows, columns)), threads)
    return out


def _sum_of_parts(
    left: NDArray[Any], right: NDArray[Any], out: NDArray[Any], n_threads: int
) -> NDArray[Any]:
    """Sum products of parts of the terms; together these are no larger than the factors."""
    parts = _parts(len(right))
    sums = np.empty((len(parts), *out.shape), out.dtype)

    def one(numbered: tuple[int, slice]) -> None:
        number, part = numbered
        np.matmul(left[:, part], right[part], out=sums[number])

    with single_threaded():
        _run_parts(one, list(enumerate(parts)), n_threads)
    return np.sum(sums, axis=0, out=out)


def _parts(size: int) -> list[slice]:
    step = max(_LEAST, -(-size // _PARTS))
    return [slice(begin, begin + step) for begin in range(0, size, step)]


def _run_parts(work: Callable[[Part], None], parts: Sequence[Part], n_threads: int) -> None:
    """Run ``work`` on all parts with ``n_threads`` threads, including this one.

    An executor would refuse work from threads that still run after the main thread has ended.
    """
    left = iter(parts)
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            for part in left:
                work(part)
        except BaseException as error:
            errors.append(error)
            for _ in left:  # so that no thread begins another part
                pass

    helpers: list[Thread] = []
    for _ in range(1, min(n_threads, len(parts))):
        helper = Thread(target=serve)
        try:
            helper.start()
        except RuntimeError:  # no more threads can be started: the existing ones do the work
            break
        helpers.append(helper)
    serve()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
