"""How fast this machine computes."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

__all__ = ["multiply_add_seconds"]

_WIDTH = 512
_TIMES = 3


@cache
def multiply_add_seconds() -> float:
    """Seconds of a multiply-add within a product of dense matrices, measured once, float64."""
    matrix = np.ones((_WIDTH, _WIDTH))
    least = float("inf")
    for _ in range(_TIMES):
        began = time.perf_counter()
        matrix @ matrix
        least = min(least, time.perf_counter() - began)
    return least / _WIDTH**3
