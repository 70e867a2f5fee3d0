"""Binary cross-entropy: a liked item scores above 0, another below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array, Lists
from mfrank.ramps import ramps
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["BCE"]


@dataclass(frozen=True)
class BCE(Loss):
    """Mean of log(1 + exp(-h_i)) over liked items plus that of log(1 + exp(h_j)) over others."""

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        one = np.ones_like(likes, shape=(len(likes), 1))
        above = ramps("softplus", others, lists.other_shares, 0 * one, lists.n_threads)
        below = ramps("softplus", -likes, lists.like_shares, 0 * one, lists.n_threads)
        loss = below.sums[:, 0] + above.sums[:, 0]
        return Slopes(-below.slopes(one)[1], above.slopes(one)[1], loss)
