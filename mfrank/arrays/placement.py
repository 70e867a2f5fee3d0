"""Placement of arrays: in host memory, or on a GPU whose library has numpy's interface.

Code in numpy's functions runs on both (``__array_function__``, NEP 18 and 35). One call cannot mix
them, so host arrays are first moved to where the factors are.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank._system import own_pages


def on_host(array: Any) -> NDArray[Any]:
    """The array in numpy: itself, or a copy of a CuPy array."""
    if type(array) is np.ndarray:
        return array
    copy: NDArray[Any] = array.get() if hasattr(array, "get") else np.asanyarray(array)
    return copy


def beside(array: Any, other: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """The array on the side (host or GPU) of ``other``, copied if it is not there."""
    if dtype is None and type(array) is np.ndarray and isinstance(other, np.ndarray):
        return array  # the common case; dispatch by ``like`` takes longer than a short copy
    here = on_host(array) if isinstance(other, np.ndarray) else array
    return np.asarray(here, dtype=dtype, like=other)


def reachable(array: Any, place: Callable[[Any], Any]) -> Any:
    """Make an array readable by the backend with this ``place``; all backends read numpy arrays."""
    return array if isinstance(array, np.ndarray) else place(array)


def empty_beside(other: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """A new array with the dtype and on the side of ``other``; in numpy, aligned to 64 bytes."""
    if isinstance(other, np.ndarray):
        return empty_aligned(shape, other.dtype)
    return np.empty(shape, dtype=other.dtype, like=other)


def in_one_piece(array: Any) -> NDArray[Any]:
    """The array if it is C-contiguous, else a C-contiguous copy."""
    contiguous: NDArray[Any] = np.ascontiguousarray(array, like=array)
    return contiguous


def contracted(subscripts: str, *arrays: Any) -> Any:
    """``numpy.einsum`` of arrays whose letters come in one order, as in ``"btn,bn->bt"``.

    On a GPU by a product and a sum: CuPy's ``einsum`` keeps the host ten times as long.
    """
    if isinstance(arrays[0], np.ndarray):
        return np.einsum(subscripts, *arrays)
    given, _, kept = subscripts.partition("->")
    names = given.split(",")
    letters = max(names, key=len)
    whole, *others = (
        array[tuple(slice(None) if letter in name else None for letter in letters)]
        for name, array in zip(names, arrays, strict=True)
    )
    for other in others:
        whole = whole * other
    return whole.sum(axis=tuple(n for n, letter in enumerate(letters) if letter not in kept))


def subtract_at(array: Any, places: NDArray[Any], values: NDArray[Any]) -> None:
    """``numpy.subtract.at`` for a vector on the host or a GPU: every repetition counts."""
    if isinstance(array, np.ndarray):
        np.subtract.at(array, places, values)
    else:
        array -= sums_at(places.ravel(), [values.ravel()], len(array))[0]


def sums_at(places: Any, values: Sequence[Any], size: int) -> Any:
    """Sums of the values at each place, added in a fixed order, so that results are reproducible.

    Like ``numpy.bincount`` of each of ``values``, shape (len(values), size); CuPy's adds in the
    order in which its threads happen to run.
    """
    if isinstance(places, np.ndarray):
        return np.stack([np.bincount(places, each, minlength=size) for each in values])
    order = np.argsort(places, kind="stable")
    places, sums = places[order], np.stack([each[order] for each in values])
    every = np.arange(size, like=places)
    begins, ends = (np.searchsorted(places, every, side=side) for side in ("left", "right"))
    # Each pass makes every number the sum of the last 2, 4, 8, ... at its place.
    step, longest = 1, int((ends - begins).max())
    while step < longest:
        same = places[step:] == places[:-step]
        sums[:, step:] += np.where(same, sums[:, :-step], 0.0)
        step *= 2
    return np.where(begins < ends, sums[:, ends - 1], 0.0)


Array: TypeAlias = NDArray[Any]
"""An array of numpy or of any library with numpy's interface."""

_LINE = 64  # bytes of a cache line; numpy guarantees only 16
_OWN_PAGES = 4 << 20  # Bytes from which tables are mapped; smaller ones reuse the heap sooner.


def empty_aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.floating]:
    """Like ``numpy.empty``, C-contiguous and aligned to 64 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size >= _OWN_PAGES and (pages := _own_pages(size)) is not None:
        return np.frombuffer(pages, dtype).reshape(shape)
    raw = np.empty(size + _LINE, dtype=np.uint8)
    begin = -raw.ctypes.data % _LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def _own_pages(size: int) -> mmap.mmap | None:
    try:
        return own_pages(size)
    except OSError as error:
        raise MemoryError(f"Unable to allocate {size / 2**20:,.0f} MiB for factors") from error


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy on the side of ``array``; in numpy, aligned to 64 bytes."""
    copy = empty_beside(array, array.shape)
    copy[:] = array
    return copy


def readable(array: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """The array C-contiguous, aligned and of ``dtype`` (None: its own), copied only if it is not.

    Arrays of a mapped file may be unaligned, which ``numpy.ascontiguousarray`` does not repair.
    """
    if type(array) is np.ndarray and (dtype is None or array.dtype == dtype):
        flags = array.flags
        if flags.c_contiguous and flags.aligned:
            return array  # as numpy would find in three times as long
    return np.require(array, dtype, ("C", "A", "E"))


# Rows of length 1.


def zero_rows(factors: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows of factors, shape (n, K), are 0 throughout, bool (n,), on their side."""
    if np.count_nonzero(factors) == factors.size:  # as usual, and known in a fifth of the time
        return np.zeros(len(factors), dtype=bool, like=factors)
    return np.logical_not(factors.any(axis=1))


def directions_of(factors: NDArray[Any]) -> NDArray[Any]:
    """Scale the rows of factors, shape (n, K), to length 1; rows of zeros stay zero.

    A row is divided by its largest absolute entry first, so that squares neither overflow nor
    underflow. The result has the dtype of ``factors`` and lies on their side.
    """
    scale = np.abs(factors).max(axis=1, keepdims=True)
    scaled = factors / np.where(scale > 0, scale, 1)
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))  # at least 1, or 0
    directions = scaled / np.maximum(length, 1)
    return in_one_piece(directions)


# Covariance of the columns of a table, over its rows.


_ROWS_AT_ONCE = 1 << 14


def covariance_of(table: NDArray[Any]) -> NDArray[np.float64]:
    """Covariance, shape (K, K), of the rows of a table, shape (n, K), all of equal weight."""
    mean = table.mean(axis=0, dtype=np.float64) if len(table) else np.zeros(table.shape[1])
    products = np.zeros((table.shape[1],) * 2)
    for begin in range(0, len(table), _ROWS_AT_ONCE):
        centered = table[begin : begin + _ROWS_AT_ONCE] - mean
        products += centered.T @ centered
    return products / max(len(table), 1)
