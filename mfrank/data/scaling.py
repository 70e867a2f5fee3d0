"""Features brought to one scale by the statistics of a training set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Scaling"]

_CONSTANT = 1e-12
"""Deviation, as a part of the largest value, from which on a feature is taken for constant."""


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
        """To mean 0 and deviation 1; a constant feature, which ranks nothing, to 0."""
        largest = np.abs(features).max(axis=0).astype(np.float64)
        unit = np.where(largest > 0, largest, 1)
        shares = features / unit
        deviations = shares.std(axis=0)
        varies = deviations > _CONSTANT
        factors = np.where(varies, 1 / np.where(varies, deviations, 1) / unit, 0)
        return cls(shares.mean(axis=0) * unit, factors)

    @classmethod
    def none(cls, n_features: int) -> Scaling:
        """Features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def apply(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Scaled features, a new array."""
        scaled: NDArray[np.float64] = (features - self.means) * self.factors
        return scaled
