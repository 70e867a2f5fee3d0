"""Metrics that read the training data: of novelty, diversity, and of relevance without popularity.

Each has one value per user. In the formulas, L is the first k items of a user's list, n the number
of users with training data, and n_i the number of users who had item i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, check_powers
from mfrank.evaluation.inputs import KnownLists
from mfrank.evaluation.judgements import JudgedLists
from mfrank.evaluation.metrics import NDCG, Floats, KnownMetric, ListMetric

_ALPHA = 0.01
_MOST_EXPONENT = 4
"""Of a propensity: beyond it, an item of two users hardly counts beside one of one user."""


@dataclass(frozen=True, kw_only=True, repr=False)
class _Novelty(KnownMetric):
    """Mean over L of -log2(n_i / n): the surprise, in bits, that a random user has the item.

    The self-information of Zhou et al. (2010); Vargas & Castells (2011). An item that nobody had
    counts as if one user had it.
    """

    name = "Novelty"

    def per_user(self, lists: KnownLists) -> Floats:
        known = lists.known
        counts = np.maximum(known.item_counts, 1)
        bits = np.append(np.log2(max(known.n_users, 1)) - np.log2(counts), 0.0)  # at -1, the end
        surprise: Floats = bits[lists.ids].sum(axis=1)
        return surprise / np.maximum(lists.lengths, 1)


@dataclass(frozen=True, kw_only=True, repr=False)
class _IntraListSimilarity(KnownMetric):
    """Mean over pairs i, j of L of n_ij / sqrt(n_i n_j), with n_ij the users who had both.

    The intra-list similarity of Ziegler et al. (2005), as a mean of cosines between the items'
    users: 0 if no user had two of the items, 1 if all items had the same users. Lower is more
    diverse. Lists of fewer than two items do not count.
    """

    name = "IntraListSimilarity"
    least = 2

    def per_user(self, lists: KnownLists) -> Floats:
        pairs = np.maximum(lists.lengths * (lists.lengths - 1), 1)
        mean: Floats = lists.known.cosines(lists.ids) / pairs
        return mean


@dataclass(frozen=True, kw_only=True, repr=False)
class _Serendipity(KnownMetric):
    """Relevant items of L that are not in the list of the most popular items, divided by k.

    Ge et al. (2010): useful items that a primitive model does not list. The primitive model lists
    the k most popular items that the user did not have in training (or any items, if the lists do
    not exclude training items); ties by lower item row.
    """

    name = "Serendipity"
    least = 0

    def per_user(self, lists: KnownLists) -> Floats:
        known, k = lists.known, self.k
        order = np.argsort(-known.item_counts, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        useful = np.zeros(len(lists.users))
        for part, rows in lists.portions():
            ids = lists.ids[part]
            ranks = rank[ids]
            if known.excluded:
                ranks = ranks - _had_above(rows, rank, ranks)
            hits = (lists.relevance[part] > 0) & (ids >= 0)
            useful[part] = np.count_nonzero(hits & (ranks >= k), axis=1)
        return useful / k


@dataclass(frozen=True, kw_only=True, repr=False)
class _Miscalibration(KnownMetric):
    """Kullback-Leibler divergence of the groups of L from the groups of the user's training items.

    Sum over groups g of p_g log(p_g / ((1 - a) q_g + a p_g)), with p_g and q_g the fractions of
    group g among the user's training items and in L, and a = 0.01 (Steck 2018). It is 0 if all
    fractions agree. Groups are the ``item_groups`` of ``evaluate``, such as genres; by default
    thirds by popularity (Abdollahpouri et al. 2021). Items without a group, and users or lists
    without any item in a group, do not count.
    """

    name = "Miscalibration"

    def per_user(self, lists: KnownLists) -> Floats:
        divergence: Floats = np.zeros(len(lists.users))
        for part, p, q in _fractions(lists):
            mixed = (1 - _ALPHA) * q + _ALPHA * p
            ratio = np.where(p > 0, p, 1.0) / np.where(p > 0, mixed, 1.0)
            divergence[part] = (p * np.log(ratio)).sum(axis=1)
        return np.where(self.weights(lists) > 0, divergence, 0.0)

    def weights(self, lists: KnownLists) -> Floats:
        weights = np.zeros(len(lists.users))
        for part, p, q in _fractions(lists):
            weights[part] = p.any(axis=1) & q.any(axis=1)
        return weights


@dataclass(frozen=True, kw_only=True, repr=False)
class UnbiasedMetric(ListMetric):
    """Relevance without the favor of popular items: a relevant item i counts 1 / max(n_i, 1)^e.

    Popular items are met more often, so they are over-represented among the test items. If an item
    is met with a probability, its propensity, that grows as n_i^e, these weights undo that. A user
    counts as much as the mean weight of the user's relevant items, so the whole is self-normalized:
    the weighted sum of what is found, divided by that of what there is. With ``exponent`` e = 0 it
    is the metric without "Unbiased".

    Yang et al. (2018, "Unbiased offline recommender evaluation for missing-not-at-random implicit
    feedback") derive e = (g + 1) / 2 for items that are shown in proportion to n_i^g. The default
    0.5 is that of Saito et al. (2020, "Unbiased recommender learning from missing-not-at-random
    implicit feedback"). A larger e rests on fewer, rarer items, so its standard error is larger.
    """

    exponent: float = 0.5

    def __post_init__(self) -> None:
        check_powers(_MOST_EXPONENT, exponent=self.exponent)
        object.__setattr__(self, "exponent", float(self.exponent))

    def relevance_of(self, relevant: CSR, item_counts: Floats | NDArray[np.int64] | None) -> CSR:
        """The weights of the relevant items."""
        assert item_counts is not None
        weights = np.maximum(item_counts[relevant.indices], 1.0) ** -self.exponent
        return replace(relevant, data=weights)

    def weights(self, lists: JudgedLists) -> Floats:
        """The mean weight of each user's relevant items."""
        return lists.total / lists.n_relevant


@dataclass(frozen=True, kw_only=True, repr=False)
class _UnbiasedRecall(UnbiasedMetric):
    """Sum of the weights of the hits, divided by the sum over all relevant items.

    The weights, and users' weights in the mean, are of :class:`mfrank.evaluation.UnbiasedMetric`,
    as are the sources.
    """

    name = "UnbiasedRecall"
    cutoff_rule = "needed"

    def per_user(self, lists: JudgedLists) -> Floats:
        weights: Floats = lists.relevance[:, : self.cutoff].sum(axis=1)
        return weights / lists.total


@dataclass(frozen=True, kw_only=True, repr=False)
class _UnbiasedNDCG(UnbiasedMetric):
    """NDCG whose gain is the weight: divided by the list of relevant items, rarest first.

    The weights, and users' weights in the mean, are of :class:`mfrank.evaluation.UnbiasedMetric`,
    as are the sources.
    """

    name = "UnbiasedNDCG"

    def per_user(self, lists: JudgedLists) -> Floats:
        linear = NDCG(gain="linear")
        return (linear if self.cutoff is None else linear @ self.cutoff).per_user(lists)


Novelty = _Novelty()
IntraListSimilarity = _IntraListSimilarity()
Serendipity = _Serendipity()
Miscalibration = _Miscalibration()
UnbiasedRecall = _UnbiasedRecall()
UnbiasedNDCG = _UnbiasedNDCG()


def _had_above(rows: CSR, rank: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of a user's training items that are more popular than each listed item."""
    users = np.arange(rows.n_rows)
    had = np.sort(np.repeat(users, rows.counts) * rows.n_columns + rank[rows.indices])
    above = np.searchsorted(had, users[:, None] * rows.n_columns + ranks)
    return above - rows.indptr[:-1, None]


def _fractions(lists: KnownLists) -> Iterator[tuple[slice, Floats, Floats]]:
    """By blocks of users: fraction of each group among their training items and in their lists."""
    groups = lists.known.groups
    for part, rows in lists.portions():
        users = np.repeat(np.arange(rows.n_rows), rows.counts)
        had = _counted(users, groups.of_rows[rows.indices], rows.n_rows, len(groups.names))
        places, ranks = np.nonzero(lists.ids[part] >= 0)
        listed = groups.of_rows[lists.ids[part][places, ranks]]
        yield part, had, _counted(places, listed, rows.n_rows, len(groups.names))


def _counted(
    users: NDArray[np.int64], groups: NDArray[np.int64], n_users: int, n_groups: int
) -> Floats:
    """Fraction of each group among a user's entries, shape (U, G); 0 if none has a group."""
    there = groups >= 0
    cells = users[there] * n_groups + groups[there]
    counts = np.bincount(cells, minlength=n_users * n_groups).reshape(n_users, n_groups)
    fractions: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return fractions
