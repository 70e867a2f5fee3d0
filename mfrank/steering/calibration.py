"""Calibration: a list has each category in the share that it has among the user's items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.steering.categories import ItemCategories, cells_of

__all__ = ["ALPHA", "Divergence", "shares_of"]

Floats = NDArray[np.float64]

ALPHA = 0.01
"""Weight of the user's shares in the list's, so that no divergence is infinite."""


def shares_of(history: CSR, categories: ItemCategories) -> Floats:
    """Shares of the categories among users' items, (U, categories.width); 0 without items."""
    users = np.repeat(np.arange(history.n_rows), history.counts)
    cells = users[:, None] * categories.width + categories.columns[history.indices]
    weights = categories.shares[history.indices]
    size = history.n_rows * categories.width
    sums = np.bincount(cells.ravel(), weights.ravel(), minlength=size)
    found: Floats = sums.reshape(history.n_rows, -1) / np.maximum(history.counts, 1)[:, None]
    return found


class Divergence:
    """The divergence from the lists' shares to the users', while lists of some users are filled.

    With p the user's shares and q those of the list, both over the categories, it is
    sum_g p_g log(p_g / q~_g), where q~ = (1 - alpha) q + alpha p.

    Parameters
    ----------
    wanted : shape (B, C)
        p, of each user.
    columns, shares : shape (B, P, W)
        Categories of each user's pool.

    References
    ----------
    Steck 2018, "Calibrated recommendations".
    """

    def __init__(self, wanted: Floats, columns: NDArray[np.int32], shares: Floats) -> None:
        self._cells = cells_of(columns, wanted.shape[1])
        self._shares = np.ascontiguousarray(shares.transpose(2, 0, 1))
        self._wanted = wanted.ravel()
        self._wanted_there = self._wanted.take(self._cells)
        self._listed = np.zeros(self._wanted.shape)
        self._length = 0

    def values(self) -> Floats:
        """How much each item of the pools lowers it, compared with one of no category, (B, P).

        This differs from the divergence only by a constant for each user, and only the few
        categories of the item take part in it.
        """
        length = self._length + 1
        base = (1 - ALPHA) / length * self._listed + ALPHA * self._wanted
        rise = np.divide((1 - ALPHA) / length, base, out=np.zeros_like(base), where=base > 0)
        found: Floats = np.zeros(self._cells.shape[1:])
        for cells, shares, wanted in zip(
            self._cells, self._shares, self._wanted_there, strict=True
        ):
            found += wanted * np.log1p(shares * rise.take(cells))
        return found

    def take(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Item ``places[j]`` of the pool of ``users[j]`` is now listed."""
        self._listed[self._cells[:, users, places]] += self._shares[:, users, places]
        self._length += 1
