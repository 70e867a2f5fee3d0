"""SONG, K-SONG and their warm-up SOLC (Qiu et al. 2022): stochastic compositional optimization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import (
    Array,
    changed,
    check_above_zero,
    check_choice,
    check_count,
    check_flags,
    tell_idle,
)
from mfrank.losses.contract import (
    Gradients,
    Lists,
    Loss,
    Memory,
    Sizes,
    averaged,
    check_decay,
    count_filled,
)
from mfrank.losses.sums.ramps import HingeRanks, discounted_gains, largest_hinge_array
from mfrank.losses.sums.softmax_sums import list_softmax, sigmoid


@dataclass(frozen=True)
class SONG(Loss):
    """-sum_i G_i / (Z_u log2(1 + N_u g_i)) over positives i: a lower bound on NDCG, negated.

    N_u g_i is the smooth rank of :class:`mfrank.losses.sums.ramps.HingeRanks` (the bound requires
    ``margin`` >= 1). With an estimate of g_i from a single sample, the logarithm would be biased,
    so a moving average of the estimates is stored for each observed cell. Complete lists need no
    average: with ``decay=1``, the loss is exact, needs no memory, and takes O(N log N) time per
    user.

    Parameters
    ----------
    decay : float, default 0.1
        Weight gamma_0 of a new estimate in the average, in (0, 1]. The default is the paper's for
        MovieLens-20M.
    margin : float, default 1.0
        c > 0 of the squared hinge.
    pooled : bool, default False
        Estimate g by the plain mean over the sample, as in the authors' code. Positives, which
        score high, are a far larger fraction of the sample than of the list, so these ranks are too
        large, and the error grows as the model improves.
    from_zero : bool, default False
        Start the averages at 0, as in the authors' code (and in the paper's Algorithm 1, with
        infinite first gradients). After v updates, an average is too small by a factor 1 - (1 -
        decay)^v, so gradients of rarely visited cells are many times too large.
    """

    decay: float = 0.1
    margin: float = 1.0
    pooled: bool = False
    from_zero: bool = False

    def __post_init__(self) -> None:
        check_decay(self.decay)
        check_above_zero(margin=self.margin)
        check_flags(pooled=self.pooled)
        check_flags(from_zero=self.from_zero)
        if self.from_zero and self.decay == 1:
            tell_idle("`from_zero` has no effect, as `decay=1` keeps no averages:", "leave it out")

    def memory(self, sizes: Sizes) -> Memory:
        """Mean g of each cell, NaN before the first estimate; nothing for a decay of 1."""
        if self.decay == 1:
            return {}
        return {"means": np.full(sizes.cells, 0.0 if self.from_zero else np.nan)}

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return largest_hinge_array(n_positives + n_negatives, n_positives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        ranks = HingeRanks.of(lists, positives, negatives, self.margin, self.pooled)
        means = averaged(memory.get("means"), lists.cells, ranks.means, self.decay, lists.positives)
        gained, by_mean = discounted_gains(lists, means)
        return Gradients(*ranks.gradients(by_mean), -gained.sum(1))


_EPSILON = 0.5
"""Added to K in the lower-level problem. With 0, as in the paper's Eq. (6) and code, every number
between the K-th and the (K+1)-th score minimizes it."""


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
"""psi and psi', as functions of h_i - t_u and the steepness."""


