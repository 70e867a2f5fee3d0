"""SONG (Qiu et al. 2022): NDCG by stochastic compositional optimisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["SONG"]


@dataclass(frozen=True)
class SONG(Loss):
    """A surrogate of -NDCG whose rank is a mean over the user's whole list, from samples of it.

    Each like i has g_i = mean over the list of max(0, h_j - h_i + margin)^2, which N_u times is at
    least its rank where margin >= 1. The loss -sum_i G_i / (Z_u log2(1 + N_u g_i)), convex in none
    of its parts, needs g_i itself and not the sample's estimate: a moving average of the estimates
    stands in for it, one number for each observed cell.

    Estimates are stratified: i itself counts exactly, the sampled likes stand for all others, the
    sampled other items for the rest. The mean of the whole sample, as in the authors' code, counts
    likes many times too often.

    Parameters
    ----------
    decay : float, default 0.1
        Weight gamma_0 of a new estimate in the average, in (0, 1] (the paper's for MovieLens-20M).
        The first estimate of a cell is taken whole: from 0, as printed, slopes would begin
        infinite.
    margin : float, default 1.0
        c > 0 of the squared hinge.
    """

    decay: float = 0.1
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay must be in (0, 1], got {self.decay}")
        if not self.margin > 0:
            raise ValueError(f"margin must be above 0, got {self.margin}")

    def memory(self, n_cells: int, n_users: int) -> Memory:
        """Mean g of each cell; NaN until its first estimate."""
        return {"means": np.full(n_cells, np.nan)}

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        n_items = lists.n_items[:, None]
        on_likes, on_others = self._weights(lists)
        like_lead = np.maximum(likes[:, None, :] - likes[:, :, None] + self.margin, 0)
        other_lead = np.maximum(others[:, None, :] - likes[:, :, None] + self.margin, 0)
        estimates = (on_likes * like_lead**2).sum(2) + (on_others * other_lead**2).sum(2)
        places = 1 + n_items * self._averaged(lists, estimates + self.margin**2 / n_items, memory)
        drawn = lists.likes.sum(1, keepdims=True)
        worth = lists.gains / lists.ideal[:, None] * lists.n_likes[:, None] / drawn
        loss = -(worth / np.log2(places)).sum(1)
        by_mean = worth * n_items / (np.log(2) * places * np.log2(places) ** 2)
        from_likes = 2 * by_mean[:, :, None] * on_likes * like_lead
        from_others = 2 * by_mean[:, :, None] * on_others * other_lead
        up = from_likes.sum(2) + from_others.sum(2)
        return Slopes(from_likes.sum(1) - up, from_others.sum(1), loss)

    def _weights(self, lists: Lists) -> tuple[Array, Array]:
        """What each sampled item stands for in the mean of a like: (B, L, L) and (B, 1, M)."""
        n_likes, n_items = lists.n_likes[:, None], lists.n_items[:, None]
        filled = lists.likes
        beside = filled[:, None, :] & ~np.eye(filled.shape[1], dtype=bool)
        drawn = (filled.sum(1, keepdims=True) - 1).clip(1)
        on_likes = beside * ((n_likes - 1) / n_items / drawn)[:, :, None]
        on_others = (n_items - n_likes) / n_items * lists.other_shares
        return on_likes, on_others[:, None, :]

    def _averaged(self, lists: Lists, estimates: Array, memory: Memory) -> Array:
        """The moving averages with these estimates in them, kept."""
        cells, filled = lists.cells, lists.likes
        before = memory["means"][cells]
        fresh = np.isnan(before)
        average = np.where(fresh, estimates, (1 - self.decay) * before + self.decay * estimates)
        memory["means"][cells[filled]] = average[filled]
        return average
