"""Facts about the data that set the scale of hyper-parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mfrank.data.interactions import Interactions

__all__ = ["Facts"]


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Numbers by which one search space serves every data set.

    Attributes
    ----------
    data : Interactions
        The data that the numbers describe.
    density : float
        Share of the cells of the matrix that are observed.
    mean_value : float
        Mean of the observed values above 0.
    per_user, per_item : float
        Mean number of observed cells.
    spread : float
        sqrt(per_user) + sqrt(per_item): about the largest singular value of a random matrix of
        zeros and ones as sparse as the data. Directions with far smaller singular values are noise.
    """

    data: Interactions
    density: float
    mean_value: float
    per_user: float
    per_item: float
    spread: float

    @classmethod
    def of(cls, data: Interactions) -> Self:
        """Count and average; the data have a value above 0."""
        values = data.user_items.data
        per_user, per_item = data.nnz / data.n_users, data.nnz / data.n_items
        return cls(
            data,
            per_user / data.n_items,
            float(values[values > 0].mean(dtype=np.float64)),
            per_user,
            per_item,
            float(np.sqrt(per_user) + np.sqrt(per_item)),
        )
