"""The learning queries and the serving graph of a supervised PageRank fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.csr_checks import checked_rows
from mfrank.data.alignment import aligned
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.data.splits import leave_last
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.item_walk import ItemWalk
from mfrank.pagerank.next_clicks import Draw, item_graph, next_click_queries, recencies
from mfrank.pagerank.stationary import Walker
from mfrank.pagerank.transitions import Transitions

__all__ = ["Task"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """The input of a fit: what it learns from, and what the fitted model serves.

    Attributes
    ----------
    learning : Graphs or None
        Labeled queries; None if the weights are not learned.
    serving : Graphs
        Graphs with the same features, whose union is the graph of the fitted walk.
    recent : csr_array of float64, shape (n_users, n_items), or None
        Recency of each user's last items, see :func:`mfrank.pagerank.next_clicks.recencies`; None
        if the users are the queries of ``serving``.
    seen : csr_array of bool, shape (n_users, n_items)
        Items of each user, which their lists leave out; False where they are only seen.
    user_ids, item_ids : Ids
    threshold : float or None
        What the values of the interactions were cut by.
    """

    learning: Graphs | None
    serving: Graphs
    recent: sp.csr_array | None
    seen: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    threshold: float | None = None

    @classmethod
    def of_graphs(cls, graphs: Graphs, labels: ArrayLike | None, *, learns: bool) -> Task:
        """Task of graphs: queries are the users, their seeds the users' items, pages the items."""
        if labels is not None:
            graphs = graphs.with_labels(labels)
        shape = graphs.n_queries, int(graphs.pages.max()) + 1
        ends = graphs.query_of[graphs.seeds], graphs.pages[graphs.seeds]
        seen = sp.csr_array((np.ones(len(graphs.seeds), dtype=bool), ends), shape)
        ids = Ids.numbered(shape[0]), Ids.numbered(shape[1])
        return cls(graphs if learns else None, graphs, None, seen, *ids)

    @classmethod
    def of_interactions(
        cls,
        data: Interactions,
        labels: Any,
        item_features: ArrayLike | None,
        *,
        recent: int,
        gap: float | None,
        draw: Draw | None,
        walker: Walker,
    ) -> Task:
        """Task of interactions with timestamps; ``draw=None`` learns nothing.

        Without ``labels``, each user's last item is the relevant one, and the queries use the graph
        of the interactions without it.
        """
        if data.nnz == 0 or data.user_items.data.min() < 0:
            raise ValueError(
                "data must have interactions, all with values > 0; data.at_least(threshold) drops "
                "the others"
            )
        graph = item_graph(data, item_features, gap)
        known = recencies(data, recent)
        learning = None
        if draw is not None:
            if labels is None:
                split = leave_last(data)
                relevant = split.test.user_items
                before = item_graph(split.train, item_features, gap)
                past, had = recencies(split.train, recent), split.train.user_items
            else:
                relevant, before = _labels(labels, data), graph
                past, had = known, data.user_items
            learning = next_click_queries(before, past, had, relevant, draw, walker)
        own = data.seen
        seen = sp.csr_array((own.data != 0, own.indices, own.indptr), own.shape)
        return cls(learning, graph, known, seen, data.user_ids, data.item_ids, data.threshold)

    def walk(self, weights: Floats) -> ItemWalk:
        """The walk on all items, with the given feature weights."""
        has_recency = self.recent is not None
        return ItemWalk.of(self.serving, weights, len(self.item_ids), has_recency=has_recency)

    def starts(self, walk: ItemWalk, weights: Floats) -> sp.csr_array:
        """Restart probabilities of each user's walk, shape (n_users, n_items)."""
        if self.recent is not None:
            return walk.starts(self.recent)
        seeds = self.serving.seeds
        restarts = Transitions.of(self.serving, weights).restarts[seeds]
        ends = self.serving.query_of[seeds], self.serving.pages[seeds]
        return sp.csr_array((restarts, ends), self.seen.shape)


def _labels(labels: Any, data: Interactions) -> sp.csr_array:
    """The labels as a matrix of relevant items, users x items; raise if they do not match data."""
    if isinstance(labels, Interactions):
        labels = aligned(labels, data.user_ids, data.item_ids, "labels")
    table: Any = labels.user_items if isinstance(labels, Interactions) else labels
    is_sparse: bool = sp.issparse(table)
    if not is_sparse:
        raise TypeError(
            "labels of interactions must be Interactions or a scipy sparse matrix (users x "
            f"items), such as a split's test part; got {type(labels).__name__}"
        )
    if table.shape != data.user_items.shape:
        raise ValueError(
            f"labels must have data's shape {data.user_items.shape}, got {table.shape}"
        )
    return checked_rows(table, "labels")
