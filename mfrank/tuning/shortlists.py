"""Scores of several models on the items that any of them ranks high: blends are weighed on these.

A blend's best items are nearly always among the best items of its parts, so weights can be judged
in hundredths of a second. The blend that is chosen is judged on the whole catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.time_limit import check_time
from mfrank.evaluation.judgements import judge as judged
from mfrank.evaluation.kinds import ListMetric, Metric
from mfrank.evaluation.metrics import NDCG
from mfrank.retrieval.fallback import unannounced
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.seen import without_relevant
from mfrank.tuning.judge import Judge

__all__ = ["Shortlists"]

_TIMES_THE_DEPTH = 5
_DEEPEST = 100
_FEWEST = 2
"""Models that are listed even if it is late: one alone makes no blend."""
_USERS_AT_ONCE = 512
_PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Shortlists:
    """Items of U users, and what each model gives them.

    Attributes
    ----------
    items : int32, shape (U, C)
        Distinct in a row; -1 where a row has fewer.
    scores : list of float32, shape (U, C)
        Of each model that was listed; -inf where there is no item.
    relevant : CSR
        What was held out of these users, none of them empty.
    metric : ListMetric
    """

    items: NDArray[np.int32]
    scores: list[NDArray[np.float32]]
    relevant: CSR
    metric: ListMetric

    @classmethod
    def of(
        cls,
        models: Sequence[Recommender],
        judge: Judge,
        is_late: Callable[[], bool] = lambda: False,
    ) -> Self:
        """The best items of each model for the users that are judged, and all scores of these.

        After the second, ``is_late`` tells whether to leave out the models that are not listed yet.
        """
        metric = _by_lists(judge.metric)
        depth = metric.depth(judge.train.n_items) * _TIMES_THE_DEPTH
        users, relevant = _held_out(judge)
        seen = without_relevant(
            sp.csr_array(judge.train.seen[users]), sp.csr_array(judge.valid.user_items[users])
        )
        lists = list[NDArray[np.int32]]()
        for model in models:
            if len(lists) >= _FEWEST and is_late():
                break
            lists.append(_lists(model, users, seen, depth, judge.n_threads))
        items = np.sort(np.hstack(lists), axis=1)
        items[:, 1:][items[:, 1:] == items[:, :-1]] = -1
        items = -np.sort(-items, axis=1)
        items = items[:, : max(1, int((items >= 0).sum(axis=1).max(initial=0)))]
        row, place = np.nonzero(items >= 0)
        scores = []
        for model in models[: len(lists)]:
            table = np.full(items.shape, -np.inf, np.float32)
            for begin in range(0, len(row), _PAIRS_AT_ONCE):
                part = slice(begin, begin + _PAIRS_AT_ONCE)
                at = row[part], place[part]
                table[at] = model.score(users[row[part]], items[at], by_row=True)
                check_time()
            scores.append(table)
        return cls(items, scores, CSR.from_scipy(relevant, np.float64), metric)

    def value(self, weights: Sequence[float]) -> float:
        """The metric of the lists by the weighted sum of scores.

        An item to which all models give exactly 0 is in no list, as in those of the blend.
        """
        check_time()
        total = np.where(self.items >= 0, np.float32(0), np.float32(-np.inf))
        linked = np.zeros(total.shape, dtype=bool)
        for weight, scores in zip(weights, self.scores, strict=True):
            if weight:
                total += np.float32(weight) * scores
                linked |= scores != 0
        total[~linked] = -np.inf
        depth = min(self.metric.depth(self.relevant.n_columns), total.shape[1])
        best = np.argpartition(-total, depth - 1, axis=1)[:, :depth]
        order = np.argsort(-np.take_along_axis(total, best, axis=1), axis=1, kind="stable")
        places = np.take_along_axis(best, order, axis=1)
        listed = np.take_along_axis(total, places, axis=1) > -np.inf
        ids = np.where(listed, np.take_along_axis(self.items, places, axis=1), -1)
        lists = judged(ids, self.relevant, self.metric.depth(self.relevant.n_columns))
        shares = self.metric.weights(lists)
        return float(np.average(self.metric.per_user(lists), weights=shares))


def _lists(
    model: Recommender, users: NDArray[np.int64], seen: sp.csr_array, n: int, n_threads: int
) -> NDArray[np.int32]:
    """The best items of each user, -1 behind them."""
    found = []
    for begin in range(0, len(users), _USERS_AT_ONCE):
        part = slice(begin, begin + _USERS_AT_ONCE)
        with unannounced():
            answer = model.recommend(users[part], seen[part], N=n, by_row=True, n_threads=n_threads)
        found.append(answer.ids)
        check_time()
    return np.vstack(found).astype(np.int32)


def _by_lists(metric: Metric) -> ListMetric:
    """The metric, or one that stands in for it if it reads whole rankings."""
    if isinstance(metric, ListMetric) and metric.cutoff is not None and metric.cutoff <= _DEEPEST:
        return metric
    return NDCG @ 20


def _held_out(judge: Judge) -> tuple[NDArray[np.int64], sp.csr_array]:
    """The judged users, and what was held out of them and is not in the training part."""
    held_out = sp.csr_array(judge.valid.user_items[judge.users] > 0).astype(np.float64)
    known = judge.train.user_items[judge.users].astype(bool).astype(np.float64)
    relevant = sp.csr_array(held_out - held_out.multiply(known))
    relevant.eliminate_zeros()
    relevant.sort_indices()
    some = np.diff(relevant.indptr) > 0
    return judge.users[some], sp.csr_array(relevant[some])
