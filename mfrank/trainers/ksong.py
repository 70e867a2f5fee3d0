"""K-SONG (Qiu et al. 2022): NDCG of the first K places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mfrank.averages import averaged
from mfrank.hinge_ranks import HingeRanks
from mfrank.lists import Array, Lists
from mfrank.logistic import sigmoid
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["KSONG"]

_EPSILON = 0.5
"""Of the paper's lower level: at 0, as in its Eq. (6) and its code, every number between the K-th
and the next score is a minimum."""
_HALVINGS = 60


@dataclass(frozen=True)
class KSONG(Loss):
    """SONG, each like weighed by whether it is among the first K, sigmoid(steepness (h_i - t_u)).

    t_u is near the (K+1)-th largest score of the user's whole list: the minimum over t of

        (K + 1/2) / N_u t + s_2 t^2 / 2 + mean_j s_1 log(1 + exp((h_j - t) / s_1)),

    found on each sample and averaged by user.

    Parameters
    ----------
    k : int, default 10
        K. ``lists.ideal`` is to be that of the first K places.
    theoretical : bool, default False
        Follow the scores through psi and t too (with the plus sign that the paper's Eq. (7) lacks).
        The practical version, by which the paper reports, holds psi for a constant.
    decay : float, default 0.1
        Weight of a new estimate in the averages of ranks, thresholds and curvatures, in (0, 1].
    margin : float, default 1.0
        Of the squared hinge.
    steepness : float, default 2.0
        Of the weight psi (LibAUC's).
    smoothing_1, smoothing_2 : float, default 0.01, 0.0001
        s_1 and s_2, the paper's tau (LibAUC's values).
    """

    k: int = 10
    theoretical: bool = False
    decay: float = 0.1
    margin: float = 1.0
    steepness: float = 2.0
    smoothing_1: float = 0.01
    smoothing_2: float = 1e-4

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay must be in (0, 1], got {self.decay}")
        for name in ("margin", "steepness", "smoothing_1", "smoothing_2"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")

    def memory(self, n_cells: int, n_users: int) -> Memory:
        """Mean g of each cell, threshold and curvature of each user; NaN until there is one."""
        return {
            "means": np.full(n_cells, np.nan),
            "thresholds": np.full(n_users, np.nan),
            "curvatures": np.full(n_users, np.nan),
        }

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        ranks = HingeRanks.of(lists, likes, others, self.margin)
        filled, n_items = lists.likes, lists.n_items[:, None]
        means = averaged(memory["means"], lists.cells, ranks.means, self.decay, filled)
        threshold = self._threshold(lists, likes, others, memory)
        chosen = sigmoid(self.steepness * (likes - threshold.place[:, None]))
        places = 1 + n_items * means
        # The sampled likes stand for all.
        worth = lists.gains / lists.ideal[:, None] * lists.like_shares * lists.n_likes[:, None]
        gained = worth / np.log2(places)
        by_mean = chosen * worth * n_items / (np.log(2) * places * np.log2(places) ** 2)
        on_likes, on_others = ranks.slopes(by_mean)
        if self.theoretical:
            by_lead = -gained * self.steepness * chosen * (1 - chosen)
            by_threshold = -by_lead.sum(1, keepdims=True)
            on_likes = on_likes + by_lead + by_threshold * threshold.by_likes
            on_others = on_others + by_threshold * threshold.by_others
        return Slopes(on_likes, on_others, -(chosen * gained).sum(1))

    def _threshold(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> _Threshold:
        """The averaged thresholds, and how they follow the scores."""
        width = likes.shape[1]
        scores = np.concatenate([likes, others], axis=1)
        on_likes = lists.like_shares * lists.n_likes[:, None]
        on_others = lists.other_shares * (lists.n_items - lists.n_likes)[:, None]
        weights = np.concatenate([on_likes, on_others], axis=1) / lists.n_items[:, None]
        found = self._minimum(scores, weights, lists.n_items)
        every = np.ones(len(found), dtype=bool)
        kept = averaged(memory["thresholds"], lists.users, found, self.decay, every)
        above = sigmoid((scores - kept[:, None]) / self.smoothing_1)
        bend = weights * above * (1 - above) / self.smoothing_1
        curvature = averaged(
            memory["curvatures"],
            lists.users,
            self.smoothing_2 + bend.sum(1),
            self.decay,
            every,
        )
        by_scores = bend / curvature[:, None]
        return _Threshold(kept, by_scores[:, :width], by_scores[:, width:])

    def _minimum(self, scores: Array, weights: Array, n_items: Array) -> Array:
        """Where the lower level's slope is 0, by bisection: it rises with t."""
        share = (self.k + _EPSILON) / n_items
        there = np.where(weights > 0, scores, 0)
        # Beyond every score the slope is share + smoothing_2 t > 0; low enough it is below 0.
        high = np.maximum(there.max(1), 0) + 40 * self.smoothing_1
        low = np.minimum(there.min(1) - 40 * self.smoothing_1, -(share + 1) / self.smoothing_2)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = sigmoid((scores - middle[:, None]) / self.smoothing_1)
            rising = share + self.smoothing_2 * middle - (weights * above).sum(1) > 0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        minimum: Array = (low + high) / 2
        return minimum


class _Threshold(NamedTuple):
    """Threshold of each user (B,), and its derivatives by likes (B, L) and others (B, M)."""

    place: Array
    by_likes: Array
    by_others: Array
