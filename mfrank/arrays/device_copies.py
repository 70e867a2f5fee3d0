"""Registry of host arrays that are copies of GPU arrays.

Data given on a GPU is copied to the host for checks and planning. If the checks change nothing, a
backend on that GPU reads the original, so that nothing is uploaded again. The registry keeps
neither array alive. A host array is identified by its memory, so a view of all of it is found too.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.placement import readable

__all__ = ["converted", "device_copy_of", "note"]


class _Copy(NamedTuple):
    """A host array, identified by the owner of its memory, and the GPU array it is a copy of."""

    owner: weakref.ref[NDArray[Any]]
    dtype: np.dtype[Any]
    size: int
    there: weakref.ref[Any]


_known: dict[int, _Copy] = {}
"""Registered copies by the address of their first byte."""


def note(here: NDArray[Any], there: Any) -> None:
    """Register ``here`` as a copy of the GPU array ``there``; neither may change from now on."""
    begin = here.ctypes.data
    owner = weakref.ref(_owner(here), lambda _: _known.pop(begin, None))
    _known[begin] = _Copy(owner, here.dtype, here.size, weakref.ref(there))


def device_copy_of(here: NDArray[Any]) -> Any:
    """The GPU array that ``here`` is a copy of, perhaps in another dtype.

    None if no such array is registered or it no longer exists.
    """
    copy = _known.get(here.ctypes.data)
    if copy is None or copy.owner() is not _owner(here) or not here.flags.c_contiguous:
        return None
    return copy.there() if (copy.dtype, copy.size) == (here.dtype, here.size) else None


def converted(here: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Like :func:`mfrank.arrays.placement.readable`; a copy of a registered copy is registered."""
    made = readable(here, dtype)
    there = device_copy_of(here)
    if there is not None and made is not here:
        note(made, there)
    return made


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
