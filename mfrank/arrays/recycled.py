"""Tables whose memory is used again, since the first touch of new pages takes the system's time.

An epoch of ALS needs two new tables while those of the epoch before are still held, and then lets
go of two. Without this, page faults are about a twentieth of an epoch on two cores.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import empty_aligned, empty_beside

__all__ = ["Recycled"]


class Recycled:
    """Hands out arrays, on the memory of earlier ones of the same shape that nobody holds."""

    def __init__(self) -> None:
        self._free: list[NDArray[Any]] = []

    def empty_beside(self, other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """As :func:`mfrank.arrays.placement.empty_beside`; GPU libraries have pools."""
        if not isinstance(other, np.ndarray):
            return empty_beside(other, shape)
        for place, memory in enumerate(self._free):
            if memory.shape == shape and memory.dtype == other.dtype:
                return np.asarray(_Loan(self._free.pop(place), self))
        return np.asarray(_Loan(empty_aligned(shape, other.dtype), self))

    def take_back(self, memory: NDArray[Any]) -> None:
        """Keep memory that nobody holds any more for the next array."""
        self._free.append(memory)


class _Loan:
    """What an array on lent memory, and every view of it, holds on to: the last one returns it."""

    def __init__(self, memory: NDArray[Any], lender: Recycled) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._lender = memory, weakref.ref(lender)

    def __del__(self) -> None:
        lender = self._lender()
        if lender is not None:
            lender.take_back(self._memory)
