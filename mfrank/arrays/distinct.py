"""Distinct values of integer arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct"]


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Sorted distinct values of an integer array of any shape, like ``numpy.unique``.

    Since 2.3 numpy's own uses a hash table, in C++ code that aborts the process if a daemon thread
    runs it at exit; it is also slower on large catalogs.
    """
    ascending = np.sort(numbers, axis=None)
    new = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    return np.concatenate([ascending[:1], ascending[new]])
