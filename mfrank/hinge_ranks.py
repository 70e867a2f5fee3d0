"""Smooth ranks of liked items: the mean over the list of a squared hinge, from samples of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists

__all__ = ["HingeRanks"]


@dataclass(frozen=True, slots=True, eq=False)
class HingeRanks:
    """Of each like i, g_i = mean over the list of max(0, h_j - h_i + margin)^2.

    N_u g_i is at least the rank of i where margin >= 1, and never below margin^2. Estimates are
    stratified: i itself counts exactly, the sampled likes stand for all other likes, the sampled
    other items for the rest. The mean of the whole sample, as in the authors' code, counts likes
    many times too often.

    Attributes
    ----------
    on_likes, on_others : shape (B, L, L) and (B, 1, M)
        What an item of the sample stands for in the mean of a like.
    like_leads, other_leads : shape (B, L, L) and (B, L, M)
        max(0, h_j - h_i + margin).
    means : shape (B, L)
        The estimates of g.
    """

    on_likes: Array
    on_others: Array
    like_leads: Array
    other_leads: Array
    means: Array

    @classmethod
    def of(cls, lists: Lists, likes: Array, others: Array, margin: float) -> HingeRanks:
        """Estimate from scores."""
        n_likes, n_items = lists.n_likes[:, None], lists.n_items[:, None]
        filled = lists.likes
        beside = filled[:, None, :] & ~np.eye(filled.shape[1], dtype=bool)
        drawn = (filled.sum(1, keepdims=True) - 1).clip(1)
        on_likes = beside * ((n_likes - 1) / n_items / drawn)[:, :, None]
        on_others = ((n_items - n_likes) / n_items * lists.other_shares)[:, None, :]
        like_leads = np.maximum(likes[:, None, :] - likes[:, :, None] + margin, 0)
        other_leads = np.maximum(others[:, None, :] - likes[:, :, None] + margin, 0)
        means = (on_likes * like_leads**2).sum(2) + (on_others * other_leads**2).sum(2)
        return cls(on_likes, on_others, like_leads, other_leads, means + margin**2 / n_items)

    def slopes(self, by_mean: Array) -> tuple[Array, Array]:
        """Slopes of likes and others from those of the means."""
        from_likes = 2 * by_mean[:, :, None] * self.on_likes * self.like_leads
        from_others = 2 * by_mean[:, :, None] * self.on_others * self.other_leads
        up = from_likes.sum(2) + from_others.sum(2)
        return from_likes.sum(1) - up, from_others.sum(1)
