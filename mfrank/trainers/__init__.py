"""Ranking losses: one file each, found by its name; a new one touches no other file.

A loss sees scores and nothing else. Of some users' lists (:class:`mfrank.lists.Lists`) it gives the
slopes, d loss / d score; how scores come from factors, and where the slopes go, is the engine's.
The text is numpy's and works on any library's arrays that share its interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from mfrank.lists import NOTHING, Array, Lists
from mfrank.scoring import Scores

__all__ = ["Loss", "Memory", "Sizes", "Slopes"]

Memory = dict[str, Array]
"""What a loss remembers from batch to batch, by name: arrays by observed cell, user or item."""


class Sizes(NamedTuple):
    """Numbers of observed cells, of users and of items that losses may remember something of."""

    cells: int
    users: int
    items: int


class Slopes(NamedTuple):
    """Slopes of the liked (B, L) and of the other items (B, M), and the loss of each user (B,).

    Where the loss takes ``lists.between``, slopes (B, L, M) of these too.
    """

    likes: Array
    others: Array
    loss: Array
    between: Array = NOTHING


class Loss(ABC):
    """A ranking loss, a frozen dataclass of its options.

    Attributes
    ----------
    scores : {"dot", "cosine", "distance"}
        Which scores its defaults are made for: p_u . q_i, that over the lengths of both, or
        -|p_u - q_i|^2.
    remembers_users : bool
        Whether its memory has a place for each user, who may then have but one list in a batch.
    between : bool
        Whether it takes ``lists.between`` and ``lists.liked_items``, which factors of items give.
    """

    scores: ClassVar[Scores] = "dot"
    remembers_users: ClassVar[bool] = False
    between: ClassVar[bool] = False

    def memory(self, sizes: Sizes) -> Memory:
        """What it remembers before the first batch; nothing, unless it says otherwise."""
        return {}

    def numbers(self, n_likes: int, n_others: int) -> int:
        """Size of the largest array that it makes for a list of so many places."""
        return n_likes + n_others

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """The same without the extension, which holds no ramps or soft orders of whole batches."""
        return 0

    @abstractmethod
    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """Loss of each user and its derivatives by the scores of the places.

        Parameters
        ----------
        lists : Lists
            B users with L places for liked items and M for others.
        likes, others : float, shape (B, L) and (B, M)
            Scores; finite also where a place is padding.
        memory : dict of arrays
            Of :meth:`memory`, brought up to date.
        """
