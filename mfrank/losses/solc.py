"""Stochastic listwise cross-entropy, the warm-up of SONG (Qiu et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Sizes, check_decay, count_filled
from mfrank.losses.sums.softmax_sums import list_softmax


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
