"""Losses of whole lists: cross-entropies of a softmax, its sparse form, and ListMLE.

ListMLE is the likelihood of a ranking under the Plackett-Luce model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_count, key_of, random_units
from mfrank.losses.contract import (
    Gradients,
    Lists,
    Loss,
    Memory,
    Scores,
    Sizes,
    count_filled,
    where_filled,
)
from mfrank.losses.sums.softmax_sums import list_softmax, log_sums_so_far, softplus


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy of the gains, normalized to sum 1, and softmax(h) over the whole list."""

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        targets = lists.gains / lists.gains.sum(1, keepdims=True)
        total, on_positives, on_negatives = list_softmax(lists, positives, negatives)
        loss = total[:, 0] - (targets * positives).sum(1)
        return Gradients(on_positives - targets, on_negatives, loss)


@dataclass(frozen=True)
class SampledSoftmax(Loss):
    """Cross-entropy of each positive against sampled negatives, corrected for the sampling.

    The mean over positives i of log(exp(z_i) + sum_j exp(z_j)) - z_i, with j over negatives, z = h
    / temperature - log q, q_i = 1, and q_j the expected number of draws of j (Bengio & Senecal
    2008).

    Parameters
    ----------
    temperature : float, default 1.0
        Divides the scores, > 0.
    """

    scores: ClassVar[Scores] = "cosine"
    decomposes: ClassVar[bool] = True

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        z = negatives if self.temperature == 1 else negatives / self.temperature
        total, probabilities = lists.sums.softmax(z, lists.negatives, lists.log_expected_counts)
        lead = total - positives / self.temperature
        weights = lists.positive_weights
        missed = np.exp(-softplus(-lead))  # 1 - softmax of the positive
        by_lead = weights * missed / self.temperature
        loss = (weights * softplus(lead)).sum(1)
        probabilities *= by_lead.sum(1, keepdims=True).astype(probabilities.dtype, copy=False)
        return Gradients(-by_lead, probabilities, loss)


@dataclass(frozen=True)
class ListNet(Loss):
    """Cross-entropy of the target softmax(y) and softmax(h) over the list, y = log2(1 + gain).

    Cao et al. (2007). Negatives have y = 0, hence targets above 0. On long lists with few
    positives, the loss therefore mostly makes scores equal.
    """

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        relevance = np.log2(1 + lists.gains)
        most = relevance.max(axis=1, keepdims=True)
        powers, of_negative = np.exp(relevance - most) * lists.positives, np.exp(-most)
        denominator = powers.sum(1, keepdims=True) + of_negative * count_filled(lists.negatives)
        targets, of_negative = (
            powers / denominator,
            (of_negative / denominator).astype(negatives.dtype, copy=False),
        )
        total, on_positives, on_negatives = list_softmax(lists, positives, negatives)
        negatives = where_filled(lists.negatives, negatives)
        loss = total[:, 0] - (targets * positives).sum(1) - of_negative[:, 0] * negatives.sum(1)
        return Gradients(
            on_positives - targets, where_filled(lists.negatives, on_negatives - of_negative), loss
        )


@dataclass(frozen=True)
class ListMLE(Loss):
    """-log of the probability of drawing all positives first, in order of descending gains.

    The likelihood of a ranking under the Plackett-Luce model (Xia et al. 2008): items are drawn
    without replacement, with the probabilities softmax(h) over the remaining items. Positives with
    equal gains have no preferred order and are shuffled in every batch. Negatives have no order
    either, so their draws are left out.

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


@dataclass(frozen=True)
class Sparsemax(Loss):
    """Mean over positives i of (sum_S (h^2 - t^2) + 1) / 2 - h_i.

    Martins & Astudillo (2016): sparsemax(h) = max(h - t, 0) is the projection of the scores onto
    the simplex, and S is its support. The gradient of a negative outside S is 0. The loss is 0 if a
    list has one positive whose score exceeds all negatives by at least 1.
    """

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        scores = np.concatenate([positives, negatives], axis=1)
        tops, values, points = lists.sums.project(scores, lists.filled)
        width, targets = positives.shape[1], lists.positive_weights
        mean = (targets * np.where(lists.positives, positives - tops, 0)).sum(1)
        return Gradients(points[:, :width] - targets, points[:, width:], values - mean)
