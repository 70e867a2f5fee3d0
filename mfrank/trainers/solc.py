"""Stochastic list-wise cross-entropy, with which SONG (Qiu et al. 2022) warms up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.averages import check_decay
from mfrank.lists import Array, Lists, count_filled
from mfrank.shares import list_shares
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["SOLC"]


@dataclass(frozen=True)
class SOLC(Loss):
    """Mean over likes of log sum_j exp(h_j) - h_i over the whole list, from samples of it.

    The sum is the same for all likes of a user: a moving average of its estimates, in logarithms,
    is kept for each user. The paper keeps one for each observed cell, u_i of sum_j exp(h_j - h_i),
    which is exp(-h_i) times it. As long as scores stand still the two agree; when h_i moves, u_i
    lags behind and the user's sum does not, and it is fresh after every visit of its user, of
    whatever likes the sample was. Estimates are stratified: likes and others each stand for all of
    their kind. The paper's Algorithm 3 leaves out the factor exp(h_j - h_i) of the slopes; here it
    is.

    Parameters
    ----------
    decay : float, default 0.1
        Weight of a new estimate, in (0, 1]; the first of a user is taken whole. On whole lists 1 is
        exact, and remembers nothing.
    """

    remembers_users: ClassVar[bool] = True

    decay: float = 0.1

    def __post_init__(self) -> None:
        check_decay(self.decay)

    def memory(self, sizes: Sizes) -> Memory:
        """Log of each user's sum, NaN until its first estimate; nothing for a decay of 1."""
        return {} if self.decay == 1 else {"log_sums": np.full(sizes.users, np.nan)}

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        n_others = lists.n_items - lists.n_likes
        with np.errstate(divide="ignore"):  # of a user who likes all
            logs = (
                np.log(whole[:, None] / count_filled(drawn).clip(1))
                for whole, drawn in ((lists.n_likes, lists.likes), (n_others, lists.others))
            )
            now, on_likes, on_others = list_shares(lists, likes, others, *logs)
        total = self._averaged(lists, now[:, 0], memory)
        ahead = np.exp(now - total[:, None]).astype(on_others.dtype, copy=False)
        targets = lists.like_shares
        loss = total - (targets * likes).sum(1)
        return Slopes(ahead * on_likes - targets, ahead * on_others, loss)

    def _averaged(self, lists: Lists, estimates: Array, memory: Memory) -> Array:
        """The moving averages with these estimates in them, kept."""
        if self.decay == 1:
            return estimates
        before = memory["log_sums"][lists.users]
        known = np.where(np.isnan(before), estimates, before)
        old, new = np.log1p(-self.decay), np.log(self.decay)
        average: Array = np.logaddexp(old + known, new + estimates)
        memory["log_sums"][lists.users] = average
        return average
