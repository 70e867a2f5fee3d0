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

    One thread, that of the fit, calls :meth:`place_of`, :meth:`lend` and :meth:`end`. The table
    that went through these last is the fit's own: it is never free, also after its loan has ended.
    Other threads may ask for arrays, and let go of some, at any time. There is no lock, because a
    loan may end inside any statement of any thread, even of one that holds the lock.
    """

    def __init__(self) -> None:
        self._free: dict[int, NDArray[Any]] = {}
        self._lent: set[int] = set()
        self._own: NDArray[Any] | None = None

    def empty_beside(self, other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """As :func:`mfrank.arrays.placement.empty_beside`; GPU libraries have pools."""
        return self._loan(self._found(other, shape))

    def lend(self, memory: Any) -> NDArray[Any]:
        """An array on the fit's own memory, which the fit does not write to while it is held."""
        if isinstance(memory, np.ndarray):
            self._own = memory
        return self._loan(memory)

    def place_of(self, table: Any) -> NDArray[Any]:
        """Where to write the successor of a table: in its place, or in new memory if it is lent.

        It is not known whether anybody holds an array of a GPU library.
        """
        is_own = self._own is None or table is self._own
        if isinstance(table, np.ndarray) and is_own and id(table) not in self._lent:
            self._own = table
        else:
            self._own = self._found(table, table.shape)
        return self._own

    def end(self) -> None:
        """Note that the fit's own table is no longer needed."""
        own, self._own = self._own, None
        if isinstance(own, np.ndarray) and id(own) not in self._lent:
            self._free[id(own)] = own

    def take_back(self, memory: NDArray[Any]) -> None:
        """Keep memory that nobody holds any more for the next array."""
        if memory is not self._own:  # if it was until now, no array gets it, which costs one table
            self._free[id(memory)] = memory
        self._lent.discard(id(memory))  # last: by this the fit sees that the loan has ended

    def _loan(self, memory: Any) -> NDArray[Any]:
        if not isinstance(memory, np.ndarray):
            device_array: NDArray[Any] = memory
            return device_array
        self._lent.add(id(memory))
        return np.asarray(_Loan(memory, self))

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
