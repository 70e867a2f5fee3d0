"""The distinct ones of many numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct"]


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """``numpy.unique`` of whole numbers, of any shape, by sorting them.

    numpy's own hashes them from 2.3 on, in C++ that ends the process where a daemon thread is in
    it at exit; it is also slower on large catalogues.
    """
    ascending = np.sort(numbers, axis=None)
    new = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    return np.concatenate([ascending[:1], ascending[new]])
