"""Recommendations, scores and explanations from a fitted walk on items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.checks import check_count
from mfrank.backends import choose
from mfrank.data.interactions import Interactions
from mfrank.pagerank.item_walk import ItemWalk
from mfrank.pagerank.next_clicks import recencies
from mfrank.pagerank.paths import Path, heaviest_paths
from mfrank.pagerank.stationary import Walker
from mfrank.retrieval.queries import Rows
from mfrank.retrieval.row_scorer import RowScorer, of_one_state
from mfrank.retrieval.sides import Matrix, Raw, Side, given_id, given_rows, sides
from mfrank.store import extra_rows
from mfrank.store.factors import FactorStore

__all__ = ["WalkExplanation", "WalkRecommender", "walk_arrays"]


class _FittedWalk(NamedTuple):
    """A walk, the users' restart probabilities, shape (n_users, n_items), and the fit's options."""

    walk: ItemWalk
    starts: sp.csr_array
    alpha: float
    recent: int
    tolerance: float


class WalkExplanation(NamedTuple):
    """Why an item is recommended.

    Attributes
    ----------
    score : float
        Stationary probability of the item.
    paths : list of Path
        ``(items, mass)``, largest mass first. A path leads from an item at which the walk restarts
        to this one, with at most two items between them.
    """

    score: float
    paths: list[Path]


class WalkRecommender(RowScorer):
    """A recommender by the probabilities of a walk on items, which the store has in its extras.

    A user's walk restarts at their recent items of the fit. With ``recalculate_user`` it restarts
    at those of ``user_items``: the last ``recent`` by time if these are Interactions with
    timestamps, otherwise all of them without a recency weight. A user without items gets the item
    prior. Similar items are those most likely in a walk that restarts at the item.
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
        (:func:`mfrank.pagerank.paths.heaviest_paths`).

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions or scipy sparse, optional
            If given, the walk restarts at the user's items in it, as with ``recalculate_user`` in
            :meth:`recommend`.
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
        _, start = model._queries(userid, user_items, user_items is not None, both)
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

    def _rows_given(
        self, userid: Raw, user_items: Matrix, users: Side, items: Side
    ) -> sp.csr_array:
        timed = user_items
        if isinstance(user_items, Interactions) and user_items.timestamps is not None:
            timed = replace(
                user_items, user_items=recencies(user_items, self._fitted().recent), timestamps=None
            )
        given = given_rows(timed, userid, users, items, "user_items")
        if timed is user_items:
            ones = (given.data != 0).astype(np.float64)
            given = sp.csr_array((ones, given.indices, given.indptr), given.shape, copy=True)
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
