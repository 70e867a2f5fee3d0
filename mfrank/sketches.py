"""Items at a byte a factor: a single query reads these to find the few items it needs to score.

The answer is exact all the same: a sketch tells what no item's score can exceed, and all that may
enter the list are scored from the factors themselves (``cext/sketch.h``).
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank import aligned
from mfrank.native import ext

__all__ = ["Sketch", "sketch_of"]

_BLOCK, _WORD = 32, 4  # items side by side, and codes of each
_WORTH_IT = 1 << 17  # numbers, that a query reads as fast as it wakes a thread


class Sketch(NamedTuple):
    """Of N items of K factors: a block of 32 after the other, four codes of each side by side.

    Attributes
    ----------
    codes : int8, shape (N K,), both rounded up to whole blocks and words
    scales : float32, shape (N,), rounded up
        What codes are multiples of.
    rooms : float32, of that shape
        How far a query of length 1 may see an item's score above that of its codes.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    rooms: NDArray[np.float32]

    @classmethod
    def of(cls, items: NDArray[np.floating], n_threads: int = 0) -> Sketch:
        """Sketch the rows of a float32 or float64 matrix."""
        n_items, k = items.shape
        blocks, words = -(-n_items // _BLOCK), -(-k // _WORD)
        codes: NDArray[Any] = aligned.empty((blocks * words * _BLOCK * _WORD,), np.int8)
        codes[:] = 0
        made = cls(codes, *(np.zeros(blocks * _BLOCK, np.float32) for _ in range(2)))
        ext.sketch(items, made, n_threads)
        return made


_kept: dict[int, tuple[weakref.ref[NDArray[np.floating]], Sketch | None]] = {}
"""By identity, while the items live; None of items that were asked for once."""


def sketch_of(items: NDArray[np.floating], n_threads: int = 0) -> Sketch | None:
    """Sketch of items that do not change, made when they are asked for again, and kept.

    None of items that may be written to, of few, and of such as are seen for the first time: a view
    made for one call is never seen again.
    """
    if items.flags.writeable or items.size < _WORTH_IT:
        return None
    key, known = id(items), _kept.get(id(items))
    if known is None or known[0]() is not items:
        _kept[key] = weakref.ref(items, lambda _: _kept.pop(key, None)), None
        return None
    reference, sketch = known
    if sketch is None:
        sketch = Sketch.of(items, n_threads)
        _kept[key] = reference, sketch
    return sketch