@dataclass(frozen=True)
class KSONG(Loss):
    """SONG with each positive weighted by psi(h_i - t_u), which selects the first K positions.

    t_u is close to the (K+1)-th largest score of the user's complete list. It minimizes over t

        (K + 1/2) / N_u t + s_2 t^2 / 2 + mean_j s_1 log(1 + exp((h_j - t) / s_1)),

    with the number N_u of items. Newton's method solves this on each sample, starting from the
    user's last threshold; a moving average of the solutions is stored for each user.

    Parameters
    ----------
    k : int, default 10
        K; may exceed the number of items.
    theoretical : bool, default False
        Also differentiate through psi and t (with the plus sign that the paper's Eq. (7) lacks).
        The practical version, used for the paper's results, treats psi as a constant.
    choice : {"sigmoid", "hinge", "squared_hinge"}, default "sigmoid"
        psi(x): sigmoid(steepness x) or max(0, x + 2), both from LibAUC, or max(0, x)^2, from the
        paper's text. Only the last is 0 below the threshold, which the bound on NDCG@K requires.
    decay : float, default 0.1
        Weight of a new estimate in the moving averages of ranks, thresholds and curvatures, in (0,
        1]. On complete lists, 1 is exact, and only the last thresholds are stored.
    margin : float, default 1.0
        c > 0 of the squared hinge, as in :class:`mfrank.SONG`.
    steepness : float, default 2.0
        > 0, of the sigmoid psi. The default is from LibAUC.
    smoothing_1, smoothing_2 : float, default 0.01, 0.0001
        s_1 and s_2 > 0, the paper's tau_1 and tau_2. The defaults are from LibAUC.
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
        check_flags(theoretical=self.theoretical)
        check_above_zero(
            margin=self.margin,
            steepness=self.steepness,
            smoothing_1=self.smoothing_1,
            smoothing_2=self.smoothing_2,
        )
        if self.choice != "sigmoid" and changed(self, "steepness"):
            tell_idle(
                f"`steepness` has no effect on `choice={self.choice!r}`:",
                "leave it out, or use `choice='sigmoid'`",
            )

    @property
    def cutoff(self) -> int:
        """See :attr:`mfrank.losses.Loss.cutoff`."""
        return self.k

    def memory(self, sizes: Sizes) -> Memory:
        """Thresholds and curvatures by user, mean g by cell; NaN before the first estimate."""
        memory = {"thresholds": np.full(sizes.users, np.nan)}
        if self.decay < 1:
            memory["means"] = np.full(sizes.cells, np.nan)
        if self.decay < 1 and self.theoretical:
            memory["curvatures"] = np.full(sizes.users, np.nan)
        return memory

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return largest_hinge_array(n_positives + n_negatives, n_positives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        ranks = HingeRanks.of(lists, positives, negatives, self.margin)
        means = averaged(memory.get("means"), lists.cells, ranks.means, self.decay, lists.positives)
        gained, by_mean = discounted_gains(lists, means)
        scores = np.concatenate([positives, negatives], axis=1)
        weights = _weights(lists, scores)
        threshold = self._threshold(lists, scores, weights, memory)
        chosen, by_lead = _CHOICES[self.choice](positives - threshold[:, None], self.steepness)
        on_positives, on_negatives = ranks.gradients(chosen * by_mean)
        if self.theoretical:
            by_positives = -gained * by_lead
            by_threshold = self._derivative(lists, scores, weights, threshold, memory)
            by_scores = -by_positives.sum(1, keepdims=True) * by_threshold
            width = positives.shape[1]
            on_positives = on_positives + by_positives + by_scores[:, :width]
            on_negatives = on_negatives + by_scores[:, width:]
        return Gradients(on_positives, on_negatives, -(chosen * gained).sum(1))

    def _threshold(self, lists: Lists, scores: Array, weights: Array, memory: Memory) -> Array:
        """Moving average of each user's threshold, shape (B,)."""
        averages = memory["thresholds"]
        thresholds = lists.sums.top_thresholds(
            scores,
            weights,
            (self.k + _EPSILON) / lists.n_items,
            averages[lists.users],
            self.smoothing_1,
            self.smoothing_2,
        )
        every = np.ones_like(thresholds, dtype=bool)
        return averaged(averages, lists.users, thresholds, self.decay, every)

    def _derivative(
        self, lists: Lists, scores: Array, weights: Array, threshold: Array, memory: Memory
    ) -> Array:
        """Derivatives of each threshold with respect to the scores, shape (B, L + M)."""
        above = sigmoid((scores - threshold[:, None]) / self.smoothing_1)
        bend = weights * above * (1 - above) / self.smoothing_1
        curvature = self.smoothing_2 + bend.sum(1)
        every = np.ones_like(curvature, dtype=bool)
        average = averaged(memory.get("curvatures"), lists.users, curvature, self.decay, every)
        derivative: Array = bend / average[:, None]
        return derivative


def _weights(lists: Lists, scores: Array) -> Array:
    """Weights of a mean over the complete list, estimated from the sample, shape (B, L + M)."""
    fraction = lists.n_positives / lists.n_items
    on_positives, on_negatives = (
        part[:, None] / count_filled(filled).clip(1)
        for part, filled in ((fraction, lists.positives), (1 - fraction, lists.negatives))
    )
    return lists.weigh(on_positives, on_negatives, scores.dtype)


@dataclass(frozen=True)
class SOLC(Loss):
    """Mean over positives of log sum_j exp(h_j) - h_i, where the sum over all items is estimated.

    The sum is the same for all positives of a user; the log of a moving average of its estimates is
    stored for each user. The paper instead stores an average u_i of sum_j exp(h_j - h_i) for each
    observed cell. With constant scores, the two differ only by the factor exp(-h_i). When h_i
    changes, u_i lags behind; the user's sum does not have h_i as a factor, and every batch with the
    user updates it, whichever positives were sampled. Estimates are stratified: sampled positives
    represent all positives, sampled negatives all negatives. The gradients contain the factor
    exp(h_j - h_i), which the paper's Algorithm 3 omits.

    Parameters
    ----------
    decay : float, default 0.1
        Weight of a new estimate, in (0, 1]. A user's first estimate has weight 1. On complete
        lists, a decay of 1 is exact and needs no memory.
    """

    remembers_users: ClassVar[bool] = True

    decay: float = 0.1

    def __post_init__(self) -> None:
        check_decay(self.decay)

    def memory(self, sizes: Sizes) -> Memory:
        """Log of each user's sum, NaN before the first estimate; nothing for a decay of 1."""
        return {} if self.decay == 1 else {"log_sums": np.full(sizes.users, np.nan)}

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        n_negatives = lists.n_items - lists.n_positives
        with np.errstate(divide="ignore"):  # log(0) if a user has no negatives
            logs = (
                np.log(count[:, None] / count_filled(filled).clip(1))
                for count, filled in (
                    (lists.n_positives, lists.positives),
                    (n_negatives, lists.negatives),
                )
            )
            now, on_positives, on_negatives = list_softmax(lists, positives, negatives, *logs)
        total = self._averaged(lists, now[:, 0], memory)
        ratio = np.exp(now - total[:, None]).astype(on_negatives.dtype, copy=False)
        targets = lists.positive_weights
        loss = total - (targets * positives).sum(1)
        return Gradients(ratio * on_positives - targets, ratio * on_negatives, loss)

    def _averaged(self, lists: Lists, estimates: Array, memory: Memory) -> Array:
        """Update the moving averages in memory by these estimates, and return them."""
        if self.decay == 1:
            return estimates
        stored = memory["log_sums"][lists.users]
        before = np.where(np.isnan(stored), estimates, stored)
        old, new = np.log1p(-self.decay), np.log(self.decay)
        average: Array = np.logaddexp(old + before, new + estimates)
        memory["log_sums"][lists.users] = average
        return average
