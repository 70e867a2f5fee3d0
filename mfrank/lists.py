"""What a ranking loss sees of some users: items they like beside items they were not seen to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["NOTHING", "Array", "Lists", "count_filled", "where_filled"]

Array = NDArray[Any]
"""An array of numpy or of any library with numpy's interface."""

NOTHING: Array = np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """For each of B users up to L liked and up to M other items, of all or a sample of each.

    A place that is not filled is padding: no loss looks at its score, and its slope is 0.

    Attributes
    ----------
    gains : float, shape (B, L)
        What a liked item is worth, > 0 (1, or 2^relevance - 1); 0 marks padding.
    others : bool, shape (B, M)
        Whether the place of an other item is filled.
    n_likes, n_items : float, shape (B,)
        Liked items and all items of the whole list that these were drawn from, N_u+ and N_u.
    ideal : float, shape (B,)
        Largest discounted gain of the whole list, Z_u = sum_r G_(r) / log2(1 + r).
    cells : int64, shape (B, L)
        Number of the observed cell of each like, by which losses remember it; -1 for padding.
    users : int64, shape (B,)
        Rows of the users.
    log_chances : float, shape (B, M), optional
        Log of the expected number of times each other item was drawn; None where all are there.
    liked_items : int64, shape (B, L)
        Rows of the liked items, any for padding; empty where items are none of a fixed set.
    between : float, shape (B, L, M)
        Scores of likes, as if they were users, against others; empty where no loss takes them.
    n_threads : int, default 1
        That sums over the lists may take; 0 is every core this process may use.
    """

    gains: Array
    others: Array
    n_likes: Array
    n_items: Array
    ideal: Array
    cells: Array
    users: Array
    log_chances: Array | None = None
    liked_items: Array = field(default_factory=lambda: NOTHING)
    between: Array = field(default_factory=lambda: NOTHING)
    n_threads: int = 1

    @property
    def likes(self) -> Array:
        """Whether the place of a liked item is filled, bool, shape (B, L)."""
        return self.gains > 0

    @property
    def filled(self) -> Array:
        """Whether a place is filled, likes first, bool, shape (B, L + M)."""
        return np.concatenate([self.likes, self.others], axis=1)

    @property
    def like_shares(self) -> Array:
        """Part of its user's liked places that each like is, shape (B, L); 0 for padding."""
        return _shares(self.likes)

    @property
    def other_shares(self) -> Array:
        """Part of its user's other places that each other item is, shape (B, M)."""
        return _shares(self.others)

    def weigh(self, of_likes: Array, of_others: Array, dtype: DTypeLike = np.float64) -> Array:
        """Numbers of each list (B, 1) at its likes and at its others, shape (B, L + M)."""
        (size, width), n_others = self.gains.shape, self.others.shape[1]
        weights = np.empty((size, width + n_others), dtype, like=self.gains)
        weights[:, :width] = where_filled(self.likes, of_likes)
        weights[:, width:] = where_filled(self.others, of_others)
        return weights


def count_filled(filled: Array) -> Array:
    """How many places of each list are filled, float, shape (B, 1)."""
    if not _may_pad(filled):
        return np.full_like(filled, filled.shape[1], dtype=np.float64, shape=(len(filled), 1))
    counts: Array = filled.sum(axis=1, keepdims=True).astype(np.float64)
    return counts


def where_filled(filled: Array, numbers: Array) -> Array:
    """The numbers, which broadcast, but 0 for padding; themselves where none is found."""
    return numbers * filled if _may_pad(filled) else numbers


def _may_pad(filled: Array) -> bool:
    """Whether a place may be padding: on the host, whether one is, which is soon found out.

    On a GPU to look is to wait for it, which takes longer than what padding costs.
    """
    return not (isinstance(filled, np.ndarray) and filled.all())


def _shares(filled: Array) -> Array:
    return np.broadcast_to(where_filled(filled, 1 / count_filled(filled).clip(1)), filled.shape)
