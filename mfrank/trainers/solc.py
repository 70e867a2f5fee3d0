"""Stochastic list-wise cross-entropy, with which SONG (Qiu et al. 2022) warms up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.logistic import log_sum_exp
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["SOLC"]


@dataclass(frozen=True)
class SOLC(Loss):
    """Mean over likes of log sum_j exp(h_j) - h_i over the whole list, from samples of it.

    The sum is the same for all likes of a user: a moving average of its estimates, in logarithms,
    is kept for each user (the paper keeps one for each observed cell; on whole lists they agree).
    Estimates are stratified: likes and others each stand for all of their kind. The paper's
    Algorithm 3 leaves out the factor exp(h_j - h_i) of the slopes; here it is.

    Parameters
    ----------
    decay : float, default 0.1
        Weight of a new estimate, in (0, 1]; the first of a user is taken whole.
    """

    decay: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay must be in (0, 1], got {self.decay}")

    def memory(self, n_cells: int, n_users: int) -> Memory:
        """Log of each user's sum; NaN until its first estimate."""
        return {"log_sums": np.full(n_users, np.nan)}

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        filled = np.concatenate([lists.likes, lists.others], axis=1)
        stand_for = np.concatenate(
            [
                lists.like_shares * lists.n_likes[:, None],
                lists.other_shares * (lists.n_items - lists.n_likes)[:, None],
            ],
            axis=1,
        )
        scores = np.concatenate([likes, others], axis=1)
        logs = scores + np.log(np.where(stand_for > 0, stand_for, 1))
        counted = filled & (stand_for > 0)
        total = self._averaged(lists, log_sum_exp(logs, counted)[:, 0], memory)
        slope = counted * np.exp(np.where(counted, logs - total[:, None], 0))
        width, targets = likes.shape[1], lists.like_shares
        loss = total - (targets * likes).sum(1)
        return Slopes(slope[:, :width] - targets, slope[:, width:], loss)

    def _averaged(self, lists: Lists, estimates: Array, memory: Memory) -> Array:
        """The moving averages with these estimates in them, kept."""
        before = memory["log_sums"][lists.users]
        known = np.where(np.isnan(before), estimates, before)
        with np.errstate(divide="ignore"):  # log 0 where nothing old is kept
            old, new = np.log1p(-self.decay), np.log(self.decay)
        average: Array = np.logaddexp(old + known, new + estimates)
        memory["log_sums"][lists.users] = average
        return average
