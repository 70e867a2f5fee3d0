"""A fixed number of order statistics from any number of scores."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.placement import Array

__all__ = ["quantiles"]


def quantiles(values: Array, filled: Array, count: int) -> Array:
    """``count`` ascending quantiles of the filled values of each row, shape (B, count).

    The i-th smallest of n values is the quantile at (i - 1/2) / n, with linear interpolation in
    between and linear extrapolation at the ends. So n = count returns the sorted values, and equal
    values return that value; the SOPRC paper's Algorithm 2 as printed does neither.
    """
    n = filled.sum(axis=1, keepdims=True)
    ascending = np.sort(np.where(filled, values, np.inf), axis=1)
    place = (np.arange(count, like=values) + 0.5) / count * n - 0.5
    left = np.clip(np.floor(place), 0, np.maximum(n - 2, 0)).astype(np.int64)
    right = np.minimum(left + 1, np.maximum(n - 1, 0))
    low, high = (np.take_along_axis(ascending, at, axis=1) for at in (left, right))
    found: Array = low + (place - left) * (high - low)
    return found
