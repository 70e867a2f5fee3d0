"""SML (Li et al. 2020): likes nearer than others, to the user and to each other, by margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero, check_at_least_zero
from mfrank.arrays import subtract_at
from mfrank.lists import Array, Lists
from mfrank.ramps import ramps
from mfrank.row_hinges import row_hinges
from mfrank.scoring import Scores
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["SML"]


@dataclass(frozen=True)
class SML(Loss):
    """Mean over pairs of two hinges, with margins of users and items that adapt.

        max(0, h_j - h_i + m_u) + item_weight max(0, s_ij - h_i + n_i) - margin_weight (m_u + n_i)

    for a liked item i and another j, where scores h of the user and s_ij of both items are negative
    squared distances, plus the biases of i and of j where items have these. So j is driven away
    from the user and, symmetrically, from i.

    The margins m_u and n_i begin at ``largest_margin`` and are remembered. In every batch each
    takes a step of its own against its derivative, after the slopes, and stays in
    [0, largest_margin]. A user's falls while more than ``margin_weight`` of the pairs are nearer
    than it, an item's while that part of its pairs, times ``item_weight``, is more.

    Parameters
    ----------
    item_weight : float, default 0.01
        lambda >= 0 (the authors' code's).
    margin_weight : float, default 0.02
        gamma >= 0, of the mean over pairs (the authors' code has 10 for the sum over 512). From 1
        on no user's margin falls, from ``item_weight`` on no item's: by default these stay.
    largest_margin : float, default 1.0
        l > 0 (the authors' code's), for distances in the unit ball.
    margin_learning_rate : float, default 0.1
        >= 0, of plain gradient descent on the margins; 0 leaves them.
    """

    scores: ClassVar[Scores] = "distance"
    remembers_users: ClassVar[bool] = True
    between: ClassVar[bool] = True

    item_weight: float = 0.01
    margin_weight: float = 0.02
    largest_margin: float = 1.0
    margin_learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check_at_least_zero(
            item_weight=self.item_weight,
            margin_weight=self.margin_weight,
            margin_learning_rate=self.margin_learning_rate,
        )
        check_above_zero(largest_margin=self.largest_margin)

    def memory(self, sizes: Sizes) -> Memory:
        """Margin of each user and of each item."""
        counts = {"user_margins": sizes.users, "item_margins": sizes.items}
        return {name: np.full(count, self.largest_margin) for name, count in counts.items()}

    def numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.numbers`."""
        return (1 + n_likes) * (n_likes + n_others)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`; each user stands in a batch once at most."""
        of_users = memory["user_margins"][lists.users][:, None].astype(likes.dtype)
        of_items = memory["item_margins"][lists.liked_items].astype(likes.dtype)
        by_likes, by_others = (
            shares.astype(likes.dtype) for shares in (lists.like_shares, lists.other_shares)
        )
        to_user = ramps("hinge", others, by_others, likes - of_users, lists.n_threads)
        near_item = row_hinges(
            lists.between,
            likes - of_items,
            self.item_weight * by_likes,
            by_others,
            lists.n_threads,
        )
        on_user, on_item = by_likes * to_user.slope_sums, near_item.slope_sums
        pairs = by_likes * by_others.sum(axis=1, keepdims=True)
        loss = (by_likes * to_user.sums + near_item.sums).sum(1)
        loss -= self.margin_weight * (pairs * (of_users + of_items)).sum(1)
        by_user = (on_user - self.margin_weight * pairs).sum(1)
        self._step(memory["user_margins"], lists.users, by_user)
        self._step(memory["item_margins"], lists.liked_items, on_item - self.margin_weight * pairs)
        return Slopes(-on_user - on_item, to_user.slopes(by_likes)[1], loss, near_item.slopes)

    def _step(self, margins: Array, rows: Array, slopes: Array) -> None:
        subtract_at(margins, rows, self.margin_learning_rate * slopes)
        margins[rows] = np.clip(margins[rows], 0, self.largest_margin)
