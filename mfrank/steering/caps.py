"""Caps on the number of items of each category in a list."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from mfrank.steering.categories import ItemCategories, cells_of

__all__ = ["Caps", "caps_of", "room_of"]


def caps_of(at_most: int | Mapping[Hashable, int], categories: ItemCategories) -> NDArray[np.int64]:
    """The cap of each category, shape (categories.width,); the largest int64 if it has none."""
    caps = np.full(categories.width, np.iinfo(np.int64).max)
    each = at_most if isinstance(at_most, Mapping) else dict.fromkeys(categories.numbers, at_most)
    for label, cap in each.items():
        caps[categories.numbers[label]] = min(cap, caps[-1])
    return caps


def room_of(caps: NDArray[np.int64], categories: ItemCategories) -> int | None:
    """The most items that a list can have, or a bound on it; None if some items have no cap."""
    sizes = np.bincount(categories.columns.ravel(), minlength=len(caps))
    capped = caps < np.iinfo(np.int64).max
    if not capped[categories.columns].any(axis=1).all():
        return None
    return int(np.minimum(caps, sizes)[capped].sum())


class Caps:
    """Room that is left in the lists of some users, while they are filled.

    Parameters
    ----------
    caps : int64, shape (C,)
    columns : int, shape (B, P, W)
        Categories of each user's pool.
    """

    def __init__(self, caps: NDArray[np.int64], columns: NDArray[np.int32]) -> None:
        self._cells = cells_of(columns, len(caps))
        self._room = np.tile(caps, len(columns))

    def allowed(self) -> NDArray[np.bool_]:
        """Which items of the pools may still be listed, shape (B, P)."""
        open_still = self._room > 0
        found: NDArray[np.bool_] = open_still.take(self._cells[0])
        for cells in self._cells[1:]:
            found &= open_still.take(cells)
        return found

    def take(self, users: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Item ``places[j]`` of the pool of ``users[j]`` is now listed."""
        self._room[self._cells[:, users, places]] -= 1
