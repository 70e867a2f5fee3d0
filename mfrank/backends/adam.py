"""State and hyperparameters of Adam updates of table rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import Array

__all__ = ["AdamAverages", "AdamRates"]


class AdamAverages(NamedTuple):
    """Moving averages of gradients and of their squares (n, K); updates per row, int64 (n,)."""

    means: Array
    squares: Array
    updates: NDArray[np.int64]


class AdamRates(NamedTuple):
    """Hyperparameters of Adam; see :class:`mfrank.descent.optimizers.Adam`."""

    learning_rate: float
    decay_1: float
    decay_2: float
    epsilon: float
