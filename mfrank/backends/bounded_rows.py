"""Rows on the unit sphere or in the unit ball: the numpy implementation.

These functions of :class:`mfrank.backends.Backend` work for arrays of any library with numpy's
interface.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import Array

__all__ = ["ball_gradients", "project_rows", "tangent"]


def tangent(table: Array, rows: NDArray[np.int64], sums: Array, n_threads: int = 0) -> Array:
    """See :meth:`mfrank.backends.Backend.tangent`."""
    own = table[rows]
    own *= np.einsum("rk,rk->r", sums, own)[:, None]
    sums -= own
    return sums


def ball_gradients(
    table: Array, rows: NDArray[np.int64], sums: Array, totals: Array, n_threads: int = 0
) -> Array:
    """See :meth:`mfrank.backends.Backend.ball_gradients`."""
    sums -= totals[:, None] * table[rows]
    sums *= 2
    return sums


def project_rows(table: Array, rows: NDArray[np.int64], *, ball: bool, n_threads: int = 0) -> None:
    """See :meth:`mfrank.backends.Backend.project_rows`."""
    own = table[rows]
    lengths = np.sqrt((own.astype(np.float64) ** 2).sum(1, keepdims=True))
    far = lengths[:, 0] > (1 if ball else 0)
    table[rows[far]] = (own[far] / lengths[far]).astype(table.dtype)
