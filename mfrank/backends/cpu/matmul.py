"""Products of dense matrices by numpy's BLAS, with the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded, usable_cores

__all__ = ["multiply"]

_PARTS, _LEAST_ROWS = 16, 32
_WORTH_A_THREAD = 2**22  # multiply-adds per thread, as in the extension


def multiply(left: NDArray[Any], right: NDArray[Any], n_threads: int = 0) -> NDArray[Any]:
    """``left @ right``, in parts of rows that do not depend on ``n_threads``, one thread each."""
    rows = max(_LEAST_ROWS, -(-len(left) // _PARTS))
    out = np.empty((len(left), right.shape[1]), dtype=left.dtype)
    parts = [slice(begin, begin + rows) for begin in range(0, len(left), rows)]

    def one(part: slice) -> None:
        np.matmul(left[part], right, out=out[part])

    threads = min(n_threads or usable_cores(), int(out.size * len(right) / _WORTH_A_THREAD))
    with single_threaded():
        _run_parts(one, parts, threads)
    return out


def _run_parts(work: Callable[[slice], None], parts: Sequence[slice], n_threads: int) -> None:
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
