"""Eigendecomposition of a symmetric matrix by LAPACK."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded

__all__ = ["eigh"]


def eigh(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See :meth:`mfrank.backends.Backend.eigh`."""
    with single_threaded():
        values, vectors = np.linalg.eigh(matrix)
    return values, vectors
