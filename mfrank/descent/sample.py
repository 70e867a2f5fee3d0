"""The lists that a batch draws, and their items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.distinct import distinct
from mfrank.arrays.lazy import lazy
from mfrank.losses import Lists

__all__ = ["Drawn"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Lists of a batch, and their negative items; ``lists.positive_items`` has the positives.

    Attributes
    ----------
    lists : Lists
    negatives : int64, shape (B, M) or (M,)
        Rows of the negative items, arbitrary for padding. With one dimension they are shared by all
        lists: distinct and ascending.
    users_repeat : bool
        Whether several lists may belong to the same user.
    """

    lists: Lists
    negatives: Ints
    users_repeat: bool = False

    @property
    def shared(self) -> bool:
        """Whether all lists share the same negatives."""
        return self.negatives.ndim == 1

    @lazy
    def items(self) -> Ints:
        """Positives, then negatives of each list, shape (B, L + M); not for shared negatives."""
        return np.concatenate([self.lists.positive_items, self.negatives], axis=1)

    def distinct_items(self) -> Ints:
        """Items of all lists, each once, ascending."""
        return distinct(np.concatenate([self.lists.positive_items.ravel(), self.negatives.ravel()]))
