"""Full-ranking evaluation: every item a user has not got competes, for every user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_count
from mfrank.arrays import beside, on_host
from mfrank.backends import choose
from mfrank.cores import check_threads
from mfrank.csr import CSR
from mfrank.csr_checks import checked_rows
from mfrank.data.interactions import Interactions
from mfrank.distinct import distinct
from mfrank.evaluation.judgements import find, judge, keys, stand
from mfrank.evaluation.kinds import CatalogueMetric, ListMetric, Metric, RankingMetric
from mfrank.evaluation.metrics import MRR, NDCG, Recall
from mfrank.evaluation.names import metric as read_metric
from mfrank.evaluation.rankers import Ranker, ranker_of
from mfrank.evaluation.report import Evaluation, Score
from mfrank.foreign import sparse_to_host
from mfrank.retrieval.asked import check_rows
from mfrank.retrieval.candidates import HasUserItems
from mfrank.retrieval.seen import Seen

__all__ = ["DEFAULT_METRICS", "evaluate"]

Floats = NDArray[np.float64]
UserItems: TypeAlias = HasUserItems | sp.sparray | sp.spmatrix

DEFAULT_METRICS: tuple[Metric, ...] = (NDCG @ 10, Recall @ 10, MRR @ 10)

_CELLS_AT_ONCE = 1 << 22


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
) -> Evaluation:
    """Rank all items for each user and score the rankings by what ``test`` holds.

    An item is relevant to a user where its test value is above 0; that value is its relevance to
    graded metrics. What a user had in the fit (every entry stored in ``train``) is not ranked
    again, as ``recommend`` does not list it; a test entry that train holds too is no longer
    relevant, and is counted. Users without a relevant item are left out, and counted. Metrics of
    the first ranks break ties by lower item row; AUC and AUPRC treat items whose scores are equal
    as tied.

    Where the lists lie on a GPU, as of factors with ``backend="cuda"`` or where a recommender's
    arrays do, metrics are computed there, and only the users' values come back. What is relevant is
    found out on the host. ``train`` goes up once: that of Interactions stays there, a CSR of CuPy's
    is read where it lies.

    Parameters
    ----------
    model
        Anything with ``user_factors``, ``item_factors`` and perhaps ``item_biases`` (an estimator,
        a FactorStore, another library's model): these are ranked. Or anything with
        ``recommend(users, user_items, N=) -> (ids, scores)``, or such a function itself, of row
        numbers; one that has the argument ``by_row``, as a Reranker's, is called with True.
    test : Interactions, or sparse of scipy's or CuPy's, shape (n_users, n_items)
        What the users chose.
    train : Interactions, or sparse of scipy's or CuPy's, shape (n_users, n_items), optional
        What not to rank: what the model was fitted to. None takes what it knows of that, as a
        fitted or loaded model of mfrank's does; factors, functions and other libraries' models do
        not.
    filter_already_liked_items : bool, default True
        False ranks every item, also what users had; ``train`` is then to be left out.
    metrics : Metric or str, or several
        What to compute, in one pass (``mfrank.evaluation.metrics``).
    users : array of int, optional
        Rows to evaluate, each once; default all.
    batch_size : int, optional
        Users ranked at once; default as many as keep a block near 4 million cells.
    backend : str, default "auto"
        Where top-K lists of factors, and the metrics of them, are computed.
    n_threads : int, default 0
        For them; 0 takes every core this process may use.

    Raises
    ------
    TypeError, ValueError
        Shapes do not fit, values are not finite, a metric is not known or lacks its cutoff; or
        ``train`` is needed, as it is not known what the model was fitted to.
    """
    check_threads(n_threads)
    relevance = _matrix(test, "test")
    n_users, n_items = relevance.shape
    tally = _Tally(_read_metrics(metrics), n_items)
    seen, rows_seen = _not_ranked(model, train, filter_already_liked_items, relevance.shape)
    ranker = ranker_of(model, seen, rows_seen, choose(backend), n_threads)
    asked = np.arange(n_users) if users is None else distinct(check_rows(users, n_users, "users"))
    if batch_size is not None:
        check_count("batch_size", batch_size, 1)

    relevant, in_train = _relevant(relevance, rows_seen)
    evaluated = asked[np.diff(relevant.indptr)[asked] > 0]
    for block in _blocks(evaluated, batch_size or max(1, _CELLS_AT_ONCE // max(1, tally.width))):
        tally.add(ranker, block, relevant[block])
    return Evaluation(
        scores=tally.scores(),
        users=evaluated,
        n_without_test_items=len(asked) - len(evaluated),
        n_in_train=int(in_train[asked].sum()),
    )


class _Tally:
    """Gathers the values of block after block of users, in numpy; counts lie where lists do."""

    def __init__(self, metrics: tuple[Metric, ...], n_items: int) -> None:
        self.metrics = metrics
        self.on_lists = [m for m in metrics if isinstance(m, ListMetric)]
        self.on_ranking = [m for m in metrics if isinstance(m, RankingMetric)]
        self.on_catalogue = [m for m in metrics if isinstance(m, CatalogueMetric)]
        of_lists = (*self.on_lists, *self.on_catalogue)
        self.list_length = max((m.depth(n_items) for m in of_lists), default=0)
        self.width = n_items if self.on_ranking else self.list_length
        self.values: dict[Metric, list[Floats]] = {m: [np.empty(0)] for m in metrics}
        self.weights: dict[Metric, list[Floats]] = {m: [np.empty(0)] for m in metrics}
        self.counts = {m: np.zeros(n_items, dtype=np.int64) for m in self.on_catalogue}

    def add(self, ranker: Ranker, users: NDArray[np.int64], relevant: sp.csr_array) -> None:
        """Rank for a block of users and score it; the matrix holds the rows of these users."""
        judgements = CSR.from_scipy(relevant, np.float64)
        if self.list_length:
            ids = ranker.lists(users, self.list_length)
            lists = judge(ids, judgements, self.list_length)
            for m in self.on_lists:
                self.values[m].append(on_host(m.per_user(lists)))
                self.weights[m].append(on_host(m.weights(lists)))
            for c in self.on_catalogue:
                shown = ids[:, : c.cutoff]
                counts = beside(self.counts[c], shown)
                self.counts[c] = counts + np.bincount(shown[shown >= 0], minlength=len(counts))
        if self.on_ranking:
            standings = stand(ranker.scores(users), judgements)
            for r in self.on_ranking:
                self.values[r].append(on_host(r.per_user(standings)))
                self.weights[r].append(np.ones(len(users)))

    def scores(self) -> dict[Metric, Score]:
        """All metrics, in the order they were asked for."""
        catalogue = {m: Score(m.of(on_host(self.counts[m]))) for m in self.on_catalogue}
        return {
            m: catalogue[m]
            if isinstance(m, CatalogueMetric)
            else Score.of_users(np.concatenate(self.values[m]), np.concatenate(self.weights[m]))
            for m in self.metrics
        }


def _read_metrics(metrics: Metric | str | Iterable[Metric | str]) -> tuple[Metric, ...]:
    several = [metrics] if isinstance(metrics, Metric | str) else metrics
    read = [read_metric(m) if isinstance(m, str) else m for m in several]
    if not read or not all(isinstance(m, Metric) for m in read):
        raise ValueError(
            f"metrics must be metrics such as mfrank.NDCG @ 10, or their names; got {metrics!r}"
        )
    return tuple(dict.fromkeys(read))


def _matrix(rows: UserItems, name: str) -> sp.csr_array:
    matrix = rows.user_items if isinstance(rows, HasUserItems) else sparse_to_host(rows)
    if not sp.issparse(matrix):
        raise TypeError(
            f"{name} must be Interactions or a scipy sparse matrix, got {type(rows).__name__}"
        )
    canonical = checked_rows(matrix, name)
    if not canonical.has_canonical_format:
        canonical = canonical.copy()
        canonical.sum_duplicates()
    if not np.isfinite(canonical.data).all():
        raise ValueError(f"{name} must have finite values, got NaN or infinity")
    return canonical


def _not_ranked(
    model: Any, train: UserItems | None, filters: bool, shape: tuple[int, int]
) -> tuple[sp.csr_array, CSR]:
    """What users had: the matrix, and its rows as kernels read them."""
    if not filters:
        if train is not None:
            raise ValueError("train is what not to rank: leave it out to rank every item")
        nothing = sp.csr_array(shape)
        return nothing, CSR.from_scipy(nothing, None)
    known: Seen | None = getattr(model, "seen", None)
    if train is None:
        if not isinstance(known, Seen):
            raise ValueError(
                "train is needed: what the model was fitted to, which is not ranked again. Pass "
                "it, or filter_already_liked_items=False to rank every item"
            )
        seen, rows = known.matrix, known.rows_of("user")
    elif isinstance(train, Interactions):
        seen, rows = train.user_items, train.user_rows(None)
    else:
        seen = _matrix(train, "train")
        rows = CSR.from_scipy(seen, None)
    if seen.shape != shape:
        name = "train" if train is not None else "the data of the fit"
        raise ValueError(f"{name} must have test's shape {shape}, got {seen.shape}")
    return seen, rows


def _relevant(test: sp.csr_array, seen: CSR) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Test entries above 0 that train does not hold; and how many it holds, for each user."""
    cells = CSR.from_scipy(test, np.float64)
    values = np.asarray(cells.data)
    places = keys(cells)
    _, known = find(keys(seen), places)
    users = np.repeat(np.arange(cells.n_rows), cells.counts)
    kept = (values > 0) & ~known
    relevant = sp.csr_array((values[kept], (users[kept], cells.indices[kept])), shape=test.shape)
    return relevant, np.bincount(users[(values > 0) & known], minlength=cells.n_rows)


def _blocks(users: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    return (users[begin : begin + size] for begin in range(0, len(users), size))
