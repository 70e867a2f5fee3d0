"""Products of dense matrices by numpy's BLAS, the same bits on any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.blas import single_threaded
from mfrank.cores import usable_cores

__all__ = ["multiply"]

_PARTS, _LEAST_ROWS = 16, 32
_WORTH_A_THREAD = 2**22  # multiply-adds, as in the extension


def multiply(left: NDArray[Any], right: NDArray[Any], n_threads: int = 0) -> NDArray[Any]:
    """``left @ right``: rows in parts that do not depend on ``n_threads``, each on one thread."""
    rows = max(_LEAST_ROWS, -(-len(left) // _PARTS))
    out = np.empty((len(left), right.shape[1]), dtype=left.dtype)
    parts = [slice(begin, begin + rows) for begin in range(0, len(left), rows)]

    def one(part: slice) -> None:
        np.matmul(left[part], right, out=out[part])

    threads = min(n_threads or usable_cores(), int(out.size * len(right) / _WORTH_A_THREAD))
    with single_threaded():
        if threads < 2:
            for part in parts:
                one(part)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(one, parts))
    return out
