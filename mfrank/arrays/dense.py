"""Rows of length 1, and the covariance of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import in_one_piece


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
    found = np.zeros((table.shape[1],) * 2)
    for begin in range(0, len(table), _ROWS_AT_ONCE):
        centered = table[begin : begin + _ROWS_AT_ONCE] - mean
        found += centered.T @ centered
    return found / max(len(table), 1)
