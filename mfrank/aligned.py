"""Arrays that kernels read where they lie: aligned, new ones to a cache line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["empty", "readable"]

_LINE = 64  # bytes; numpy itself promises 16


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.floating]:
    """Like ``numpy.empty``, C-contiguous, its first byte at a multiple of 64."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + _LINE, dtype=np.uint8)
    begin = -raw.ctypes.data % _LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def readable(array: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """The array C-contiguous, aligned and of a dtype: itself, or a copy where it is not.

    Numbers of a mapped file may begin anywhere; ``numpy.ascontiguousarray`` leaves them there.
    """
    return np.require(array, dtype, ("C", "A", "E"))
