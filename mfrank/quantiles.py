"""Order statistics of few scores, as many as are wanted."""

from __future__ import annotations

import numpy as np

from mfrank.lists import Array

__all__ = ["quantiles"]


def quantiles(values: Array, filled: Array, count: int) -> Array:
    """``count`` ascending quantiles of the filled values of each row, shape (B, count).

    Piecewise linear: of n values the i-th smallest is the quantile at (i - 1/2) / n, beyond the
    ends the line goes on. n = count gives the values themselves, equal values give themselves. The
    SOPRC paper's Algorithm 2 as printed does neither.
    """
    n = filled.sum(axis=1, keepdims=True)
    ascending = np.sort(np.where(filled, values, np.inf), axis=1)
    place = (np.arange(count, like=values) + 0.5) / count * n - 0.5
    left = np.clip(np.floor(place), 0, np.maximum(n - 2, 0)).astype(np.int64)
    right = np.minimum(left + 1, np.maximum(n - 1, 0))
    low, high = (np.take_along_axis(ascending, at, axis=1) for at in (left, right))
    found: Array = low + (place - left) * (high - low)
    return found
