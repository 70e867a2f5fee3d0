"""Learning-to-rank evaluation: any model's scores of documents, query by query."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import check_instance, floats_of, is_number, refuse_labels, shown, to_host
from mfrank.data import Judged
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation.beyond import UnbiasedMetric
from mfrank.evaluation.judgements import JudgedLists, hashes
from mfrank.evaluation.metrics import NDCG, LimitedAUC, ListMetric, Metric
from mfrank.evaluation.names import as_metrics
from mfrank.evaluation.report import Evaluation
from mfrank.evaluation.scores import Score

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
    """Rank each query's documents by score and evaluate the rankings against relevance.

    Parameters
    ----------
    judged : Judged
    scores : float, shape (n_documents,)
        Scores of any model, higher is better; ties are in the order of the documents.
    metrics : Metric or str, or an iterable of them, default NDCG(gain="exponential") at 5 and 10
        List metrics except LimitedAUC. A document is relevant if its relevance is above 0.
    empty : float or None, default 0.0
        Value of queries without a relevant document, for which metrics are undefined. Tools differ
        (LightGBM uses 1), which matters if there are many such queries. None leaves these queries
        out; the result counts them.

    Returns
    -------
    Evaluation
        An evaluation whose ``users`` are rows of ``judged.query_ids``.

    Raises
    ------
    TypeError, ValueError
        Scores are not finite or not one per document, a metric is not of the top ranks, or
        ``empty`` is not a number.
    """
    check_instance(
        "judged", judged, Judged, "a Judged, such as Judged(features, relevance, queries)"
    )
    wanted = _list_metrics(metrics)
    refuse_labels("scores", scores, "bring them into the documents' order with reindex()")
    found = floats_of("scores", to_host(scores, "scores"))
    if found.shape != (judged.n_documents,):
        raise InputValueError(
            f"`scores` must have shape ({judged.n_documents},), one per document, got {found.shape}"
        )
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise InputValueError(f"`scores` must be finite, got {found[row]} for document {row}")
    if not (empty is None or is_number(empty)):
        raise InputValueError(f"`empty` must be a number or None, got {shown(empty)}")
    sizes = np.bincount(judged.query_rows)
    width = max(metric.depth(int(sizes.max())) for metric in wanted)
    lists, relevant = _judge(judged, found, sizes, width)
    users = np.arange(judged.n_queries) if empty is not None else np.flatnonzero(relevant)
    results: dict[Metric, Score] = {}
    for metric in wanted:
        values = np.full(judged.n_queries, float(empty or 0.0))
        weights = np.ones(judged.n_queries)
        values[relevant] = metric.per_user(lists)
        weights[relevant] = metric.weights(lists)
        results[metric] = Score.of_users(values[users], weights[users])
    documents = np.arange(judged.n_documents)
    graded = hashes(judged.query_rows, documents, judged.relevance, judged.n_queries)
    return Evaluation(
        results, users, judged.n_queries - len(users), n_in_train=0, relevant=graded[users]
    )


def _list_metrics(metrics: Metric | str | Iterable[Metric | str]) -> tuple[ListMetric, ...]:
    wanted: list[ListMetric] = []
    for metric in as_metrics(metrics):
        if not isinstance(metric, ListMetric) or isinstance(
            metric, type(LimitedAUC) | UnbiasedMetric
        ):
            raise InputTypeError(
                f"`metrics` must be of the top ranks, such as `mfrank.NDCG @ 10`; "
                f"got {shown(metric)}"
            )
        wanted.append(metric)
    return tuple(wanted)


def _judge(
    judged: Judged, scores: Floats, sizes: Ints, width: int
) -> tuple[JudgedLists, NDArray[np.bool_]]:
    """Lists of the queries with a relevant document, and the mask of these queries."""
    n_relevant = np.bincount(judged.query_rows, judged.relevance > 0).astype(np.int64)
    relevant = n_relevant > 0
    ranked, ideal = (
        _first_ranks(judged, by, sizes, width)[relevant] for by in (scores, judged.relevance)
    )
    total = np.bincount(judged.query_rows, judged.relevance)[relevant].astype(np.float64)
    return JudgedLists(ranked, ideal, n_relevant[relevant], int(sizes.max()), total), relevant


def _first_ranks(judged: Judged, by: Floats, sizes: Ints, width: int) -> Floats:
    """Relevance of each query's documents in descending order of ``by``, (n_queries, width)."""
    order = np.lexsort((-by, judged.query_rows))  # stable: ties keep the documents' order
    rows = judged.query_rows[order]
    places = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[rows]
    kept = places < width
    found = np.zeros((judged.n_queries, width))
    found[rows[kept], places[kept]] = judged.relevance[order[kept]]
    return found
