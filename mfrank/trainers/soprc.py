"""SOPRC (Wen et al. 2022): the area under the precision-recall curve, whatever is sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero, check_at_least_zero, check_count
from mfrank.averages import averaged, check_decay
from mfrank.lists import Array, Lists, count_filled
from mfrank.quantiles import quantiles
from mfrank.scoring import Scores
from mfrank.squared_hinges import hinge_numbers, squared_hinges
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["SOPRC"]


@dataclass(frozen=True)
class SOPRC(Loss):
    """Mean over likes of r_i / (1 + r_i), an upper bound of 1 - AUPRC, and a semi-variance.

        r_i = (N_u - N_u+) / N_u+  a_i / b_i
        a_i = mean over others j of l1(h_i - h_j)            false positive rate at h_i
        b_i = (1 + sum over v_m of l2(h_i - v_m)) / (V + 1)  true positive rate at h_i

    with l1(x) = max(0, 1 - x / hinge)^2, a line for x < 0, and l2(x) = tanh(-x / (2 smoothing)) for
    x < 0, else 0. The prior N_u+ / N_u is that of the whole list: a sample's would bias the loss.
    v are order statistics of the scores of the user's likes, held for constants.

    Where the paper's equations and its authors' code differ (its Eq. (7) jumps at 0, its Eq. (8)
    lacks the + 1), this is the code's.

    Parameters
    ----------
    hinge, smoothing : float, default 0.1, 0.001
        tau_1 and tau_2, the paper's, for cosine scores.
    order_statistics : int, optional
        V of them kept for each user, moving averages over the samples; by default those of the
        likes at hand, exact where all of a user's are.
    decay : float, default 0.1
        Weight of new ones in the average, in (0, 1].
    spread_of_likes, spread_of_others : float, default 1, 5
        Weights of mean max(0, mean - h)^2 over likes and of mean max(0, h - mean)^2 over others,
        the paper's.
    """

    remembers_users: ClassVar[bool] = True

    scores: ClassVar[Scores] = "cosine"

    hinge: float = 0.1
    smoothing: float = 0.001
    order_statistics: int | None = None
    decay: float = 0.1
    spread_of_likes: float = 1.0
    spread_of_others: float = 5.0

    def __post_init__(self) -> None:
        check_above_zero(hinge=self.hinge, smoothing=self.smoothing)
        check_at_least_zero(
            spread_of_likes=self.spread_of_likes, spread_of_others=self.spread_of_others
        )
        if self.order_statistics is not None:
            check_count("order_statistics", self.order_statistics, 1)
        check_decay(self.decay)

    def memory(self, sizes: Sizes) -> Memory:
        """Order statistics of each user's likes, NaN until the first, where they are averaged."""
        if self.order_statistics is None:
            return {}
        return {"order_statistics": np.full((sizes.users, self.order_statistics), np.nan)}

    def numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.numbers`."""
        return n_likes * (self.order_statistics or n_likes) + n_others

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`."""
        return hinge_numbers(n_others, 2 * n_likes)

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        width, square = likes.shape[1], self.hinge**2
        # l1 is one squared hinge less another, a hinge apart: [x + hinge]^2 - [x]^2.
        above = np.where(lists.likes, likes, np.inf)
        thresholds = np.concatenate([above - self.hinge, above], axis=1)
        hinges = squared_hinges(others, lists.other_shares, thresholds, lists.n_threads)
        false_rate = (hinges.sums[:, :width] - hinges.sums[:, width:]) / square
        true_rate, by_like = self._true_rate(lists, likes, memory)
        odds = ((lists.n_items - lists.n_likes) / lists.n_likes)[:, None]
        total = odds * false_rate + true_rate
        weights = lists.like_shares
        by_false = weights * odds * true_rate / total**2
        by_true = -weights * odds * false_rate / total**2
        by_sums = np.concatenate([by_false, -by_false], axis=1) / square
        by_thresholds, on_others = hinges.slopes(by_sums)
        on_likes = by_thresholds[:, :width] + by_thresholds[:, width:]
        below, spread_below = _semi_variance(likes, lists.like_shares, -1, self.spread_of_likes)
        ahead, spread_above = _semi_variance(others, lists.other_shares, 1, self.spread_of_others)
        loss = (weights * odds * false_rate / total).sum(1) + spread_below + spread_above
        return Slopes(on_likes + by_true * by_like + below, on_others + ahead, loss)

    def _true_rate(self, lists: Lists, likes: Array, memory: Memory) -> tuple[Array, Array]:
        """b_i and its derivative by h_i, both (B, L)."""
        if self.order_statistics is None:
            levels, there = likes, lists.likes
        else:
            found = quantiles(likes, lists.likes, self.order_statistics)
            there = np.ones_like(found, dtype=bool)
            kept = memory["order_statistics"]
            levels = averaged(kept, lists.users, found, self.decay, there[:, 0])
        x = (likes[:, :, None] - levels[:, None, :]) / (2 * self.smoothing)
        counted = there[:, None, :] & (x < 0)
        tanh = np.where(counted, np.tanh(x), 0)
        slope = counted * (tanh**2 - 1) / (2 * self.smoothing)
        size = 1 + count_filled(there)
        return (1 - tanh.sum(2)) / size, slope.sum(2) / size


def _semi_variance(scores: Array, shares: Array, sign: int, weight: float) -> tuple[Array, Array]:
    """Slopes and value (B,) of weight mean max(0, sign (h - mean h))^2, the mean followed too."""
    shares = shares.astype(scores.dtype)
    mean = np.einsum("bn,bn->b", shares, scores)[:, None]
    beyond = np.maximum(sign * (scores - mean), 0)
    counted = shares * beyond
    slopes: Array = 2 * weight * sign * (counted - counted.sum(1, keepdims=True) * shares)
    return slopes, weight * np.einsum("bn,bn->b", counted, beyond)
