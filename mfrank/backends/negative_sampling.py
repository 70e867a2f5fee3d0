"""Sampling items that are not in a user's row, uniformly or by given probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROUNDS", "ItemProbabilities"]

ROUNDS = 50
"""Maximum number of tries to draw an item that is not in the user's row."""


class ItemProbabilities(NamedTuple):
    """Sampling probabilities of items.

    Attributes
    ----------
    cumulative : float64, shape (n_items,)
        Cumulative probabilities; the last is 1.
    guide : int64, shape (n_items,)
        At j, the first item with a cumulative probability above j / n_items, where the search for
        a number in [j, j + 1) / n_items begins.
    """

    cumulative: NDArray[np.float64]
    guide: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> ItemProbabilities:
        """Probabilities proportional to ``weights`` >= 0, at least one of them > 0."""
        cumulative = np.cumsum(weights / weights.sum())
        cumulative[np.flatnonzero(weights)[-1] :] = 1.0  # exactly 1, despite rounding
        starts = np.arange(len(weights)) / len(weights)
        return cls(cumulative, np.searchsorted(cumulative, starts, side="right"))
