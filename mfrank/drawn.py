"""What a batch drew: lists of users, and the items at their places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.distinct import distinct
from mfrank.lazy import lazy
from mfrank.lists import Lists

__all__ = ["Drawn"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Lists, and the items at their places.

    Attributes
    ----------
    lists : Lists
    others : int64, shape (B, M) or (M,)
        Items at the places of others, any where padded; of one dimension those of every list, each
        once, ascending.
    users_repeat : bool
        Whether a user may have more than one of the lists.
    """

    lists: Lists
    others: Ints
    users_repeat: bool = False

    @property
    def shared(self) -> bool:
        """Whether all lists have the same others."""
        return self.others.ndim == 1

    @lazy
    def items(self) -> Ints:
        """Liked and other items of each list that has others of its own: (B, L + M)."""
        return np.concatenate([self.lists.liked_items, self.others], axis=1)

    def met(self) -> Ints:
        """Items that are in a list, ascending."""
        return distinct(np.concatenate([self.lists.liked_items.ravel(), self.others.ravel()]))
