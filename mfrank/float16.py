"""Factors in float16: half of float32's bytes for what is bound by reading them.

float16 has 11 bits between 6e-5 and 65504, fewer below and nothing above, while scores, which are
products, leave it open how large the factors of one side are. So factors are divided by a power of
two first, which rounds nothing: there is no size of factors to refuse, from 1e-16 to 1e16.
"""

from __future__ import annotations

from math import frexp, inf, ldexp
from typing import Any

import numpy as np

__all__ = ["rounded", "scale_of"]

_LARGEST = 15  # The largest factor comes to lie below 2 to this power.
_MOST = 40  # Powers of two that are divided by: its square leaves the range of no float32.


def scale_of(factors: Any) -> float:
    """What factors, shape (R, K), are divided by before they are rounded: a power of two.

    A factor down to 2^-29 of the largest keeps all 11 bits.
    """
    largest = max(float(factors.max()), -float(factors.min())) if factors.size else 0.0
    if not 0 < largest < inf:
        return 1.0
    return ldexp(1.0, min(max(frexp(largest)[1] - _LARGEST, -_MOST), _MOST))


def rounded(factors: Any, scale: float) -> Any:
    """``factors / scale`` in float16, each to the nearest, ties to even; numpy's or a device's.

    By way of float32, as CuPy would have it in any case.
    """
    return (factors / scale).astype(np.float32).astype(np.float16)
