"""Evaluation of scored documents query by query: learning to rank, of any model's scores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import is_number
from mfrank.data.judged import Judged
from mfrank.evaluation.judgements import JudgedLists
from mfrank.evaluation.kinds import ListMetric, Metric
from mfrank.evaluation.metrics import NDCG, LimitedAUC
from mfrank.evaluation.names import metric as read_metric
from mfrank.evaluation.report import Evaluation, Score
from mfrank.foreign import to_host

__all__ = ["GRADED", "evaluate_queries"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRADED: tuple[Metric, ...] = (NDCG(gain="exponential") @ 5, NDCG(gain="exponential") @ 10)


def evaluate_queries(
    judged: Judged,
    scores: ArrayLike,
    metrics: Metric | str | Iterable[Metric | str] = GRADED,
    *,
    empty: float | None = 0.0,
) -> Evaluation:
    """Order each query's documents by their scores and compare with their relevance.

    Parameters
    ----------
    judged : Judged
    scores : float, shape (n_documents,)
        Any model's; the highest first, ties by the documents' order.
    metrics : Metric or str, or several
        Of the first ranks (``mfrank.NDCG(gain="exponential") @ 10``); a document is relevant where
        its relevance is above 0.
    empty : float or None, default 0.0
        What a query with nothing relevant counts, for which no metric is defined. Tools differ, and
        where such queries are many so do their numbers: 0 here, 1 in LightGBM; None leaves them
        out, and the result says how many.

    Returns
    -------
    Evaluation
        Its users are rows of ``judged.query_ids``.

    Raises
    ------
    TypeError, ValueError
        Scores that are not finite or not one for each document; a metric of something else than
        the first ranks.
    """
    wanted = _list_metrics(metrics)
    found = np.asarray(to_host(scores, "scores"), dtype=np.float64)
    if found.shape != (judged.n_documents,):
        raise ValueError(
            f"scores must be one for each of the {judged.n_documents} documents, got shape "
            f"{found.shape}"
        )
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(f"scores must be finite, got {found[row]} for document {row}")
    if not (empty is None or is_number(empty)):
        raise ValueError(f"empty must be a number or None, got {empty!r}")
    sizes = np.bincount(judged.query_rows, minlength=judged.n_queries)
    width = max(metric.depth(int(sizes.max())) for metric in wanted)
    lists, relevant = _judge(judged, found, sizes, width)
    users = np.arange(judged.n_queries) if empty is not None else np.flatnonzero(relevant)
    results: dict[Metric, Score] = {}
    for metric in wanted:
        values, weights = np.full((2, judged.n_queries), 1.0 if empty is None else float(empty))
        weights[:] = 1
        values[relevant] = metric.per_user(lists)
        weights[relevant] = metric.weights(lists)
        results[metric] = Score.of_users(values[users], weights[users])
    return Evaluation(results, users, judged.n_queries - len(users), n_in_train=0)


def _list_metrics(metrics: Metric | str | Iterable[Metric | str]) -> tuple[ListMetric, ...]:
    several = [metrics] if isinstance(metrics, Metric | str) else metrics
    wanted: list[ListMetric] = []
    for given in several:
        metric = read_metric(given) if isinstance(given, str) else given
        if not isinstance(metric, ListMetric) or isinstance(metric, type(LimitedAUC)):
            raise TypeError(
                f"metrics must be of the first ranks, such as mfrank.NDCG @ 10; got {metric!r}"
            )
        wanted.append(metric)
    if not wanted:
        raise ValueError("metrics must name at least one, such as mfrank.NDCG @ 10")
    return tuple(dict.fromkeys(wanted))


def _judge(
    judged: Judged, scores: Floats, sizes: Ints, width: int
) -> tuple[JudgedLists, NDArray[np.bool_]]:
    """Lists of the queries with something relevant, and which these are."""
    n_relevant = np.bincount(
        judged.query_rows, judged.relevance > 0, minlength=judged.n_queries
    ).astype(np.int64)
    relevant = n_relevant > 0
    ranked, ideal = (
        _first_ranks(judged, by, sizes, width)[relevant] for by in (scores, judged.relevance)
    )
    return JudgedLists(ranked, ideal, n_relevant[relevant], int(sizes.max())), relevant


def _first_ranks(judged: Judged, by: Floats, sizes: Ints, width: int) -> Floats:
    """Relevance of each query's documents in falling order, shape (n_queries, width)."""
    order = np.lexsort((-by, judged.query_rows))  # stable: ties stay in the documents' order
    rows = judged.query_rows[order]
    places = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[rows]
    kept = places < width
    found = np.zeros((judged.n_queries, width))
    found[rows[kept], places[kept]] = judged.relevance[order[kept]]
    return found
