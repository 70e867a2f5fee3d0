"""Recommendations, scores and explanations of a walk on items, and the inputs of its fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import check_count, checked_rows
from mfrank.backends import choose
from mfrank.data import Ids, Interactions, aligned, leave_last
from mfrank.pagerank import (
    Draw,
    Graphs,
    ItemWalk,
    Path,
    Transitions,
    Walker,
    heaviest_paths,
    item_graph,
    next_click_queries,
    recencies,
)
from mfrank.retrieval import (
    KnownQueries,
    Matrix,
    OwnRows,
    Raw,
    Rows,
    RowScorer,
    given_id,
    of_one_state,
    sides,
)
from mfrank.store import FactorStore
from mfrank.store import contents as extra_rows


class _FittedWalk(NamedTuple):
    """A walk, the users' restart probabilities, shape (n_users, n_items), and the fit's options."""

    walk: ItemWalk
    starts: sp.csr_array
    alpha: float
    recent: int
    tolerance: float


class WalkExplanation(NamedTuple):
    """Explanation of a recommended item.

    Attributes
    ----------
    score : float
        Stationary probability of the item.
    paths : list of Path
        ``(items, mass)``, largest mass first. A path leads from a restart item of the walk to this
        item, with at most two items between them.
    """

    score: float
    paths: list[Path]


class WalkRecommender(RowScorer):
    """A recommender by the probabilities of a walk on items, which is in the store's extras.

    A user's walk restarts at their recent items in the fit. With ``recalculate_user``, it restarts
    at the items of ``user_items``: the last ``recent`` ones for Interactions with timestamps,
    otherwise all, without a recency weight. A user without items gets the item prior. Similar items
    are the most likely items of a walk that restarts at the item.
    """

    @of_one_state
    def explain(
        self,
        userid: Raw,
        itemid: Raw,
        user_items: Matrix | None = None,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> WalkExplanation:
        """The paths of up to three steps by which a user's walk reaches an item.

        The masses of all paths, of any length, sum to the item's probability
        (:func:`mfrank.pagerank.item_walk.heaviest_paths`).

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions or scipy sparse, optional
            Restart items of the user, as with ``recalculate_user`` in :meth:`recommend`.
        N : int, default 10
            Maximum number of paths to return.

        Raises
        ------
        ValueError, TypeError
            ``userid`` or ``itemid`` is not one id, or is unknown; or as in :meth:`recommend`.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        model = self._snapshot()  # which another thread may change meanwhile
        both, walk = sides(model.store, by_row=by_row), model._walk
        item = int(both[1].rows(itemid, "itemid")[0])
        if user_items is None:
            start = model._rows_of(both[0].rows(userid, "userid"))
        else:
            known = KnownQueries.to_solve(both[0], userid)
            start = model._rows_given(OwnRows(known, user_items, both[1], None))
        fitted = model._fitted()
        values = walk.rank(start, fitted.tolerance, model._walker(fitted.alpha, model.n_threads))[0]
        if not start.nnz:  # a user without items: as in ItemWalk.rank
            start = sp.csr_array(walk.bases[None] / walk.bases.sum())
        paths = heaviest_paths(walk, start, values, item, fitted.alpha, N)
        named = [
            Path(tuple(both[1].answer(np.array(path.items, np.int32)).tolist()), path.mass)
            for path in paths
        ]
        return WalkExplanation(float(values[item]), named)

    def _parts_of(self, store: FactorStore) -> _FittedWalk:
        walk = ItemWalk.from_arrays(dict(store.extras))
        if walk.n_items != store.n_items:
            raise ValueError(f"the walk is of {walk.n_items} items, the store of {store.n_items}")
        starts = extra_rows.unpack(store.extras, "starts", (store.n_users, store.n_items))
        options = store.fitter["options"]
        return _FittedWalk(walk, starts, options["alpha"], options["recent"], options["tolerance"])

    def _fitted(self) -> _FittedWalk:
        parts: _FittedWalk = self._now().parts
        return parts

    @property
    def _walk(self) -> ItemWalk:
        return self._fitted().walk

    def _rows_of(self, users: NDArray[np.int64]) -> sp.csr_array:
        """Restart probabilities of users of the fit, shape (len(users), n_items)."""
        return extra_rows.pick(self._fitted().starts, users, "starts")

    def _rows_given(self, own: OwnRows) -> sp.csr_array:
        data = own.matrix
        if isinstance(data, Interactions) and data.timestamps is not None:
            recent = recencies(data, self._fitted().recent)
            timed = replace(data, user_items=recent, timestamps=None, seen_only=None)
            return self._walk.starts(replace(own, matrix=timed).rows)
        rows = own.rows
        ones = (rows.data != 0).astype(np.float64)
        given = sp.csr_array((ones, rows.indices, rows.indptr), rows.shape, copy=True)
        given.eliminate_zeros()  # what is only seen
        return self._walk.starts(given)

    def _scores_of(self, rows: sp.csr_array, n_threads: int) -> NDArray[Any]:
        fitted = self._fitted()
        walker = self._walker(fitted.alpha, n_threads)
        return fitted.walk.rank(rows, fitted.tolerance, walker)

    def _nothing_in(self, rows: sp.csr_array, scores: NDArray[Any]) -> NDArray[np.bool_]:
        return np.zeros(len(scores), dtype=bool)  # without items, the prior ranks

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        one_each = np.ones(len(items)), items, np.arange(len(items) + 1)
        starts = sp.csr_array(one_each, (len(items), self._walk.n_items))
        scores = self._scores_of(starts, n_threads)
        scores[scores == 0] = -np.inf  # which the walk does not reach
        return scores

    def _walker(self, alpha: float, n_threads: int) -> Walker:
        return Walker(alpha, choose(self.backend), n_threads)


def walk_arrays(walk: ItemWalk, starts: sp.csr_array) -> dict[str, NDArray[Any]]:
    """A walk and the users' restart probabilities, as arrays for a store's extras."""
    return {
        **walk.to_arrays(),
        **extra_rows.pack("starts", starts),
    }


# The learning queries and the serving graph of a supervised PageRank fit.


Floats = NDArray[np.float64]


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
    threshold : float or None
        Threshold of the interactions.
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
