"""The logistic function and its relatives, stable at any size of their arguments."""

from __future__ import annotations

import numpy as np

from mfrank.lists import Array

__all__ = ["log_sum_exp", "sigmoid", "softplus"]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x: Array) -> Array:
    """Log(1 + exp(x))."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def log_sum_exp(x: Array, filled: Array) -> Array:
    """Log of the sum of exp over the filled places of each row, shape (B, 1); -inf if none is."""
    largest: Array = np.where(filled, x, -np.inf).max(axis=1, keepdims=True)
    total: Array = (filled * np.exp(np.minimum(x - largest, 0))).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return largest + np.log(total)
