"""What a batch drew: lists of users, and the items at their places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.lists import Lists

__all__ = ["Drawn"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Lists, and the items at their places.

    Attributes
    ----------
    lists : Lists
    items : int64, shape (B, L + M), or (B, L)
        Liked items, then others unless all lists share them; any where padded.
    shared : int64, shape (M,), optional
        The others of every list, each once, ascending.
    users_repeat : bool
        Whether a user may have more than one of the lists.
    """

    lists: Lists
    items: Ints
    shared: Ints | None = None
    users_repeat: bool = False

    @property
    def others(self) -> Ints:
        """Items at the places of others, shape (B, M), or (M,) where they are shared."""
        return self.items[:, self.lists.gains.shape[1] :] if self.shared is None else self.shared

    def met(self) -> Ints:
        """Items that are in a list, ascending."""
        return np.unique(self.items) if self.shared is None else np.union1d(self.items, self.shared)
