"""Tables whose memory is reused, because the first touch of new pages costs system time.

An epoch of ALS needs a new table of items while that of the previous epoch is still held, and then
lets go of the old one. Without reuse, page faults are about a twentieth of an epoch on two cores.
An epoch overwrites the users in place unless somebody holds them: their memory is lent, and comes
back when the last array on it is gone.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import empty_aligned, empty_beside

__all__ = ["Recycled"]


class Recycled:
    """Hands out arrays, on the memory of earlier ones of the same shape that nobody holds.

    Other threads may let go of arrays, and ask for some, at any time.
    """

    def __init__(self) -> None:
        self._free: dict[int, NDArray[Any]] = {}
        self._lent: set[int] = set()
        self._at_work: NDArray[Any] | None = None

    def empty_beside(self, other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """As :func:`mfrank.arrays.placement.empty_beside`; GPU libraries have pools."""
        return self.lend(self._found(other, shape))

    def lend(self, memory: Any) -> NDArray[Any]:
        """An array on memory that comes back once nobody holds it; nobody else may write there."""
        if not isinstance(memory, np.ndarray):
            device_array: NDArray[Any] = memory
            return device_array
        self._lent.add(id(memory))
        if self._at_work is memory:
            self._at_work = None
        return np.asarray(_Loan(memory, self))

    def place_of(self, table: Any) -> NDArray[Any]:
        """Where to write the successor of a table: in its place, or in new memory if it is lent.

        It is not known whether anybody holds an array of a GPU library.
        """
        if not isinstance(table, np.ndarray) or id(table) in self._lent:
            found = self._found(table, table.shape)
        else:
            self._free.pop(id(table), None)
            found = table
        self._at_work = found
        return found

    def end(self) -> None:
        """Note that the table that was written last is no longer needed."""
        if isinstance(self._at_work, np.ndarray):
            self._free[id(self._at_work)] = self._at_work
        self._at_work = None

    def take_back(self, memory: NDArray[Any]) -> None:
        """Keep memory that nobody holds any more for the next array."""
        self._free[id(memory)] = memory
        self._lent.discard(id(memory))  # last: what is not lent and not free is at work

    def _found(self, other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        if not isinstance(other, np.ndarray):
            return empty_beside(other, shape)
        for key, memory in list(self._free.items()):
            fits = memory.shape == shape and memory.dtype == other.dtype
            if fits and self._free.pop(key, None) is not None:  # else another thread has it
                return memory
        return empty_aligned(shape, other.dtype)


class _Loan:
    """Held by an array on lent memory and all of its views; the last one to go returns it."""

    def __init__(self, memory: NDArray[Any], lender: Recycled) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._lender = memory, weakref.ref(lender)

    def __del__(self) -> None:
        lender = self._lender()
        if lender is not None:
            lender.take_back(self._memory)
