"""ListMLE (Xia et al. 2008): likelihood of a ranking under the Plackett-Luce model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, check_count, key_of, random_units
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Sizes
from mfrank.losses.sums.softmax_sums import log_sums_so_far


@dataclass(frozen=True)
class ListMLE(Loss):
    """-log of the probability of drawing all positives first, in order of descending gains.

    Items are drawn without replacement, with the probabilities softmax(h) over the remaining items.
    Positives with equal gains have no preferred order and are shuffled in every batch. Negatives
    have no order either, so their draws are left out.

    Parameters
    ----------
    random_state : int, default 0
        Seed >= 0 of the shuffling.
    """

    random_state: int = 0

    def __post_init__(self) -> None:
        check_count("random_state", self.random_state, 0)

    def memory(self, sizes: Sizes) -> Memory:
        """Number of batches so far: part of the random key of each batch."""
        return {"batches": np.zeros(1, dtype=np.int64)}

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        key = key_of(self.random_state, int(memory["batches"][0]))
        memory["batches"] += 1
        places = np.arange(lists.gains.size, like=lists.gains).reshape(lists.gains.shape)
        shuffled = places[:, :1] + np.argsort(random_units(key, places), axis=1, kind="stable")
        by_gain = np.argsort(-np.take(lists.gains, shuffled), axis=1, kind="stable")
        order = np.take(shuffled, places[:, :1] + by_gain)  # into the flattened arrays
        filled = np.take(lists.positives, order)
        scores = np.where(filled, np.take(positives, order), -np.inf)
        # Log of the softmax's denominator at each draw: positives not drawn yet, all negatives.
        rest, of_negatives = lists.sums.softmax(negatives, lists.negatives)
        left = np.logaddexp(log_sums_so_far(scores[:, ::-1])[:, ::-1], rest)
        loss = np.where(filled, left - np.where(filled, scores, 0), 0).sum(1)
        # An item is in the denominators up to its own draw: log of the sum of 1 / denominator.
        inverses = log_sums_so_far(np.where(filled, -left, -np.inf))
        ordered = np.where(filled, np.exp(np.minimum(scores + inverses, 700)) - 1, 0)
        on_positives = np.empty(positives.size, positives.dtype, like=positives)
        on_positives[order] = ordered
        drawn_before = np.exp(np.minimum(rest + inverses[:, -1:], 700)).astype(of_negatives.dtype)
        return Gradients(on_positives.reshape(positives.shape), of_negatives * drawn_before, loss)
