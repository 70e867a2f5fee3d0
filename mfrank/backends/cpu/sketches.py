"""Items in one byte per factor: a single query reads these to find the few items it must score.

Results are still exact: a sketch gives an upper bound on each item's score, and all items that may
enter the list are scored from the factors themselves (``cext/kernels/topk/sketch.h``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.native import ext
from mfrank.arrays.placement import empty_aligned
from mfrank.backends.cpu.kept import Kept

__all__ = ["Sketch", "sketch_of"]

_BLOCK, _WORD = 32, 4  # items per block, and codes per word
_WORTH_IT = 1 << 17  # numbers: a query reads fewer in the time it takes to wake a thread


class Sketch(NamedTuple):
    """Codes of N items with K factors, in blocks of 32 items.

    Attributes
    ----------
    codes : int8, shape (N K,), with N rounded up to whole blocks and K to whole words
        By block, then by word of four factors, then by item.
    scales : float32, shape (N,), N rounded up
        Item i is approximately ``2**24 * scales[i]`` times its codes.
    rooms : float32, shape (N,), N rounded up
        Largest amount by which an item's score can exceed its codes' for a query of length 1.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    rooms: NDArray[np.float32]

    @classmethod
    def of(cls, items: NDArray[np.floating], n_threads: int = 0) -> Sketch:
        """Sketch the rows of a float32 or float64 matrix."""
        n_items, k = items.shape
        blocks, words = -(-n_items // _BLOCK), -(-k // _WORD)
        codes: NDArray[Any] = empty_aligned((blocks * words * _BLOCK * _WORD,), np.int8)
        codes[:] = 0
        made = cls(codes, *(np.zeros(blocks * _BLOCK, np.float32) for _ in range(2)))
        ext.sketch(items, made, n_threads)
        return made


_KEPT: Kept[Sketch] = Kept()


def sketch_of(items: NDArray[np.floating], n_threads: int = 0) -> Sketch | None:
    """Return the kept sketch of read-only items, made at their second request.

    None for writable items, for small tables, and at the first request.
    """
    if items.size < _WORTH_IT:
        return None
    return _KEPT.of(items, make=lambda: Sketch.of(items, n_threads))
