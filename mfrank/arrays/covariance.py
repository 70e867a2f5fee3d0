"""Covariance of the columns of a table, over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["covariance_of"]

_ROWS_AT_ONCE = 1 << 14


def covariance_of(table: NDArray[Any]) -> NDArray[np.float64]:
    """Covariance, shape (K, K), of the rows of a table, shape (n, K), all of equal weight."""
    mean = table.mean(axis=0, dtype=np.float64) if len(table) else np.zeros(table.shape[1])
    found = np.zeros((table.shape[1],) * 2)
    for begin in range(0, len(table), _ROWS_AT_ONCE):
        centered = table[begin : begin + _ROWS_AT_ONCE] - mean
        found += centered.T @ centered
    return found / max(len(table), 1)
