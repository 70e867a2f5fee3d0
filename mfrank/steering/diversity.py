"""Maximal marginal relevance: how similar an item is to those that are already listed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Nearness"]


class Nearness:
    """Highest cosines with the listed items, while lists of some users are filled.

    Parameters
    ----------
    directions : shape (B, P, K)
        Item factors of each user's pool, scaled to length 1.

    References
    ----------
    Carbonell & Goldstein 1998, "The use of MMR, diversity-based reranking for reordering documents
    and producing summaries".
    """

    def __init__(self, directions: NDArray[Any]) -> None:
        self._directions = directions
        self._nearest = np.full(directions.shape[:2], -np.inf)

    def values(self) -> NDArray[np.float64]:
        """Highest cosine of each item of the pools with a listed one, (B, P); 0 without one."""
        return np.where(np.isneginf(self._nearest), 0.0, self._nearest)

    def take(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Item ``places[j]`` of the pool of ``users[j]`` is now listed."""
        every = len(users) == len(self._directions)  # then ``users`` are all, and need no copy
        pools = self._directions if every else self._directions[users]
        listed = self._directions[users, places]
        cosines = np.matmul(pools, listed[:, :, None])[:, :, 0]
        self._nearest[users] = np.maximum(self._nearest[users], cosines)
