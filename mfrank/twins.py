"""Which arrays on the host are copies of arrays that lie on a GPU.

What was given there comes to the host to be checked and planned with; where checks changed nothing,
a backend on that GPU then reads what was given, and nothing goes up again. Neither array is kept
alive here. One on the host is known by its memory: a view of all of it is the same.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["converted", "note", "twin_of"]

_known: dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]] = {}


def note(here: NDArray[Any], there: Any) -> None:
    """Say that ``here`` is a copy of ``there``, on a GPU; from now on neither may change."""
    owner = _owner(here)
    key = id(owner)
    _known[key] = weakref.ref(owner, lambda _: _known.pop(key, None)), weakref.ref(there)


def twin_of(here: NDArray[Any]) -> Any:
    """What it is a copy of, perhaps in another dtype; None where that is not known, or gone."""
    owner = _owner(here)
    copy_of, there = _known.get(id(owner), (None, None))
    if copy_of is None or there is None or copy_of() is not owner:
        return None
    all_of_it = here.dtype == owner.dtype and here.size == owner.size and here.flags.c_contiguous
    return there() if all_of_it else None


def converted(here: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """``numpy.ascontiguousarray``, which remains a copy of what the array is a copy of."""
    made = np.ascontiguousarray(here, dtype=dtype)
    there = twin_of(here)
    if there is not None and made is not here:
        note(made, there)
    return made


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array whose memory it views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
