"""Rank for users, here or on workers, and collect the values of all metrics by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR, beside, check_time, on_host
from mfrank.backends import choose
from mfrank.backends.sharded import same_workers, threads_of_a_task
from mfrank.cluster import Call, Cluster, as_done, connected, held, kind_of, wrong
from mfrank.data import Groups, without_zeros
from mfrank.evaluation.cold import Cold
from mfrank.evaluation.inputs import (
    KnownLists,
    Relevant,
    TrainingData,
    blocks,
    excluded,
    had_in_training,
    relevant_of,
)
from mfrank.evaluation.judgements import JudgedLists, hashes, judge, stand
from mfrank.evaluation.metrics import CatalogMetric, KnownMetric, ListMetric, Metric, RankingMetric
from mfrank.evaluation.rankers import Ranker, SampledLists, ranker_of, steered_ranker
from mfrank.evaluation.scores import Score
from mfrank.steering import Steering

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Lists: TypeAlias = Callable[[Ints, sp.csr_array, int], NDArray[np.int32]]
"""The best k items of users, given their rows and their relevant items."""

_CELLS_AT_ONCE = 1 << 22


class Values:
    """Values and weights of users, by metric, on the host."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.values: dict[Metric, list[Floats]] = {m: [np.empty(0)] for m in metrics}
        self.weights: dict[Metric, list[Floats]] = {m: [np.empty(0)] for m in metrics}

    def add(self, metric: Metric, values: Floats, weights: Floats) -> None:
        """Append a block of users."""
        self.values[metric].append(on_host(values))
        self.weights[metric].append(on_host(weights))

    def append(self, other: Values) -> None:
        """Append the values of other users."""
        for metric, values in other.values.items():
            self.values[metric] += values
            self.weights[metric] += other.weights[metric]

    def scores(self) -> dict[Metric, Score]:
        """Means over all users."""
        return {
            metric: Score.of_users(np.concatenate(values), np.concatenate(self.weights[metric]))
            for metric, values in self.values.items()
        }


