"""Factors scaled to rows of length 1, whose products are cosines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import in_one_piece

__all__ = ["directions_of"]


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
