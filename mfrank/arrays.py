"""Arrays where a backend keeps them: numpy's, or those of a device with numpy's interface.

What engines write in numpy's functions runs on either (``__array_function__``, NEP 18 and 35); the
two do not mix, so what comes from the host goes beside the factors first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank import aligned

__all__ = [
    "beside",
    "empty_beside",
    "in_one_piece",
    "on_host",
    "reachable",
    "subtract_at",
    "sums_at",
]


def on_host(array: Any) -> NDArray[Any]:
    """The array in numpy: itself, or a copy of what CuPy has on a device."""
    found: NDArray[Any] = array.get() if hasattr(array, "get") else np.asanyarray(array)
    return found


def beside(array: Any, other: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """An array where the other one is: itself, or a copy on the other side."""
    here = on_host(array) if isinstance(other, np.ndarray) else array
    return np.asarray(here, dtype=dtype, like=other)


def reachable(array: Any, place: Callable[[Any], Any]) -> Any:
    """An array as a backend with this ``place`` reads it; numpy's are read by every backend."""
    return array if isinstance(array, np.ndarray) else place(array)


def empty_beside(other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of the other's dtype where the other is; in numpy, it begins on a cache line."""
    if isinstance(other, np.ndarray):
        return aligned.empty(shape, other.dtype)
    return np.empty(shape, dtype=other.dtype, like=other)


def in_one_piece(array: Any) -> NDArray[Any]:
    """The array, or a copy, with nothing between its rows."""
    found: NDArray[Any] = np.ascontiguousarray(array, like=array)
    return found


def subtract_at(array: Any, places: NDArray[Any], values: NDArray[Any]) -> None:
    """``numpy.subtract.at`` of a vector: places that are given more than once count each time."""
    if isinstance(array, np.ndarray):
        np.subtract.at(array, places, values)
    else:
        array -= sums_at(places.ravel(), [values.ravel()], len(array))[0]


def sums_at(places: Any, values: Sequence[Any], size: int) -> Any:
    """Sums of the values at each place, in an order that is always the same.

    ``numpy.bincount``, for which CuPy's does not serve: it adds in whatever order threads come.

    Parameters
    ----------
    places : int, shape (n,)
        Below ``size``, in any order.
    values : float64 arrays, shape (n,)
    size : int

    Returns
    -------
    float64, shape (len(values), size)
        0 at places that are not given.
    """
    if isinstance(places, np.ndarray):
        return np.stack([np.bincount(places, each, minlength=size) for each in values])
    order = np.argsort(places, kind="stable")
    places, sums = places[order], np.stack([each[order] for each in values])
    every = np.arange(size, like=places)
    begins, ends = (np.searchsorted(places, every, side=side) for side in ("left", "right"))
    # Each number becomes the sum of the last 1, 2, 4, ... at the same place.
    step, longest = 1, int((ends - begins).max())
    while step < longest:
        same = places[step:] == places[:-step]
        sums[:, step:] += np.where(same, sums[:, :-step], 0.0)
        step *= 2
    return np.where(begins < ends, sums[:, ends - 1], 0.0)
