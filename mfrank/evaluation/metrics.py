"""A metric is a value: ``NDCG @ 10``, ``Recall(capped=True) @ 20``.

Each name is a metric without a cutoff, over the whole ranking. ``@`` gives it a cutoff, a call
gives it options. Metrics are frozen, hashable, and equal where they mean the same. The formulas
use k, the cutoff, and n, the number of the user's relevant items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mfrank.evaluation.judgements import JudgedLists, Standings
from mfrank.evaluation.kinds import CatalogueMetric, Floats, ListMetric, Metric, RankingMetric

__all__ = [
    "ALL",
    "AUC",
    "AUPRC",
    "MAP",
    "MRR",
    "NDCG",
    "Coverage",
    "Gini",
    "HitRate",
    "LimitedAUC",
    "Precision",
    "Recall",
]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Precision(ListMetric):
    """Hits / k, also where a list or the catalogue is shorter than k (trec_eval's P)."""

    name = "Precision"
    cutoff_rule = "needed"

    def per_user(self, lists: JudgedLists) -> Floats:
        return lists.n_hits(self.k) / self.k


@dataclass(frozen=True, kw_only=True, repr=False)
class _Recall(ListMetric):
    """Hits / n, with n the user's relevant items (trec_eval's recall).

    ``capped`` divides by min(k, n) instead, so that 1 can be reached; ``micro`` weighs users by
    that denominator: sum of hits / sum of denominators. Capped and micro is what ``implicit``
    calls precision.
    """

    name = "Recall"
    cutoff_rule = "needed"
    capped: bool = False
    micro: bool = False

    def per_user(self, lists: JudgedLists) -> Floats:
        return lists.n_hits(self.cutoff) / _n_relevant(lists, self.cutoff if self.capped else None)

    def weights(self, lists: JudgedLists) -> Floats:
        if self.micro:
            return _n_relevant(lists, self.cutoff if self.capped else None).astype(np.float64)
        return super().weights(lists)


@dataclass(frozen=True, kw_only=True, repr=False)
class _HitRate(ListMetric):
    """1 if any of the first k is relevant, else 0 (trec_eval's success)."""

    name = "HitRate"
    cutoff_rule = "needed"

    def per_user(self, lists: JudgedLists) -> Floats:
        return (lists.n_hits(self.cutoff) > 0).astype(np.float64)


@dataclass(frozen=True, kw_only=True, repr=False)
class _MRR(ListMetric):
    """1 / rank of the first relevant item, 0 if there is none (trec_eval's recip_rank)."""

    name = "MRR"

    def per_user(self, lists: JudgedLists) -> Floats:
        hits = lists.hits(self.cutoff)
        first = hits & (_hits_so_far(hits) == 1)
        reciprocal: Floats = (first / _ranks(hits)).sum(axis=1)
        return reciprocal


@dataclass(frozen=True, kw_only=True, repr=False)
class _MAP(ListMetric):
    """Sum over the hits' ranks i <= k of hits among the first i / i, over n (trec_eval's map_cut).

    ``capped`` divides by min(k, n) instead of n, as ``implicit`` and Kaggle do.
    """

    name = "MAP"
    capped: bool = False

    def per_user(self, lists: JudgedLists) -> Floats:
        hits = lists.hits(self.cutoff)
        precisions: Floats = (hits * _hits_so_far(hits) / _ranks(hits)).sum(axis=1)
        return precisions / _n_relevant(lists, self.cutoff if self.capped else None)


@dataclass(frozen=True, kw_only=True, repr=False)
class _NDCG(ListMetric):
    """Sum over ranks i <= k of gain_i / log2(i + 1), over the same sum of the best list there is.

    ``gain`` of relevance r: "binary" 1 if r > 0; "linear" r (trec_eval's ndcg_cut);
    "exponential" 2^r - 1 (Burges et al. 2005).
    """

    name = "NDCG"
    gain: Literal["binary", "linear", "exponential"] = "binary"

    def __post_init__(self) -> None:
        if self.gain not in ("binary", "linear", "exponential"):
            raise ValueError(f"gain must be binary, linear or exponential; got {self.gain!r}")

    def per_user(self, lists: JudgedLists) -> Floats:
        highest = lists.ideal[:, :1]
        return self._dcg(lists.relevance, highest) / self._dcg(lists.ideal, highest)

    def _dcg(self, relevance: Floats, highest: Floats) -> Floats:
        first = relevance[:, : self.cutoff]
        if self.gain == "exponential":  # over 2^highest, which cancels and cannot overflow
            gains = np.exp2(first - highest) - np.exp2(-highest)
        else:
            gains = first if self.gain == "linear" else (first > 0).astype(np.float64)
        discounted: Floats = (gains / np.log2(_ranks(gains) + 1)).sum(axis=1)
        return discounted


@dataclass(frozen=True, kw_only=True, repr=False)
class _LimitedAUC(ListMetric):
    """AUC where the order beyond rank k is not known: the rest counts as randomly mixed.

    As ``implicit`` computes it: every item that is not relevant is a negative, the filtered train
    items too. A user whose every item is relevant gets 1.
    """

    name = "LimitedAUC"
    cutoff_rule = "needed"

    def per_user(self, lists: JudgedLists) -> Floats:
        hits = lists.hits(self.cutoff)
        n_hits = lists.n_hits(self.cutoff)
        n_misses = hits.shape[1] - n_hits
        listed: Floats = (_hits_so_far(hits) * ~hits).sum(axis=1)
        n_negative = lists.n_items - lists.n_relevant
        rest = (n_hits + lists.n_relevant) / 2 * (n_negative - n_misses)
        pairs = lists.n_relevant * n_negative
        return np.where(pairs > 0, (listed + rest) / np.maximum(pairs, 1), 1.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class _AUC(RankingMetric):
    """Share of (relevant, other) candidate pairs ranked rightly, ties half; 1 if no other is."""

    name = "AUC"

    def per_user(self, standings: Standings) -> Floats:
        above = standings.above - standings.relevant_above
        tied = standings.tied - standings.relevant_tied
        others = standings.per_entry(standings.n_candidates - standings.n_relevant)
        below = others - above - tied
        share = np.where(others > 0, (below + tied / 2) / np.maximum(others, 1), 1.0)
        return standings.mean(share)


@dataclass(frozen=True, kw_only=True, repr=False)
class _AUPRC(RankingMetric):
    """Area under precision-recall: sum over thresholds t of (recall_t - recall before) precision_t.

    Each distinct score is one threshold, so tied items enter together, whatever their order
    (scikit-learn's average_precision_score). Without ties it is ``MAP``.
    """

    name = "AUPRC"

    def per_user(self, standings: Standings) -> Floats:
        hits = standings.relevant_above + standings.relevant_tied
        return standings.mean(hits / (standings.above + standings.tied))


@dataclass(frozen=True, kw_only=True, repr=False)
class _Coverage(CatalogueMetric):
    """Share of the catalogue that stands in somebody's first k; NaN if all lists are empty."""

    name = "Coverage"

    def of(self, counts: NDArray[np.int64]) -> float:
        return float((counts > 0).mean()) if counts.any() else float("nan")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Gini(CatalogueMetric):
    """Gini index of how often each item stands in a list: 0 all alike, (N - 1) / N one item only.

    Items that nobody is shown count with 0. NaN if all lists are empty.
    """

    name = "Gini"

    def of(self, counts: NDArray[np.int64]) -> float:
        n, total = len(counts), counts.sum()
        weights = 2 * np.arange(1, n + 1) - n - 1
        return float(weights @ np.sort(counts) / (n * total)) if total else float("nan")


Precision = _Precision()
Recall = _Recall()
HitRate = _HitRate()
MRR = _MRR()
MAP = _MAP()
NDCG = _NDCG()
LimitedAUC = _LimitedAUC()
AUC = _AUC()
AUPRC = _AUPRC()
Coverage = _Coverage()
Gini = _Gini()

ALL: tuple[Metric, ...] = (
    Precision, Recall, HitRate, MRR, MAP, NDCG, LimitedAUC, AUC, AUPRC, Coverage, Gini,
)  # fmt: skip


def _ranks(lists: NDArray[np.bool_] | Floats) -> NDArray[np.int64]:
    return np.arange(1, lists.shape[1] + 1, like=lists)


def _hits_so_far(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.cumsum(hits, axis=1, dtype=np.int64)


def _n_relevant(lists: JudgedLists, cap: int | None) -> NDArray[np.int64]:
    return lists.n_relevant if cap is None else np.minimum(lists.n_relevant, cap)
