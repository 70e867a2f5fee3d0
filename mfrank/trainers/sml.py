"""SML (Li et al. 2020): likes nearer than others, to the user and to each other, by margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero, check_at_least_zero
from mfrank.arrays import subtract_at
from mfrank.lists import Array, Lists
from mfrank.scoring import Scores
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["SML"]


@dataclass(frozen=True)
class SML(Loss):
    """Mean over pairs of two hinges, with margins of users and items that adapt.

        max(0, h_j - h_i + m_u) + item_weight max(0, s_ij - h_i + n_i) - margin_weight (m_u + n_i)

    for a liked item i and another j, where scores h of the user and s_ij of both items are negative
    squared distances. So j is driven away from the user and, symmetrically, from i.

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
        return n_likes * n_others

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`; each user stands in a batch once at most."""
        of_users = memory["user_margins"][lists.users]
        of_items = memory["item_margins"][lists.liked_items]
        pairs = lists.like_shares[:, :, None] * lists.other_shares[:, None, :]
        near_user = others[:, None, :] - likes[:, :, None] + of_users[:, None, None]
        near_item = lists.between - likes[:, :, None] + of_items[:, :, None]
        on_user = pairs * (near_user > 0)
        on_item = self.item_weight * pairs * (near_item > 0)
        margins = of_users[:, None, None] + of_items[:, :, None]
        loss = on_user * near_user + on_item * near_item - self.margin_weight * pairs * margins
        floor = self.margin_weight * pairs.sum(2)
        self._step(memory["user_margins"], lists.users, (on_user.sum(2) - floor).sum(1))
        self._step(memory["item_margins"], lists.liked_items, on_item.sum(2) - floor)
        on_likes = -(on_user + on_item).sum(2)
        return Slopes(on_likes, on_user.sum(1), loss.sum((1, 2)), on_item)

    def _step(self, margins: Array, rows: Array, slopes: Array) -> None:
        subtract_at(margins, rows, self.margin_learning_rate * slopes)
        margins[rows] = np.clip(margins[rows], 0, self.largest_margin)
