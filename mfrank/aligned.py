"""Arrays that begin on a cache line, so that kernels may read them where they lie."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["empty"]

_LINE = 64  # bytes; numpy itself promises 16


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.floating]:
    """Like ``numpy.empty``, C-contiguous, its first byte at a multiple of 64."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + _LINE, dtype=np.uint8)
    begin = -raw.ctypes.data % _LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)
