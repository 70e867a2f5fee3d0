"""Full-ranking evaluation: each user's list is ranked from all items not seen in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_count, shown
from mfrank.arrays.csr import CSR
from mfrank.arrays.distinct import distinct
from mfrank.arrays.placement import beside, on_host
from mfrank.arrays.threads import check_threads
from mfrank.backends import choose
from mfrank.data.interactions import Interactions
from mfrank.evaluation.judgements import find, judge, keys, stand
from mfrank.evaluation.kinds import CatalogMetric, ListMetric, Metric, RankingMetric
from mfrank.evaluation.metrics import MRR, NDCG, Recall
from mfrank.evaluation.names import metric as read_metric
from mfrank.evaluation.rankers import Ranker, ranker_of, steered_ranker
from mfrank.evaluation.report import Evaluation, Score
from mfrank.evaluation.user_items import UserItems, ids_of, in_rows_of, matrix_of
from mfrank.retrieval.queries import check_rows
from mfrank.retrieval.seen import Seen
from mfrank.steering.steering import Steering

__all__ = ["DEFAULT_METRICS", "evaluate"]

Floats = NDArray[np.float64]
DEFAULT_METRICS: tuple[Metric, ...] = (NDCG @ 10, Recall @ 10, MRR @ 10)

_CELLS_AT_ONCE = 1 << 22
_ENTRIES_AT_ONCE = 1 << 22


def evaluate(
    model: Any,
    test: UserItems,
    *,
    train: UserItems | None = None,
    filter_already_liked_items: bool = True,
    metrics: Metric | str | Iterable[Metric | str] = DEFAULT_METRICS,
    users: ArrayLike | None = None,
    batch_size: int | None = None,
    backend: str = "auto",
    n_threads: int = 0,
    steer: Steering | None = None,
) -> Evaluation:
    """Rank the whole catalog for each user and score the rankings against ``test``.

    An item is relevant to a user if its test value is above 0; graded metrics use that value as
    the relevance. Items that a user had in training (all entries stored in ``train``) are excluded
    from the ranking, as in ``recommend``, so test entries that are also in ``train`` are dropped
    and counted. Users without a relevant item are skipped and counted. Metrics of the top ranks
    break ties by lower item row; AUC and AUPRC treat items with equal scores as tied.

    If the lists are on a GPU (factors with ``backend="cuda"``, or a recommender that returns CuPy
    arrays), the metrics are computed there and only the per-user values are copied back. Relevance
    is determined on the host. ``train`` is uploaded once: Interactions keep the device copy, and a
    CuPy CSR is read in place.

    Mapped interactions (:meth:`mfrank.Interactions.open`) are read by blocks of users: memory grows
    with the users and items, not with the entries. Only a ``test`` with other ids than the model's
    is copied whole.

    Parameters
    ----------
    model
        An object with ``user_factors``, ``item_factors`` and optionally ``item_biases`` (an
        estimator, a FactorStore, another library's model), which is ranked by these. Or an object
        with ``recommend(users, user_items, N=) -> (ids, scores)``, or such a function itself, with
        row numbers as users and ids; a function with an argument ``by_row``, such as a Reranker's,
        is called with ``by_row=True``.
    test : Interactions or sparse (scipy or CuPy), shape (n_users, n_items)
        Held-out interactions. Interactions with other ids than the model's or the training data's
        are matched by id (:func:`mfrank.data.alignment.aligned`); a sparse matrix has their rows.
    train : Interactions or sparse (scipy or CuPy), shape (n_users, n_items), optional
        Interactions to exclude from the ranking: those that the model was fitted to. None uses
        those kept by a fitted or loaded mfrank model; factors, functions and other libraries'
        models keep none.
    filter_already_liked_items : bool, default True
        False ranks every item, including those in the training data; ``train`` must then be None.
    metrics : Metric or str, or an iterable of them, default NDCG, Recall and MRR at 10
        Metrics to compute in one pass (``mfrank.evaluation.metrics``).
    users : array of int, optional
        Rows to evaluate, duplicates once; default all.
    batch_size : int, optional
        Users ranked at a time; the default gives blocks of about 4 million cells.
    backend : str, default "auto"
        Where top-K lists of factors, and their metrics, are computed.
    n_threads : int, default 0
        Threads of the backend; 0 takes every core this process may use.
    steer : Steering, optional
        Judge the lists of ``model.recommend(..., steer=steer)``, by metrics of the top ranks; the
        model must then be one of mfrank, and ranks with its own backend.

    Returns
    -------
    Evaluation

    Raises
    ------
    TypeError, ValueError
        Shapes do not match, ``test`` has users or items that the model does not know, values are
        not finite, a metric is unknown or lacks its cutoff; or ``train`` is needed because the
        model does not keep its training data.
    """
    check_threads(n_threads)
    ids = ids_of(model) or ids_of(train)
    test, train = in_rows_of(test, ids, "test"), in_rows_of(train, ids, "train")
    relevance = matrix_of(test, "test")
    n_users, n_items = relevance.shape
    tally = _Tally(_read_metrics(metrics), n_items)
    seen, rows_seen = _excluded(model, train, filter_already_liked_items, relevance.shape)
    ranker = (
        ranker_of(model, seen, rows_seen, choose(backend), n_threads)
        if steer is None
        else steered_ranker(model, seen, steer, n_threads, filters=filter_already_liked_items)
    )
    if steer is not None and tally.on_ranking:
        raise ValueError(
            f"steer has a say in the top ranks only: leave out {tally.on_ranking[0]}, or steer"
        )
    requested = (
        np.arange(n_users) if users is None else distinct(check_rows(users, n_users, "users"))
    )
    if batch_size is not None:
        check_count("batch_size", batch_size, 1)

    evaluated, n_in_train = [np.empty(0, np.int64)], 0

    def found() -> Iterator[_Relevant]:
        nonlocal n_in_train
        for part in _relevant(relevance, rows_seen, requested):
            n_in_train += part.n_in_train
            yield part

    size = batch_size or max(1, _CELLS_AT_ONCE // max(1, tally.width))
    for block, rows in _blocks(found(), size):
        tally.add(ranker, block, rows)
        evaluated.append(block)
    of_users = np.concatenate(evaluated)
    return Evaluation(
        scores=tally.scores(),
        users=of_users,
        n_without_test_items=len(requested) - len(of_users),
        n_in_train=n_in_train,
    )


class _Tally:
    """Collects per-user values by block, on the host; item counts stay where the lists are."""

    def __init__(self, metrics: tuple[Metric, ...], n_items: int) -> None:
        self.metrics = metrics
        self.on_lists = [m for m in metrics if isinstance(m, ListMetric)]
        self.on_ranking = [m for m in metrics if isinstance(m, RankingMetric)]
        self.on_catalog = [m for m in metrics if isinstance(m, CatalogMetric)]
        from_lists = (*self.on_lists, *self.on_catalog)
        self.list_length = max((m.depth(n_items) for m in from_lists), default=0)
        self.width = n_items if self.on_ranking else self.list_length
        self.values: dict[Metric, list[Floats]] = {m: [np.empty(0)] for m in metrics}
        self.weights: dict[Metric, list[Floats]] = {m: [np.empty(0)] for m in metrics}
        self.counts = {m: np.zeros(n_items, dtype=np.int64) for m in self.on_catalog}

    def add(self, ranker: Ranker, users: NDArray[np.int64], relevant: sp.csr_array) -> None:
        """Rank and score a block of users; ``relevant`` has one row for each of them."""
        judgements = CSR.from_scipy(relevant, np.float64)
        if self.list_length:
            ids = ranker.lists(users, self.list_length)
            lists = judge(ids, judgements, self.list_length)
            for m in self.on_lists:
                self.values[m].append(on_host(m.per_user(lists)))
                self.weights[m].append(on_host(m.weights(lists)))
            for c in self.on_catalog:
                shown = ids[:, : c.cutoff]
                counts = beside(self.counts[c], shown)
                self.counts[c] = counts + np.bincount(shown[shown >= 0], minlength=len(counts))
        if self.on_ranking:
            standings = stand(ranker.scores(users), judgements)
            for r in self.on_ranking:
                self.values[r].append(on_host(r.per_user(standings)))
                self.weights[r].append(np.ones(len(users)))

    def scores(self) -> dict[Metric, Score]:
        """Scores of all metrics, in the order they were passed."""
        catalog = {m: Score(m.of(on_host(self.counts[m]))) for m in self.on_catalog}
        return {
            m: catalog[m]
            if isinstance(m, CatalogMetric)
            else Score.of_users(np.concatenate(self.values[m]), np.concatenate(self.weights[m]))
            for m in self.metrics
        }


def _read_metrics(metrics: Metric | str | Iterable[Metric | str]) -> tuple[Metric, ...]:
    several = [metrics] if isinstance(metrics, Metric | str) else metrics
    if not isinstance(several, Iterable):
        raise TypeError(f"metrics must be metrics such as mfrank.NDCG @ 10, got {shown(metrics)}")
    read: dict[Metric, None] = {}
    for one in several:
        metric = read_metric(one) if isinstance(one, str) else one
        if not isinstance(metric, Metric):
            raise ValueError(
                f"metrics must be metrics such as mfrank.NDCG @ 10, or names; got {shown(one)}"
            )
        read[metric] = None
    if not read:
        raise ValueError("metrics must have at least one metric, such as mfrank.NDCG @ 10")
    return tuple(read)


def _excluded(
    model: Any, train: UserItems | None, filters: bool, shape: tuple[int, int]
) -> tuple[sp.csr_array, CSR]:
    """Entries to exclude from the ranking: the matrix, and its rows for the kernels."""
    if not filters:
        if train is not None:
            raise ValueError("train is excluded from the ranking: leave it out to rank every item")
        nothing = sp.csr_array(shape)
        return nothing, CSR.from_scipy(nothing, None)
    known: Seen | None = getattr(model, "seen", None)
    if train is None:
        if not isinstance(known, Seen):
            raise ValueError(
                "train is needed: the interactions that the model was fitted to, which are "
                "excluded from the ranking. Pass them, or filter_already_liked_items=False to rank "
                "every item"
            )
        seen, rows = known.matrix, known.rows_of("user")
    elif isinstance(train, Interactions):
        seen, rows = train.user_items, train.user_rows(None)
    else:
        seen = matrix_of(train, "train")
        rows = CSR.from_scipy(seen, None)
    if seen.shape != shape:
        name = "train" if train is not None else "the data of the fit"
        raise ValueError(
            f"{name} must have test's shape {shape}, got {seen.shape}; give test the rows and "
            "columns of the training data, or pass Interactions, which are matched by id: "
            "Interactions.from_frame(test, user_ids=train.user_ids, item_ids=train.item_ids)"
        )
    return seen, rows


class _Relevant(NamedTuple):
    """What is to be ranked of some users.

    Attributes
    ----------
    users : int64, shape (U,)
        Those who have a relevant item.
    items : csr_array, shape (U, n_items)
        Test entries above 0 that are not in the training data.
    n_in_train : int
        Test entries above 0 that are.
    """

    users: NDArray[np.int64]
    items: sp.csr_array
    n_in_train: int


def _relevant(test: sp.csr_array, seen: CSR, requested: NDArray[np.int64]) -> Iterator[_Relevant]:
    """Go through the requested users by blocks of about four million entries."""
    entries = np.diff(test.indptr)[requested] + seen.counts[requested]
    ends = np.searchsorted(
        np.cumsum(entries), np.arange(_ENTRIES_AT_ONCE, entries.sum(), _ENTRIES_AT_ONCE)
    )
    for users in np.split(requested, np.unique(ends)):
        cells = CSR.from_scipy(test[users], np.float64)
        values = np.asarray(cells.data)
        _, known = find(keys(seen.pick(users)), keys(cells))
        positive = values > 0
        kept = np.flatnonzero(positive & ~known)
        indptr = np.searchsorted(kept, cells.indptr)
        listed = np.flatnonzero(np.diff(indptr))
        items = sp.csr_array(
            (values[kept], cells.indices[kept], np.append(indptr[listed], indptr[-1])),
            shape=(len(listed), test.shape[1]),
        )
        yield _Relevant(users[listed], items, int(np.count_nonzero(positive & known)))


def _blocks(
    found: Iterator[_Relevant], size: int
) -> Iterator[tuple[NDArray[np.int64], sp.csr_array]]:
    """Blocks of ``size`` users, whatever the blocks in which they were found; the last is less."""
    users: NDArray[np.int64] = np.empty(0, np.int64)
    rows: sp.csr_array | None = None
    for part in found:
        users = np.concatenate([users, part.users])
        rows = part.items if rows is None else sp.vstack([rows, part.items], format="csr")
        whole = len(users) - len(users) % size
        for begin in range(0, whole, size):
            yield users[begin : begin + size], rows[begin : begin + size]
        users, rows = users[whole:], rows[whole:]
    if rows is not None and len(users):
        yield users, rows
