"""Which arrays on the host are copies of arrays that lie on a GPU.

What was given there comes to the host to be checked and planned with; where checks changed nothing,
a backend on that GPU then reads what was given, and nothing goes up again. Neither array is kept
alive here. One on the host is known by its memory: any view of just that is the same array.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.aligned import readable

__all__ = ["converted", "note", "twin_of"]


class _Copy(NamedTuple):
    """An array on the host, by what owns its memory, and what it is a copy of."""

    owner: weakref.ref[NDArray[Any]]
    dtype: np.dtype[Any]
    size: int
    there: weakref.ref[Any]


_known: dict[int, _Copy] = {}
"""By the addresses where copies begin."""


def note(here: NDArray[Any], there: Any) -> None:
    """Say that ``here`` is a copy of ``there``, on a GPU; from now on neither may change."""
    begin = here.ctypes.data
    owner = weakref.ref(_owner(here), lambda _: _known.pop(begin, None))
    _known[begin] = _Copy(owner, here.dtype, here.size, weakref.ref(there))


def twin_of(here: NDArray[Any]) -> Any:
    """What it is a copy of, perhaps in another dtype; None where that is not known, or gone."""
    copy = _known.get(here.ctypes.data)
    if copy is None or copy.owner() is not _owner(here) or not here.flags.c_contiguous:
        return None
    return copy.there() if (copy.dtype, copy.size) == (here.dtype, here.size) else None


def converted(here: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """:func:`mfrank.aligned.readable`, which remains a copy of what the array is a copy of."""
    made = readable(here, dtype)
    there = twin_of(here)
    if there is not None and made is not here:
        note(made, there)
    return made


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array whose memory it views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
