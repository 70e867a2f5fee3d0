"""SOPRC (Wen et al. 2022): the area under the precision-recall curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import (
    Array,
    changed,
    check_above_zero,
    check_at_least_zero,
    check_count,
    contracted,
    tell_idle,
)
from mfrank.losses.contract import (
    Gradients,
    Lists,
    Loss,
    Memory,
    Scores,
    Sizes,
    averaged,
    check_decay,
    count_filled,
)
from mfrank.losses.sums.ramps import largest_hinge_array


@dataclass(frozen=True)
class SOPRC(Loss):
    """Mean over positives of r_i / (1 + r_i), an upper bound on 1 - AUPRC, plus semi-variances.

        r_i = (N_u - N_u+) / N_u+  a_i / b_i
        a_i = mean over negatives j of l1(h_i - h_j)         false positive rate at h_i
        b_i = (1 + sum over v_m of l2(h_i - v_m)) / (V + 1)  true positive rate at h_i

    with l1(x) = max(0, 1 - x / hinge)^2 for x >= 0, continued by its tangent for x < 0, and l2(x) =
    tanh(-x / (2 smoothing)) for x < 0, else 0. N_u+ and N_u count the complete list, because a
    sample's fraction of positives would bias the loss. v are order statistics of the scores of the
    user's positives, treated as constants.

    If the paper's equations and the authors' code differ (Eq. (7) jumps at 0, Eq. (8) lacks the +
    1), this follows the code.

    Parameters
    ----------
    hinge, smoothing : float, default 0.1, 0.001
        The paper's tau_1 and tau_2 > 0, and its values for cosine scores.
    order_statistics : int, optional
        V, the number of order statistics stored for each user, as moving averages over samples. By
        default, v are the scores of the positives in the list, which is exact if the list has all
        of the user's positives.
    decay : float, default 0.1
        Weight of new order statistics in the averages, in (0, 1].
    spread_of_positives, spread_of_negatives : float, default 1, 5
        Weights >= 0 of the semi-variances, which are the means of max(0, mean h - h)^2 over
        positives and of max(0, h - mean h)^2 over negatives. The defaults are the paper's.
    """

    remembers_users: ClassVar[bool] = True

    scores: ClassVar[Scores] = "cosine"

    hinge: float = 0.1
    smoothing: float = 0.001
    order_statistics: int | None = None
    decay: float = 0.1
    spread_of_positives: float = 1.0
    spread_of_negatives: float = 5.0

    def __post_init__(self) -> None:
        check_above_zero(hinge=self.hinge, smoothing=self.smoothing)
        check_at_least_zero(
            spread_of_positives=self.spread_of_positives,
            spread_of_negatives=self.spread_of_negatives,
        )
        if self.order_statistics is not None:
            check_count("order_statistics", self.order_statistics, 1)
        check_decay(self.decay)
        if self.order_statistics is None and changed(self, "decay"):
            tell_idle(
                "`decay` has no effect, as no order statistics are kept:",
                "leave it out, or set `order_statistics`",
            )

    def memory(self, sizes: Sizes) -> Memory:
        """Averaged order statistics of each user, NaN before the first; by default nothing."""
        if self.order_statistics is None:
            return {}
        return {"order_statistics": np.full((sizes.users, self.order_statistics), np.nan)}

    def largest_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_array`."""
        return n_positives * (self.order_statistics or n_positives) + n_negatives

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return largest_hinge_array(n_negatives, 2 * n_positives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        width, square = positives.shape[1], self.hinge**2
        # l1(-x) is a difference of squared hinges: (max(0, x + hinge)^2 - max(0, x)^2) / hinge^2.
        above = np.where(lists.positives, positives, np.inf)
        thresholds = np.concatenate([above - self.hinge, above], axis=1)
        hinges = lists.sums.squared_hinges(negatives, lists.negative_weights, thresholds)
        false_rate = (hinges.sums[:, :width] - hinges.sums[:, width:]) / square
        true_rate, by_positive = self._true_rate(lists, positives, memory)
        odds = ((lists.n_items - lists.n_positives) / lists.n_positives)[:, None]
        total = odds * false_rate + true_rate
        weights = lists.positive_weights
        by_false = weights * odds * true_rate / total**2
        by_true = -weights * odds * false_rate / total**2
        by_sums = np.concatenate([by_false, -by_false], axis=1) / square
        by_thresholds, on_negatives = hinges.gradients(by_sums)
        on_positives = by_thresholds[:, :width] + by_thresholds[:, width:]
        below, spread_below = _semi_variance(
            positives, lists.positive_weights, -1, self.spread_of_positives
        )
        ahead, spread_above = _semi_variance(
            negatives, lists.negative_weights, 1, self.spread_of_negatives
        )
        loss = (weights * odds * false_rate / total).sum(1) + spread_below + spread_above
        return Gradients(on_positives + by_true * by_positive + below, on_negatives + ahead, loss)

    def _true_rate(self, lists: Lists, positives: Array, memory: Memory) -> tuple[Array, Array]:
        """b_i and its derivative with respect to h_i, both (B, L)."""
        if self.order_statistics is None:
            levels, there = positives, lists.positives
        else:
            estimates = quantiles(positives, lists.positives, self.order_statistics)
            there = np.ones_like(estimates, dtype=bool)
            averages = memory["order_statistics"]
            levels = averaged(averages, lists.users, estimates, self.decay, there[:, 0])
        x = (positives[:, :, None] - levels[:, None, :]) / (2 * self.smoothing)
        counted = there[:, None, :] & (x < 0)
        tanh = np.where(counted, np.tanh(x), 0)
        slope = counted * (tanh**2 - 1) / (2 * self.smoothing)
        size = 1 + count_filled(there)
        return (1 - tanh.sum(2)) / size, slope.sum(2) / size


def _semi_variance(scores: Array, means: Array, sign: int, weight: float) -> tuple[Array, Array]:
    """Gradients (B, N) and value (B,) of weight mean max(0, sign (h - mean h))^2.

    ``means``: weights of the mean, 0 for padding. The gradients include those through mean h.
    """
    means = means.astype(scores.dtype)
    mean = contracted("bn,bn->b", means, scores)[:, None]
    beyond = np.maximum(sign * (scores - mean), 0)
    counted = means * beyond
    gradients: Array = 2 * weight * sign * (counted - counted.sum(1, keepdims=True) * means)
    return gradients, weight * contracted("bn,bn->b", counted, beyond)


def quantiles(values: Array, filled: Array, count: int) -> Array:
    """``count`` ascending quantiles of the filled values of each row, shape (B, count).

    The i-th smallest of n values is the quantile at (i - 1/2) / n, with linear interpolation in
    between and linear extrapolation at the ends. So n = count returns the sorted values, and equal
    values return that value; the SOPRC paper's Algorithm 2 as printed does neither.
    """
    n = filled.sum(axis=1, keepdims=True)
    ascending = np.sort(np.where(filled, values, np.inf), axis=1)
    place = (np.arange(count, like=values) + 0.5) / count * n - 0.5
    left = np.clip(np.floor(place), 0, np.maximum(n - 2, 0)).astype(np.int64)
    right = np.minimum(left + 1, np.maximum(n - 1, 0))
    low, high = (np.take_along_axis(ascending, at, axis=1) for at in (left, right))
    interpolated: Array = low + (place - left) * (high - low)
    return interpolated
