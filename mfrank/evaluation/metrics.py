"""Ranking metrics as values, ``NDCG @ 10``, ``Recall(capped=True) @ 20``, and their base classes.

``@`` sets the cutoff; a call sets options. A cutoff is optional for MRR, MAP and NDCG, which cover
the whole ranking without one; AUC and AUPRC have none; all other metrics need one. Metrics are
frozen, hashable, and equal if name, options and cutoff are. In the formulas, k is the cutoff and n
the number of the user's relevant items.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, shown
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation.inputs import KnownLists
from mfrank.evaluation.judgements import JudgedLists, Standings

# Base classes of metrics: frozen values with a cutoff and options, of three kinds.


Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Base of all metrics: a name, options, and a cutoff.

    Attributes
    ----------
    cutoff : int or None
        Number of top ranks that count; None counts all.
    """

    name: ClassVar[str]
    cutoff_rule: ClassVar[Literal["optional", "needed", "none"]] = "optional"
    cutoff: int | None = None

    @property
    def k(self) -> int:
        """The cutoff of a metric that needs one; raises ValueError if it is missing."""
        if self.cutoff is None:
            raise InputValueError(f"{self.name} needs a cutoff:", f"write `{self.name} @ 10`")
        return self.cutoff

    def depth(self, n_items: int) -> int:
        """Number of ranks that the metric reads, given a catalog of ``n_items``."""
        if self.cutoff is None and self.cutoff_rule != "needed":
            return n_items
        return min(self.k, n_items)

    def __matmul__(self, cutoff: int) -> Self:
        if self.cutoff_rule == "none":
            raise InputValueError(
                f"{self.name} reads the whole ranking and takes no cutoff",
                f"write {self.name.lower()}",
            )
        if isinstance(cutoff, bool) or not isinstance(cutoff, int | np.integer):
            raise InputTypeError(
                f"a `cutoff` must be an integer, as in `{self.name} @ 10`; got {shown(cutoff)}"
            )
        if not 1 <= cutoff < 2**31:
            bound = "at least 1" if cutoff < 1 else "at most 2^31 - 1"
            raise InputValueError(
                f"a `cutoff` must be {bound}; got `{self.name} @ {shown(cutoff)}`"
            )
        return replace(self, cutoff=int(cutoff))

    def __call__(self, **options: bool | str | float) -> Self:
        """Return this metric with other options; the class of the metric documents them."""
        known = {field.name for field in fields(self)} - {"cutoff"}
        if unknown := set(options) - known:
            offer = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise InputTypeError(f"{self.name} has no option {', '.join(sorted(unknown))}", offer)
        for option, value in options.items():
            if isinstance(getattr(self, option), bool) and not isinstance(value, bool):
                raise InputTypeError(
                    f"{self.name}'s `{option}` must be True or False; got {shown(value)}"
                )
        return replace(self, **options)  # type: ignore[arg-type]

    def __str__(self) -> str:
        options = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if field.name != "cutoff" and getattr(self, field.name) != field.default
        ]
        return (
            self.name
            + (f"({', '.join(options)})" if options else "")
            + ("" if self.cutoff is None else f"@{self.cutoff}")
        )

    __repr__ = __str__


class ListMetric(Metric):
    """One value per user, from the top ranks of the user's list."""

    def relevance_of(self, relevant: CSR, item_counts: Floats | NDArray[np.int64] | None) -> CSR:
        """What the relevant items of some users count; by default, what they are given with.

        ``item_counts`` is the number of users of each item in training, shape (n_items,).
        """
        return relevant

    def per_user(self, lists: JudgedLists) -> Floats:
        """Values, float64, shape (U,)."""
        raise NotImplementedError

    def weights(self, lists: JudgedLists) -> Floats:
        """Each user's weight in the mean, float64, shape (U,)."""
        return np.ones_like(lists.n_relevant, dtype=np.float64)


class RankingMetric(Metric):
    """One value per user, from the scores of all candidates; ties are treated exactly."""

    cutoff_rule = "none"

    def per_user(self, standings: Standings) -> Floats:
        """Values, float64, shape (U,)."""
        raise NotImplementedError


class CatalogMetric(Metric):
    """One value for all users, from the number of lists with each item, relevant or not."""

    cutoff_rule = "needed"

    def of(self, counts: NDArray[np.int64]) -> float:
        """Value, given the number of lists that contain each item, shape (N,)."""
        raise NotImplementedError


