"""K-SONG (Qiu et al. 2022): NDCG of the first K places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero, check_count
from mfrank.averages import averaged, check_decay
from mfrank.choices import check_choice
from mfrank.hinge_ranks import HingeRanks, discounted_gains
from mfrank.lists import Array, Lists, count_filled
from mfrank.logistic import sigmoid
from mfrank.squared_hinges import hinge_numbers
from mfrank.top_thresholds import top_thresholds
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["KSONG"]

_EPSILON = 0.5
"""Of the paper's lower level: at 0, as in its Eq. (6) and its code, every number between the K-th
and the next score is a minimum."""


def _sigmoid(lead: Array, steepness: float) -> tuple[Array, Array]:
    chosen = sigmoid(steepness * lead)
    return chosen, steepness * chosen * (1 - chosen)


def _hinge(lead: Array, steepness: float) -> tuple[Array, Array]:
    beyond = np.maximum(lead + 2, 0)
    return beyond, np.where(beyond > 0, 1.0, 0.0)


def _squared_hinge(lead: Array, steepness: float) -> tuple[Array, Array]:
    beyond = np.maximum(lead, 0)
    return beyond**2, 2 * beyond


_CHOICES: dict[str, Callable[[Array, float], tuple[Array, Array]]] = {
    "sigmoid": _sigmoid,
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
}
"""psi and its derivative at the lead of a like over the threshold."""


@dataclass(frozen=True)
class KSONG(Loss):
    """SONG, each like weighed by psi(h_i - t_u), by whether it is among the first K.

    t_u is near the (K+1)-th largest score of the user's whole list: the minimum over t of

        (K + 1/2) / N_u t + s_2 t^2 / 2 + mean_j s_1 log(1 + exp((h_j - t) / s_1)),

    found on each sample, by Newton's method from the last, and averaged by user.

    Parameters
    ----------
    k : int, default 10
        K; may be more than the list has items. ``lists.ideal`` is to be that of the first K places.
    theoretical : bool, default False
        Follow the scores through psi and t too (with the plus sign that the paper's Eq. (7) lacks).
        The practical version, by which the paper reports, holds psi for a constant.
    choice : {"sigmoid", "hinge", "squared_hinge"}, default "sigmoid"
        psi(x): sigmoid(steepness x), max(0, x + 2) (both LibAUC's) or max(0, x)^2 (the paper's
        text; alone of the three it is 0 behind the threshold, as the bound on NDCG@K asks).
    decay : float, default 0.1
        Weight of a new estimate in the averages of ranks, thresholds and curvatures, in (0, 1]; on
        whole lists 1 is exact and remembers only where the thresholds were.
    margin : float, default 1.0
        Of the squared hinge of the ranks.
    steepness : float, default 2.0
        Of the sigmoid psi (LibAUC's).
    smoothing_1, smoothing_2 : float, default 0.01, 0.0001
        s_1 and s_2, the paper's tau (LibAUC's values).
    """

    remembers_users: ClassVar[bool] = True

    k: int = 10
    theoretical: bool = False
    choice: str = "sigmoid"
    decay: float = 0.1
    margin: float = 1.0
    steepness: float = 2.0
    smoothing_1: float = 0.01
    smoothing_2: float = 1e-4

    def __post_init__(self) -> None:
        check_count("k", self.k, 1)
        check_decay(self.decay)
        check_choice("choice", self.choice, _CHOICES)
        check_choice("theoretical", self.theoretical, (True, False))
        check_above_zero(
            margin=self.margin,
            steepness=self.steepness,
            smoothing_1=self.smoothing_1,
            smoothing_2=self.smoothing_2,
        )

    def memory(self, sizes: Sizes) -> Memory:
        """Threshold of each user, mean g of each cell, curvatures; NaN until there is one."""
        kept = {"thresholds": np.full(sizes.users, np.nan)}
        if self.decay < 1:
            kept["means"] = np.full(sizes.cells, np.nan)
        if self.decay < 1 and self.theoretical:
            kept["curvatures"] = np.full(sizes.users, np.nan)
        return kept

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return hinge_numbers(n_likes + n_others, n_likes)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        ranks = HingeRanks.of(lists, likes, others, self.margin)
        kept = memory.get("means")
        means = averaged(kept, lists.cells, ranks.means, self.decay, lists.likes)
        gained, by_mean = discounted_gains(lists, means)
        scores = np.concatenate([likes, others], axis=1)
        weights = _weights(lists, scores)
        threshold = self._threshold(lists, scores, weights, memory)
        chosen, by_lead = _CHOICES[self.choice](likes - threshold[:, None], self.steepness)
        on_likes, on_others = ranks.slopes(chosen * by_mean)
        if self.theoretical:
            by_likes = -gained * by_lead
            follows = self._derivative(lists, scores, weights, threshold, memory)
            by_scores = -by_likes.sum(1, keepdims=True) * follows
            width = likes.shape[1]
            on_likes = on_likes + by_likes + by_scores[:, :width]
            on_others = on_others + by_scores[:, width:]
        return Slopes(on_likes, on_others, -(chosen * gained).sum(1))

    def _threshold(self, lists: Lists, scores: Array, weights: Array, memory: Memory) -> Array:
        """The averaged threshold of each user, shape (B,)."""
        kept = memory["thresholds"]
        found = top_thresholds(
            scores,
            weights,
            (self.k + _EPSILON) / lists.n_items,
            kept[lists.users],
            self.smoothing_1,
            self.smoothing_2,
            lists.n_threads,
        )
        every = np.ones_like(found, dtype=bool)
        return averaged(kept, lists.users, found, self.decay, every)

    def _derivative(
        self, lists: Lists, scores: Array, weights: Array, threshold: Array, memory: Memory
    ) -> Array:
        """Of each threshold by the scores, shape (B, L + M)."""
        above = sigmoid((scores - threshold[:, None]) / self.smoothing_1)
        bend = weights * above * (1 - above) / self.smoothing_1
        curvature = self.smoothing_2 + bend.sum(1)
        every = np.ones_like(curvature, dtype=bool)
        kept = averaged(memory.get("curvatures"), lists.users, curvature, self.decay, every)
        derivative: Array = bend / kept[:, None]
        return derivative


def _weights(lists: Lists, scores: Array) -> Array:
    """Which part of its list each place stands for, shape (B, L + M)."""
    of_like = lists.n_likes / lists.n_items
    on_likes, on_others = (
        part[:, None] / count_filled(filled).clip(1)
        for part, filled in ((of_like, lists.likes), (1 - of_like, lists.others))
    )
    return lists.weigh(on_likes, on_others, scores.dtype)