class Tally:
    """Collects per-user values by block, on the host; item counts stay on the lists' device.

    Attributes
    ----------
    users : list of int64 arrays
        Rows of the users, by block.
    relevant : list of uint64 arrays
        Hashes of the users' relevant items, by block.
    n_in_train : int
        Number of test entries that are also in the training data.
    cold_items : list of int arrays
        Relevant items that are cold, by block.
    n_cold_interactions : int
        Relevant entries with a cold user or a cold item.
    """

    def __init__(
        self,
        metrics: tuple[Metric, ...],
        n_items: int,
        known: TrainingData | None,
        item_groups: Groups | None,
        cold: Cold,
        item_counts: Ints | None = None,
    ) -> None:
        self.metrics = metrics
        self.item_counts = item_counts
        self.known = known
        self.item_groups = item_groups
        self.cold = cold
        self.on_lists = [m for m in metrics if isinstance(m, ListMetric)]
        self.on_ranking = [m for m in metrics if isinstance(m, RankingMetric)]
        self.on_catalog = [m for m in metrics if isinstance(m, CatalogMetric)]
        self.on_known = [m for m in metrics if isinstance(m, KnownMetric)]
        from_lists = (*self.on_lists, *self.on_catalog, *self.on_known)
        self.list_length = max((m.depth(n_items) for m in from_lists), default=0)
        self.width = n_items if self.on_ranking else self.list_length
        self.per_user = Values([m for m in metrics if not isinstance(m, CatalogMetric)])
        names = item_groups.names if item_groups else ()
        self.in_groups = {name: Values(self.on_lists) for name in names}
        self.group_users: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in names}
        self.group_relevant: dict[str, list[Hashes]] = {
            name: [np.empty(0, np.uint64)] for name in names
        }
        self.exposure = np.zeros(n_items, dtype=np.int64)
        self.counts = {m: np.zeros(n_items, dtype=np.int64) for m in self.on_catalog}
        self.waiting: list[KnownLists] = []
        self.users: list[Ints] = [np.empty(0, np.int64)]
        self.relevant: list[Hashes] = [np.empty(0, np.uint64)]
        self.n_in_train = 0
        self.cold_items: list[Ints] = [np.empty(0, np.int64)]
        self.n_cold_interactions = 0

    def add(self, ranker: Ranker, lists: Lists, users: Ints, relevant: sp.csr_array) -> None:
        """Rank and score a block of users; ``relevant`` has one row for each of them."""
        self.users.append(users)
        judgements = CSR.from_scipy(relevant, np.float64)
        self.relevant.append(_hashes(judgements))
        self._add_cold(users, judgements)
        if self.list_length:
            ids = lists(users, relevant, self.list_length)
            judged = judge(ids, judgements, self.list_length)
            self._add_judged(self.per_user, ids, judgements, judged)
            self._add_groups(ids, users, relevant)
            self.exposure = _with_listed(self.exposure, ids)
            for c in self.on_catalog:
                self.counts[c] = _with_listed(self.counts[c], ids[:, : c.cutoff])
            if self.on_known and self.known is not None:
                depth = max(m.k for m in self.on_known)
                first = on_host(ids[:, :depth]), on_host(judged.relevance[:, :depth])
                self.waiting.append(KnownLists(users, *first, self.known))
                if sum(each.ids.size for each in self.waiting) >= _CELLS_AT_ONCE:
                    self._add_waiting()
        if self.on_ranking:
            standings = stand(ranker.scores(users), judgements)
            for r in self.on_ranking:
                self.per_user.add(r, r.per_user(standings), np.ones(len(users)))

    def finish(self) -> None:
        """Score the pending lists; call it after the last block."""
        self._add_waiting()
        self.exposure, self.known = on_host(self.exposure), None
        self.counts = {m: on_host(counts) for m, counts in self.counts.items()}

    def append(self, other: Tally) -> None:
        """Add the values of another tally; both must be finished."""
        self.per_user.append(other.per_user)
        for name, values in self.in_groups.items():
            values.append(other.in_groups[name])
            self.group_users[name] += other.group_users[name]
            self.group_relevant[name] += other.group_relevant[name]
        self.exposure = self.exposure + other.exposure
        self.counts = {m: counts + other.counts[m] for m, counts in self.counts.items()}
        self.users += other.users
        self.relevant += other.relevant
        self.n_in_train += other.n_in_train
        self.cold_items += other.cold_items
        self.n_cold_interactions += other.n_cold_interactions

    def scores(self) -> dict[Metric, Score]:
        """Scores of all metrics, in the order of the metrics."""
        scores = self.per_user.scores()
        scores |= {m: Score(m.of(self.counts[m])) for m in self.on_catalog}
        return {m: scores[m] for m in self.metrics}

    def group_scores(self) -> Mapping[str, tuple[Ints, Hashes, dict[Metric, Score]]]:
        """By item group: users with a relevant item in it, hashes of these items, and scores."""
        return {
            name: (
                np.concatenate(self.group_users[name]),
                np.concatenate(self.group_relevant[name]),
                values.scores(),
            )
            for name, values in self.in_groups.items()
        }

    def _add_cold(self, users: Ints, relevant: CSR) -> None:
        """Count the relevant entries of which the model could not know the user or the item."""
        of_items = self.cold.items[relevant.indices]
        of_users = np.repeat(self.cold.users[users], relevant.counts)
        self.n_cold_interactions += int(np.count_nonzero(of_items | of_users))
        self.cold_items.append(np.unique(relevant.indices[of_items]))

    def _add_groups(self, ids: NDArray[np.int32], users: Ints, relevant: sp.csr_array) -> None:
        """Score the same lists, with the items of one group as the only relevant ones."""
        if self.item_groups is None:
            return
        of_entries = self.item_groups.of_rows[relevant.indices]
        for number, (name, values) in enumerate(self.in_groups.items()):
            kept = np.flatnonzero(of_entries == number)
            indptr = np.searchsorted(kept, relevant.indptr)
            some = np.flatnonzero(np.diff(indptr))
            if not len(some):
                continue
            rows = CSR(
                np.append(indptr[some], indptr[-1]).astype(np.int64),
                relevant.indices[kept].astype(np.int32),
                relevant.data[kept].astype(np.float64),
                relevant.shape[1],
            )
            of_group = ids[beside(some, ids)]
            lists = judge(of_group, rows, self.list_length)
            self._add_judged(values, of_group, rows, lists)
            self.group_users[name].append(users[some])
            self.group_relevant[name].append(_hashes(rows))

    def _add_judged(
        self, values: Values, ids: NDArray[np.int32], rows: CSR, judged: JudgedLists
    ) -> None:
        """Score lists by each metric, with what the relevant items count in it."""
        for metric in self.on_lists:
            own = metric.relevance_of(rows, self.item_counts)
            lists = judged if own is rows else judge(ids, own, self.list_length)
            values.add(metric, metric.per_user(lists), metric.weights(lists))

    def _add_waiting(self) -> None:
        """Score lists against the training data, many at a time: it is read again each time."""
        if not self.waiting:
            return
        width = max(each.ids.shape[1] for each in self.waiting)
        lists = KnownLists(
            np.concatenate([each.users for each in self.waiting]),
            np.concatenate([_widened(each.ids, width, -1) for each in self.waiting]),
            np.concatenate([_widened(each.relevance, width, 0) for each in self.waiting]),
            self.waiting[0].known,
        )
        self.waiting.clear()
        for m in self.on_known:
            first = lists.first(m.k)
            self.per_user.add(m, m.per_user(first), m.weights(first))


