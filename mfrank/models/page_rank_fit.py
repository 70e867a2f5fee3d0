"""The inputs of a fit of supervised PageRank, and what it learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import checked_rows, progress_bar
from mfrank.data import (
    Counts,
    Ids,
    Interactions,
    ReadWeights,
    ReadWhere,
    aligned,
    leave_last,
    without_zeros,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.models.cost import warn_if_steps_are_long
from mfrank.models.factor_model import AfterEpoch, note
from mfrank.pagerank import (
    Draw,
    Graphs,
    ItemWalk,
    LearnerStep,
    Transitions,
    Walker,
    item_graph,
    next_click_queries,
    recencies,
    with_prior,
)
from mfrank.retrieval import pack
from mfrank.store import FactorStore, Record
from mfrank.store import contents as extra_rows

Floats = NDArray[np.float64]

# The learning queries and the serving graph of a supervised PageRank fit.


@dataclass(frozen=True, eq=False)
class Task:
    """The input of a fit: graphs to learn from, and graphs of the fitted model.

    Attributes
    ----------
    learning : Graphs or None
        Labeled queries; None if the weights are not learned.
    serving : Graphs
        Graphs with the same features, whose union is the graph of the fitted walk.
    recent : csr_array of float64, shape (n_users, n_items), or None
        Recency of each user's last items (:func:`mfrank.pagerank.next_clicks.recencies`); None if
        the users are the queries of ``serving``.
    seen : csr_array of bool, shape (n_users, n_items)
        Seen items of each user, which lists leave out; False for items that are only seen.
    user_ids, item_ids : Ids
    threshold, where, event_weights
        Of the interactions.
    """

    learning: Graphs | None
    serving: Graphs
    recent: sp.csr_array | None
    seen: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    threshold: float | None = None
    where: ReadWhere = field(default_factory=dict)
    event_weights: ReadWeights = field(default_factory=dict)

    @classmethod
    def of_graphs(cls, graphs: Graphs, labels: ArrayLike | None, *, learns: bool) -> Task:
        """Task of graphs: queries are users, seeds are the users' items, pages are items."""
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

        Without ``labels``, each user's last item is relevant, and the queries use the graph of the
        interactions without it.
        """
        if data.nnz == 0 or data.user_items.data.min() < 0:
            raise InputValueError(
                "`data` must have interactions, all with values > 0",
                "`data.at_least(threshold)` drops the others",
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
        ids, of_data = (data.user_ids, data.item_ids), (data.threshold, data.where)
        return cls(learning, graph, known, seen, *ids, *of_data, data.event_weights)

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

    def store(
        self, weights: Floats, history: list[Record], walker: Walker, fitter: dict[str, Any]
    ) -> FactorStore:
        """The walk with these weights as a store, with the seen items."""
        walk = self.walk(weights)
        own = without_zeros(self.seen)
        by_item = np.bincount(own.indices, minlength=walk.n_items).astype(np.int64)
        starts, prior = self.starts(walk, weights), walk.prior(walker)
        store = FactorStore(
            np.zeros((len(self.user_ids), 1)),
            np.zeros((walk.n_items, 1)),
            self.user_ids,
            self.item_ids,
            counts=Counts(np.diff(own.indptr).astype(np.int64), by_item),
            item_prior=prior,
            fitter=fitter,
            history=history,
            threshold=self.threshold,
            where=self.where,
            event_weights=self.event_weights,
        )
        extras = {"weights": weights, **walk.to_arrays(), **extra_rows.pack("starts", starts)}
        return pack(replace(with_prior(store, 1.0), extras=extras), self.seen)


def _labels(labels: Any, data: Interactions) -> sp.csr_array:
    """The labels as a matrix of relevant items, users x items; raise if they do not match data."""
    if isinstance(labels, Interactions):
        labels = aligned(labels, data.user_ids, data.item_ids, "labels")
    table: Any = labels.user_items if isinstance(labels, Interactions) else labels
    is_sparse: bool = sp.issparse(table)
    if not is_sparse:
        raise InputTypeError(
            "`labels` of interactions must be Interactions or a scipy sparse matrix (users x "
            f"items), such as a split's test part; got {type(labels).__name__}"
        )
    if table.shape != data.user_items.shape:
        raise InputValueError(
            f"`labels` must have data's shape {data.user_items.shape}, got {table.shape}"
        )
    return checked_rows(table, "labels")


# The state of learning a supervised PageRank: best weights so far and history.


@dataclass(slots=True, eq=False)
class Learned:
    """The best weights so far and a record of each complete step."""

    weights: NDArray[np.float64]
    history: list[Record]

    def take_up(
        self,
        steps: Iterator[LearnerStep],
        after: AfterEpoch | None,
        most: int,
        *,
        show_progress: bool,
    ) -> None:
        """Run the steps, at most ``most``."""
        with progress_bar(most, "fit", "step", shown=show_progress) as advance:
            for tuned in steps:
                advance(1, note(tuned.loss))
                if not self.history:
                    warn_if_steps_are_long(tuned.seconds, most)
                self.history.append(tuned.record())
                if tuned.is_best:
                    self.weights = tuned.weights
                if after and after(tuned.step - 1, tuned.seconds, tuned.loss, None):
                    break
