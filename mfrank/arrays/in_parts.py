"""Work on parts of arrays by several threads, where numpy lets other threads run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import usable_cores

__all__ = ["MOST_PARTS", "copy_rows", "parts_of", "run_parts"]

Part = TypeVar("Part")

MOST_PARTS = 16
_LEAST = 32
_BYTES_WORTH_A_THREAD = 1 << 20


def parts_of(size: int) -> list[slice]:
    """Up to 16 parts of about the same size, which do not depend on the number of threads."""
    step = max(_LEAST, -(-size // MOST_PARTS))
    return [slice(begin, begin + step) for begin in range(0, size, step)]


def run_parts(work: Callable[[Part], None], parts: Sequence[Part], n_threads: int) -> None:
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


def copy_rows(
    table: NDArray[Any],
    out: NDArray[Any],
    rows: NDArray[np.int64] | None = None,
    n_threads: int = 0,
) -> None:
    """Copy a table, or some of its rows, to ``out``; new memory is first touched by all threads.

    ``rows`` are not checked.
    """

    def one(part: slice) -> None:
        if rows is None:
            out[part] = table[part]
        else:
            np.take(table, rows[part], axis=0, out=out[part], mode="clip")

    helping = min(n_threads or usable_cores(), out.nbytes // _BYTES_WORTH_A_THREAD)
    run_parts(one, parts_of(len(out)), helping)