def _hashes(rows: CSR) -> Hashes:
    of_entries = np.repeat(np.arange(rows.n_rows), rows.counts)
    return hashes(of_entries, rows.indices, np.asarray(rows.data), rows.n_rows)


def _with_listed(counts: Ints, ids: NDArray[np.int32]) -> Ints:
    """Counts of items, and how often each is in these lists."""
    own = beside(counts, ids)
    total: Ints = own + np.bincount(ids[ids >= 0], minlength=len(own))
    return total


def _widened(lists: NDArray[Any], width: int, end: int) -> NDArray[Any]:
    """Lists of the given width; a recommender may return shorter ones."""
    return np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=end)


# Rankings for users, and their scores: what is the same for all users of an evaluation.


_SCORES_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """An evaluation that can be run for any users."""

    model: Any
    relevance: sp.csr_array
    train: Any
    filters: bool
    wanted: tuple[Metric, ...]
    item_groups: Groups | None
    sample: tuple[int, np.random.Generator] | None
    batch_size: int | None
    backend: str
    n_threads: int
    steer: Steering | None
    cold: Cold
    item_counts: Ints | None = None

    def judged(self, users: NDArray[np.int64]) -> Tally:
        """Rank for these users, and score the rankings."""
        shape, n_items = self.relevance.shape, self.relevance.shape[1]
        seen, rows_seen = excluded(self.model, self.train, self.filters, self.relevance)
        known = None
        if any(isinstance(m, KnownMetric) for m in self.wanted):
            had = seen if self.filters else had_in_training(self.model, shape)
            known = TrainingData.of(without_zeros(had), self.item_groups, excluded=self.filters)
        tally = Tally(self.wanted, n_items, known, self.item_groups, self.cold, self.item_counts)
        ranker = (
            ranker_of(self.model, seen, rows_seen, choose(self.backend), self.n_threads)
            if self.steer is None
            else steered_ranker(self.model, seen, self.steer, self.n_threads, filters=self.filters)
        )
        lists = (
            SampledLists(ranker, rows_seen, min(self.sample[0], n_items), self.sample[1])
            if self.sample is not None
            else lambda users, relevant, k: ranker.lists(users, k)
        )

        def found() -> Iterator[Relevant]:
            for part in relevant_of(self.relevance, rows_seen, users):
                tally.n_in_train += part.n_in_train
                yield part

        size = self.batch_size or max(1, _SCORES_AT_ONCE // max(1, tally.width))
        for block, rows in blocks(found(), size):
            tally.add(ranker, lists, block, rows)
            check_time()
        tally.finish()
        return tally

    def by_threads(self, n_threads: int) -> Self:
        """The same with this number of threads."""
        return replace(self, n_threads=n_threads)


# Users judged on the workers of a cluster, some at a time, with the numbers of one process.


_PARTS_OF_A_WORKER = 4


def judged_on_workers(cluster: Cluster, judge: Judge, users: Ints) -> Tally:
    """The values of all users; each task evaluates a part of them.

    Raises
    ------
    ConnectionError, ValueError
        The cluster does not answer, or its workers' arithmetic differs from this process's.
    """
    with connected(cluster) as engine:
        workers = same_workers(engine, judge.backend)
        threads = threads_of_a_task(workers, judge.n_threads)
        judging = engine.submit(held, judge.by_threads(threads))
        n_parts = max(1, min(len(users), _PARTS_OF_A_WORKER * len(workers)))
        given = np.array_split(users, n_parts)
        calls = ((number, Call(_judged, (judging, part))) for number, part in enumerate(given))
        found: dict[int, Tally] = dict(as_done(engine, len(workers), calls))
        for part in found.values():
            if not isinstance(part, Tally):
                raise wrong(engine, kind_of(part), "the values of some users")
    whole = found[0]
    for number in range(1, n_parts):
        whole.append(found[number])
    return whole


def _judged(judge: Judge, users: Ints) -> Tally:
    return judge.judged(users)
