"""The logistic function and related functions, numerically stable for all arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank.arrays.placement import Array

__all__ = ["log_sum_exp", "log_sums_so_far", "sigmoid", "softplus"]

_FAR = 600.0
"""Exponentials of numbers no further apart can be summed in float64 without underflow."""


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x: Array) -> Array:
    """Log(1 + exp(x))."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def log_sum_exp(x: Array, filled: Array) -> Array:
    """Log of the sum of exp(x) over each row's filled places, shape (B, 1); -inf if none is."""
    largest: Array = np.where(filled, x, -np.inf).max(axis=1, keepdims=True)
    total: Array = (filled * np.exp(np.minimum(x - largest, 0))).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return largest + np.log(total)


def log_sums_so_far(x: Any) -> Array:
    """Log of the cumulative sums of exp(x) along each row, in the shape of x."""
    if isinstance(x, np.ndarray):
        wide = x.astype(np.float64)
        largest = np.maximum(wide.max(axis=1, keepdims=True), np.finfo(wide.dtype).min)
        if ((wide < largest - _FAR) & (wide > -np.inf)).any():
            return np.logaddexp.accumulate(x, axis=1)
        with np.errstate(divide="ignore"):
            found: Array = largest + np.log(np.cumsum(np.exp(wide - largest), axis=1))
        return found.astype(x.dtype, copy=False)
    sums = [x[:, 0]]
    for place in range(1, x.shape[1]):
        sums.append(np.logaddexp(sums[-1], x[:, place]))
    stacked: Array = np.stack(sums, axis=1)
    return stacked
