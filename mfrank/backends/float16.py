"""Factors in float16: half the bytes of float32, for kernels limited by memory bandwidth.

float16 has 11 significant bits from 6e-5 to 65504, fewer below and no numbers above. Scores are
products, so the factors of one side can have any scale. They are therefore divided by a power of
two first, which is exact and makes any scale from 1e-16 to 1e16 usable.
"""

from __future__ import annotations

from math import frexp, inf, ldexp
from typing import Any

import numpy as np

__all__ = ["rounded", "scale_of"]

_LARGEST = 15  # The largest scaled factor is below 2 to this power.
_MOST = 40  # Largest exponent of the scale, whose square must be a normal float32.


def scale_of(factors: Any) -> float:
    """Power of two that factors, shape (R, K), are divided by before rounding.

    A factor keeps all 11 bits if it is at least 2^-28 of the largest.
    """
    largest = max(float(factors.max()), -float(factors.min())) if factors.size else 0.0
    if not 0 < largest < inf:
        return 1.0
    return ldexp(1.0, min(max(frexp(largest)[1] - _LARGEST, -_MOST), _MOST))


def rounded(factors: Any, scale: float) -> Any:
    """``factors / scale`` in float16, rounded to nearest, ties to even; numpy or device arrays.

    Float64 is rounded to float32 first, as CuPy would do in any case.
    """
    return (factors / scale).astype(np.float32).astype(np.float16)
