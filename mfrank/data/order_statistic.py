"""The k-th largest of whole numbers that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["kth_largest", "number_below"]

_AT_ONCE = 1 << 17
_BITS = 16
_SIGN = np.uint64(1 << 63)


def number_below(numbers: NDArray[np.int64], end: int) -> int:
    """How many numbers are below ``end``."""
    return sum(int(np.count_nonzero(block < end)) for block in _blocks(numbers))


def kth_largest(numbers: NDArray[np.int64], k: int, below: int | None = None) -> int:
    """The ``k``-th largest number, of those below ``below``, of which there must be as many.

    They are read four times, in order, once for each 16 bits of the result.
    """
    prefix = 0
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = np.zeros(1 << _BITS, np.int64)
        for block in _blocks(numbers):
            chosen = block if below is None else block[block < below]
            keys = chosen.view(np.uint64) ^ _SIGN  # in the order of the numbers
            digits = keys >> np.uint64(shift)
            if shift + _BITS < 64:
                digits = digits[keys >> np.uint64(shift + _BITS) == prefix]
            counts += np.bincount(
                (digits & np.uint64((1 << _BITS) - 1)).astype(np.int64), minlength=1 << _BITS
            )
        from_above = np.cumsum(counts[::-1])
        place = int(np.searchsorted(from_above, k))
        k -= int(from_above[place - 1]) if place else 0
        prefix = prefix << _BITS | ((1 << _BITS) - 1 - place)
    return prefix - (1 << 63)


def _blocks(numbers: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for begin in range(0, len(numbers), _AT_ONCE):
        yield np.ascontiguousarray(numbers[begin : begin + _AT_ONCE])
