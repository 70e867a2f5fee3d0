"""The sampled protocol: relevant items ranked among random others instead of the whole catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.checks import check_count
from mfrank.arrays.csr import CSR
from mfrank.arrays.random import Seed
from mfrank.evaluation.judgements import keys
from mfrank.evaluation.kinds import ListMetric, Metric
from mfrank.evaluation.metrics import LimitedAUC
from mfrank.evaluation.rankers import Ranker
from mfrank.evaluation.report import FULL

__all__ = ["SampledLists", "check_sampled", "protocol_of"]

Ints = NDArray[np.int64]

_CELLS_AT_ONCE = 1 << 19  # what is drawn for a block stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class SampledLists:
    """Lists of each user's relevant items and ``negatives`` others, drawn without replacement.

    The others are from all items that are neither seen nor relevant, each with equal probability;
    all of them if they are fewer. The same generator draws the same for all models, if users come
    in the same order.
    """

    ranker: Ranker
    seen: CSR
    negatives: int
    rng: np.random.Generator

    def __call__(self, users: Ints, relevant: sp.csr_array, k: int) -> NDArray[np.int32]:
        """Best k of the items ranked, shape (U, k); -1 after a list's end."""
        rows = CSR.from_scipy(relevant, None)
        width = int(rows.counts.max()) + self.negatives
        step = max(1, _CELLS_AT_ONCE // width)
        lists = np.full((len(users), k), -1, dtype=np.int32)
        for begin in range(0, len(users), step):
            some = np.arange(begin, min(begin + step, len(users)))
            items = self._items(users[some], rows.pick(some), width)
            scores = np.where(items < 0, -np.inf, self.ranker.of_items(users[some], items))
            items = np.where(np.isneginf(scores), np.int32(-1), items)  # not ranked at all
            # Items are ascending and absent ones are last, so a stable order breaks ties by lower
            # row.
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            lists[some, : order.shape[1]] = np.take_along_axis(items, order, axis=1)
        return lists

    def _items(self, users: Ints, relevant: CSR, width: int) -> NDArray[np.int32]:
        """Rows of the items to be ranked, ascending, shape (U, width); -1 at the end."""
        n_items = relevant.n_columns
        excluded = np.sort(np.concatenate([keys(self.seen.pick(users)), keys(relevant)]))
        owners = excluded // n_items
        counts = np.bincount(owners)  # of every user, for each has a relevant item
        free = n_items - counts
        drawn = _distinct(self.rng.random((len(users), self.negatives)), free)
        # The r-th item that is not excluded comes after all excluded e_j with e_j - j <= r.
        place = np.arange(len(excluded)) - (np.cumsum(counts) - counts)[owners]
        before = owners * (n_items + 1) + excluded % n_items - place
        row = np.arange(len(users))[:, None]
        n_before = np.searchsorted(before, row * (n_items + 1) + drawn, side="right")
        n_before -= (np.cumsum(counts) - counts)[:, None]
        items = np.full((len(users), width), n_items, dtype=np.int64)
        items[:, : self.negatives] = np.where(drawn < 0, n_items, drawn + n_before)
        users_of = np.repeat(np.arange(relevant.n_rows), relevant.counts)
        offsets = np.arange(len(users_of)) - relevant.indptr[:-1][users_of]
        items[users_of, self.negatives + offsets] = relevant.indices
        items.sort(axis=1)
        items[items == n_items] = -1
        return items.astype(np.int32)


def check_sampled(negatives: int, metrics: Iterable[Metric]) -> None:
    """Raise unless these metrics can be computed on a sample of so many items."""
    check_count("negatives", negatives, 1, 10_000)
    for metric in metrics:
        if not isinstance(metric, ListMetric) or isinstance(metric, type(LimitedAUC)):
            raise ValueError(
                "with negatives, metrics must be of relevance at the top ranks, such as "
                f"mfrank.NDCG @ 10; got {metric}"
            )


def protocol_of(negatives: int | None, random_state: Seed) -> str:
    """What is ranked, in words."""
    if negatives is None:
        return FULL
    return f"sampled: {negatives} negatives, random_state={random_state}"


def _distinct(uniform: NDArray[np.float64], sizes: Ints) -> Ints:
    """Distinct numbers below each row's size, all sets equally likely; -1 if there are no more.

    Floyd's method (Bentley & Floyd 1987): of the numbers up to j, one is drawn; if it has been
    drawn before, it is j.
    """
    n = uniform.shape[1]
    drawn = np.empty((n, len(uniform)), dtype=np.int32)  # step by step, in one piece
    for step in range(n):
        last = (sizes - n + step).astype(np.int32)
        number = np.minimum((uniform[:, step] * (last + 1)).astype(np.int32), last)
        again = (drawn[:step] == number).any(axis=0)
        drawn[step] = np.where(last < 0, -1, np.where(again, last, number))
    return drawn.T.astype(np.int64)
