"""Recommendations, scores and explanations from a fitted walk on items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_count, shown
from mfrank.arrays.csr_checks import check_csr, check_indptr
from mfrank.backends import choose
from mfrank.data.interactions import Interactions
from mfrank.models.page_rank.lists import walked_lists
from mfrank.pagerank.item_walk import ItemWalk
from mfrank.pagerank.next_clicks import recencies
from mfrank.pagerank.paths import Path, heaviest_paths
from mfrank.pagerank.stationary import Walker
from mfrank.retrieval.answers import Answer, answer
from mfrank.retrieval.candidates import Candidates
from mfrank.retrieval.queries import Asked
from mfrank.retrieval.recommender import NotFittedError, Recommender
from mfrank.retrieval.sides import Matrix, Raw, Side, given_rows, is_single, sides
from mfrank.retrieval.top_k import Lists
from mfrank.store.checks import check_finite, is_mapped
from mfrank.store.factors import FactorStore

__all__ = ["WalkExplanation", "WalkRecommender", "walk_arrays"]


class _FittedWalk(NamedTuple):
    """A walk, and the users' restart probabilities, shape (n_users, n_items)."""

    walk: ItemWalk
    starts: sp.csr_array


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


class WalkRecommender(Recommender):
    """A recommender by the probabilities of a walk on items, which the store has in its extras."""

    alpha: float
    recent: int
    tolerance: float
    n_threads: int
    _fitted_walk: _FittedWalk | None = None

    def recommend(
        self,
        userid: Raw,
        user_items: Matrix | None = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
        *,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Best items of one or many users; parameters as in :meth:`mfrank.Recommender.recommend`.

        A user's walk restarts at their recent items of the fit. With ``recalculate_user`` it
        restarts at those of ``user_items``: the last ``recent`` by time if these are Interactions
        with timestamps, otherwise all of them without a recency weight. A user without items gets
        the item prior. A user's list does not depend on the other users of the call.
        """
        wanted = self._wanted(N, filter_items, items, n_threads)
        users, item_side = sides(self.store, by_row=by_row)
        queries, starts = self._queries(userid, user_items, recalculate_user, (users, item_side))
        seen = None
        if filter_already_liked_items:
            seen = self._seen_by(userid, user_items, users, item_side)
        candidates = wanted.candidates(queries, item_side, seen)
        lists = self._lists(starts, candidates, N, n_threads)
        return answer(lists, item_side, userid)

    def similar_items(
        self,
        itemid: Raw,
        N: int = 10,
        filter_items: Any = None,
        items: Any = None,
        *,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Items that are most likely in a walk that restarts at the given item.

        Parameters are those of :meth:`mfrank.Recommender.similar_items`. An item comes first in
        its own list, unless it is filtered.
        """
        wanted = self._wanted(N, filter_items, items, n_threads)
        side = sides(self.store, by_row=by_row)[1]
        rows = side.rows(itemid, "itemid")
        candidates = wanted.candidates(Asked.known(rows, len(side.ids)), side)
        one_each = np.ones(len(rows)), rows, np.arange(len(rows) + 1)
        starts = sp.csr_array(one_each, (len(rows), len(side.ids)))
        lists = self._lists(starts, candidates, N, n_threads, first=rows)
        return answer(lists, side, itemid)

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
        for name, raw in (("userid", userid), ("itemid", itemid)):
            if not is_single(raw):
                raise TypeError(f"{name} must be one id, got {shown(raw)}")
        both = sides(self.store, by_row=by_row)
        item = int(both[1].rows(itemid, "itemid")[0])
        _, start = self._queries(userid, user_items, user_items is not None, both)
        values = self._walk.rank(start, self.tolerance, self._walker(self.n_threads))[0]
        if not start.nnz:  # a user without items: as in ItemWalk.rank
            start = sp.csr_array(self._walk.bases[None] / self._walk.bases.sum())
        paths = heaviest_paths(self._walk, start, values, item, self.alpha, N)
        named = [
            Path(tuple(both[1].answer(np.array(path.items, np.int32)).tolist()), path.mass)
            for path in paths
        ]
        return WalkExplanation(float(values[item]), named)

    def score(self, userid: ArrayLike, itemid: ArrayLike, *, by_row: bool = False) -> NDArray[Any]:
        """Probability of item ``itemid[j]`` in the walk of user ``userid[j]``, shape (pairs,)."""
        users, items = sides(self.store, by_row=by_row)
        rows = users.rows(userid, "userid"), items.rows(itemid, "itemid")
        if len(rows[0]) != len(rows[1]):
            raise ValueError(f"{len(rows[0])} users for {len(rows[1])} items; pass one item a user")
        distinct_users, place = np.unique(rows[0], return_inverse=True)
        scores, walker = np.empty(len(place)), self._walker(self.n_threads)
        for block in self._walk.blocks(len(distinct_users)):
            of_block = (place >= block.start) & (place < block.stop)
            starts = self._starts_of(distinct_users[block])
            values = self._walk.rank(starts, self.tolerance, walker)
            scores[of_block] = values[place[of_block] - block.start, rows[1][of_block]]
        return scores

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: a walk's probabilities compare items, not users."""
        raise TypeError("walks rank items for a user; they cannot rank users for an item")

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: a walk has no user factors."""
        raise TypeError("walks are on items; they cannot compare users")

    def _adopt(self, store: FactorStore) -> None:
        super()._adopt(store)
        walk = ItemWalk.from_arrays(dict(store.extras))
        if walk.n_items != store.n_items:
            raise ValueError(f"the walk is of {walk.n_items} items, the store of {store.n_items}")
        self._fitted_walk = _FittedWalk(walk, _saved_starts(store))

    def _fitted(self) -> _FittedWalk:
        if self._fitted_walk is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._fitted_walk

    @property
    def _walk(self) -> ItemWalk:
        return self._fitted().walk

    def _starts_of(self, rows: NDArray[np.int64]) -> sp.csr_array:
        """Restart probabilities of users of the fit, shape (len(rows), n_items)."""
        picked: sp.csr_array = self._fitted().starts[rows]
        # Memory-mapped columns are read here for the first time; scipy does not check them.
        check_csr(picked.indptr, picked.indices, *picked.shape, "starts")
        return picked

    def _lists(
        self,
        starts: sp.csr_array,
        candidates: Candidates,
        n: int,
        n_threads: int,
        first: NDArray[np.int64] | None = None,
    ) -> Lists:
        walker = self._walker(n_threads)
        return walked_lists(self._walk, starts, candidates, n, walker, self.tolerance, first)

    def _walker(self, n_threads: int) -> Walker:
        return Walker(self.alpha, choose(self.backend), n_threads)

    def _queries(
        self, userid: Raw, user_items: Matrix | None, recalculate: bool, both: tuple[Side, Side]
    ) -> tuple[Asked, sp.csr_array]:
        """The users as queries, and their restart probabilities."""
        users, items = both
        if not recalculate:
            rows = users.rows(userid, "userid")
            return Asked.known(rows, len(users.ids)), self._starts_of(rows)
        if user_items is None:
            raise ValueError("recalculate_user=True needs the users' rows in user_items")
        timed = user_items
        if isinstance(user_items, Interactions) and user_items.timestamps is not None:
            timed = replace(
                user_items, user_items=recencies(user_items, self.recent), timestamps=None
            )
        given = given_rows(timed, userid, users, items, "user_items")
        if timed is user_items:
            given = sp.csr_array((np.ones(given.nnz), given.indices, given.indptr), given.shape)
        return users.asked(userid), self._walk.starts(given)


def _saved_starts(store: FactorStore) -> sp.csr_array:
    """Restart probabilities from a store's extras; memory-mapped columns are not read yet."""
    probabilities, indices, indptr = (
        store.extras[name] for name in ("starts", "starts_indices", "starts_indptr")
    )
    right_dtypes = probabilities.dtype == np.float64 and indices.dtype == np.int32
    if not right_dtypes or probabilities.shape != indices.shape:
        raise ValueError("starts must be float64, each with an int32 column")
    if is_mapped(indices):
        check_indptr(indptr, indices.size, store.n_users, "starts")
    else:
        check_csr(indptr, indices, store.n_users, store.n_items, "starts")
        check_finite("starts", probabilities)
    return sp.csr_array((probabilities, indices, indptr), (store.n_users, store.n_items))


def walk_arrays(walk: ItemWalk, starts: sp.csr_array) -> dict[str, NDArray[Any]]:
    """A walk and the users' restart probabilities, as arrays for a store's extras."""
    return {
        **walk.to_arrays(),
        "starts_indptr": starts.indptr.astype(np.int64),
        "starts_indices": starts.indices.astype(np.int32),
        "starts": starts.data,
    }
