"""Standardization of features by the statistics of a training set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Scaling"]

_CONSTANT = 1e-12
"""A feature is constant if its standard deviation is at most this times its largest magnitude."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """x -> (x - means) * factors.

    Attributes
    ----------
    means, factors : float64, shape (n_features,)
    """

    means: NDArray[np.float64]
    factors: NDArray[np.float64]

    @classmethod
    def of(cls, features: NDArray[Any]) -> Scaling:
        """Scale to mean 0 and standard deviation 1; constant features, which rank nothing, to 0."""
        largest = np.abs(features).max(axis=0).astype(np.float64)
        unit = np.where(largest > 0, largest, 1)
        relative = features / unit
        deviations = relative.std(axis=0)
        varies = deviations > _CONSTANT
        factors = np.where(varies, 1 / np.where(varies, deviations, 1) / unit, 0)
        return cls(relative.mean(axis=0) * unit, factors)

    @classmethod
    def none(cls, n_features: int) -> Scaling:
        """Leave features unchanged."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def apply(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Scaled features, a new array."""
        scaled: NDArray[np.float64] = (features - self.means) * self.factors
        return scaled