class KnownMetric(Metric):
    """One value per user, from listed items and training items.

    It is computed on the host.

    Attributes
    ----------
    least : int
        Minimum length of a list that counts.
    """

    cutoff_rule = "needed"
    least: ClassVar[int] = 1

    def per_user(self, lists: KnownLists) -> Floats:
        """Values, float64, shape (U,); finite, also where the weight is 0."""
        raise NotImplementedError

    def weights(self, lists: KnownLists) -> Floats:
        """Each user's weight in the mean, float64, shape (U,)."""
        return (lists.lengths >= self.least).astype(np.float64)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Precision(ListMetric):
    """Hits / k, even if a list or the catalog is shorter than k (trec_eval's P)."""

    name = "Precision"
    cutoff_rule = "needed"

    def per_user(self, lists: JudgedLists) -> Floats:
        return lists.n_hits(self.k) / self.k


@dataclass(frozen=True, kw_only=True, repr=False)
class _Recall(ListMetric):
    """Hits / n (trec_eval's recall).

    ``capped`` divides by min(k, n) instead, so that 1 can be reached; ``micro`` weights users by
    the denominator: sum of hits / sum of denominators. ``implicit`` calls capped micro recall
    "precision".
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
    """Sum over hits at ranks i <= k of (hits up to i) / i, divided by n (trec_eval's map_cut).

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
    """Sum over ranks i <= k of gain_i / log2(i + 1), divided by the sum of the ideal list.

    ``gain`` of an item of relevance r: "binary" is 1 if r > 0; "linear" is r (trec_eval's
    ndcg_cut); "exponential" is 2^r - 1 (Burges et al. 2005).
    """

    name = "NDCG"
    gain: Literal["binary", "linear", "exponential"] = "binary"

    def __post_init__(self) -> None:
        if self.gain not in ("binary", "linear", "exponential"):
            raise InputValueError(
                f"`gain` must be binary, linear or exponential; got {shown(self.gain)}"
            )

    def per_user(self, lists: JudgedLists) -> Floats:
        highest = lists.ideal[:, :1]
        return self._dcg(lists.relevance, highest) / self._dcg(lists.ideal, highest)

    def _dcg(self, relevance: Floats, highest: Floats) -> Floats:
        first = relevance[:, : self.cutoff]
        if self.gain == "exponential":  # times 2^-highest: it cancels, and prevents overflow
            gains = np.exp2(first - highest) - np.exp2(-highest)
        else:
            gains = first if self.gain == "linear" else (first > 0).astype(np.float64)
        discounted: Floats = (gains / np.log2(_ranks(gains) + 1)).sum(axis=1)
        return discounted


@dataclass(frozen=True, kw_only=True, repr=False)
class _LimitedAUC(ListMetric):
    """AUC as if the items beyond rank k were in random order.

    As in ``implicit``, every item that is not relevant is a negative, including the filtered train
    items. The value is 1 if all items are relevant.
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
    """Fraction of (relevant, negative) candidate pairs in the right order; ties count half.

    The value is 1 if all candidates are relevant.
    """

    name = "AUC"

    def per_user(self, standings: Standings) -> Floats:
        above = standings.above - standings.relevant_above
        tied = standings.tied - standings.relevant_tied
        negatives = standings.per_entry(standings.n_candidates - standings.n_relevant)
        below = negatives - above - tied
        fraction = np.where(negatives > 0, (below + tied / 2) / np.maximum(negatives, 1), 1.0)
        return standings.mean(fraction)


@dataclass(frozen=True, kw_only=True, repr=False)
class _AUPRC(RankingMetric):
    """Area under the precision-recall curve: sum over thresholds t of (R_t - R_{t-1}) P_t.

    Each distinct score is one threshold, so tied items enter together (scikit-learn's
    average_precision_score). Without ties it equals ``MAP``.
    """

    name = "AUPRC"

    def per_user(self, standings: Standings) -> Floats:
        hits = standings.relevant_above + standings.relevant_tied
        return standings.mean(hits / (standings.above + standings.tied))


@dataclass(frozen=True, kw_only=True, repr=False)
class _Coverage(CatalogMetric):
    """Fraction of the catalog in the first k of at least one list; NaN if all lists are empty."""

    name = "Coverage"

    def of(self, counts: NDArray[np.int64]) -> float:
        return float((counts > 0).mean()) if counts.any() else float("nan")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Gini(CatalogMetric):
    """Gini index of the items' numbers of lists: 0 if all are equal, (N - 1) / N for one item.

    Items in no list count as 0. NaN if all lists are empty.
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
