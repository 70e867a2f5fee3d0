"""SML (Li et al. 2020): metric learning with adaptive margins of users and items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_at_least_zero, subtract_at
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Scores, Sizes


@dataclass(frozen=True)
class SML(Loss):
    """Mean over pairs of a positive i and a negative j of two hinges, minus a reward for margins.

        max(0, h_j - h_i + m_u) + item_weight max(0, s_ij - h_i + n_i) - margin_weight (m_u + n_i)

    The scores h (by the user) and s_ij (of j by the positive i) are negative squared distances,
    plus the bias of the scored item if there are item biases. They push j away from the user and,
    symmetrically, from i.

    The margins m_u of users and n_i of items start at ``largest_margin``. Every batch with the user
    or item updates its margin by a step of plain gradient descent, after the gradients of the
    scores, and clips it to [0, largest_margin]. A user's margin decreases while the fraction of its
    pairs with a positive hinge exceeds ``margin_weight``, an item's while ``item_weight`` times
    that fraction does.

    Parameters
    ----------
    item_weight : float, default 0.01
        lambda >= 0. The default is from the authors' code.
    margin_weight : float, default 0.02
        gamma >= 0, for the mean over pairs (the authors' code has 10 for the sum over 512 pairs).
        If it is 1 or more, user margins never decrease; if it is ``item_weight`` or more, as by
        default, item margins never decrease.
    largest_margin : float, default 1.0
        l > 0, for factors in the unit ball. The default is from the authors' code.
    margin_learning_rate : float, default 0.1
        >= 0; with 0, margins are constant.
    """

    scores: ClassVar[Scores] = "distance"
    remembers_users: ClassVar[bool] = True
    pair_scores: ClassVar[bool] = True

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

    def largest_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_array`."""
        return (1 + n_positives) * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`; a batch has at most one list per user."""
        of_users = memory["user_margins"][lists.users][:, None].astype(positives.dtype)
        of_items = memory["item_margins"][lists.positive_items].astype(positives.dtype)
        by_positives, by_negatives = (
            weights.astype(positives.dtype)
            for weights in (lists.positive_weights, lists.negative_weights)
        )
        to_user = lists.sums.ramps("hinge", negatives, by_negatives, positives - of_users)
        near_item = lists.sums.row_hinges(
            lists.pair_scores,
            positives - of_items,
            self.item_weight * by_positives,
            by_negatives,
        )
        on_user, on_item = by_positives * to_user.slope_sums, near_item.slope_sums
        pairs = by_positives * by_negatives.sum(axis=1, keepdims=True)
        loss = (by_positives * to_user.sums + near_item.sums).sum(1)
        loss -= self.margin_weight * (pairs * (of_users + of_items)).sum(1)
        by_user = (on_user - self.margin_weight * pairs).sum(1)
        self._step(memory["user_margins"], lists.users, by_user)
        self._step(
            memory["item_margins"], lists.positive_items, on_item - self.margin_weight * pairs
        )
        return Gradients(
            -on_user - on_item, to_user.gradients(by_positives)[1], loss, near_item.gradients
        )

    def _step(self, margins: Array, rows: Array, gradients: Array) -> None:
        subtract_at(margins, rows, self.margin_learning_rate * gradients)
        margins[rows] = np.clip(margins[rows], 0, self.largest_margin)
