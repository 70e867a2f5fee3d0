"""What is asked of a fitted walk: lists with a recommender's contract, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_count
from mfrank.backends import choose
from mfrank.csr_checks import check_csr, check_indptr
from mfrank.data.interactions import Interactions
from mfrank.models.page_rank_lists import walked_lists
from mfrank.pagerank.item_walk import ItemWalk
from mfrank.pagerank.next_clicks import recencies
from mfrank.pagerank.paths import Path, heaviest_paths
from mfrank.pagerank.stationary import Walker
from mfrank.retrieval.asked import Asked
from mfrank.retrieval.candidates import Candidates
from mfrank.retrieval.lists import Answer, answer
from mfrank.retrieval.recommend import Lists
from mfrank.retrieval.recommender import NotFittedError, Recommender
from mfrank.retrieval.sides import Matrix, Raw, Side, given_rows, is_single, sides
from mfrank.store.checks import check_finite, is_mapped
from mfrank.store.factors import FactorStore

__all__ = ["WalkExplanation", "WalkRecommender", "walk_arrays"]


class _Served(NamedTuple):
    """A walk, and where those of the users restart, users x items."""

    walk: ItemWalk
    starts: sp.csr_array


class WalkExplanation(NamedTuple):
    """Why an item is recommended.

    Attributes
    ----------
    score : float
        Probability of the item.
    paths : list of Path
        ``(items, mass)``, greatest mass first, each from an item that the walk restarts at, over at
        most two others, to this one.
    """

    score: float
    paths: list[Path]


class WalkRecommender(Recommender):
    """A recommender whose scores are probabilities of a walk on items, kept in a store's extras."""

    alpha: float
    recent: int
    tolerance: float
    n_threads: int
    _served: _Served | None = None

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
        """Best items of one or many users, as :meth:`mfrank.Recommender.recommend`.

        A user's walk restarts at their recent items in the fit, or with ``recalculate_user`` at
        those of ``user_items``: the last ``recent`` by time of Interactions with timestamps, else
        all of them alike. Someone without any gets the item prior. A list does not depend on who
        else is asked for.
        """
        wanted = self._wanted(N, filter_items, items, n_threads)
        users, item_side = sides(self.store, by_row=by_row)
        asked, starts = self._asked(userid, user_items, recalculate_user, (users, item_side))
        seen = None
        if filter_already_liked_items:
            seen = self._seen_by(userid, user_items, users, item_side)
        chosen = wanted.candidates(asked, item_side, seen)
        lists = self._lists(starts, chosen, N, n_threads)
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
        """Items that a walk which restarts at one item finds most likely.

        That item comes first in its own list, unless it is filtered.
        """
        wanted = self._wanted(N, filter_items, items, n_threads)
        side = sides(self.store, by_row=by_row)[1]
        rows = side.rows(itemid, "itemid")
        chosen = wanted.candidates(Asked.known(rows, len(side.ids)), side)
        alone = np.ones(len(rows)), rows, np.arange(len(rows) + 1)
        starts = sp.csr_array(alone, (len(rows), len(side.ids)))
        walker = self._walker(n_threads)
        lists = walked_lists(self._walk, starts, chosen, N, walker, self.tolerance, first=rows)
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
        """Paths along which a user's walk comes to an item, of up to three steps.

        The masses of all paths, longer ones too, sum to the item's probability
        (:func:`mfrank.pagerank.paths.heaviest_paths`).

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions or scipy sparse, optional
            The walk restarts at their items, as with ``recalculate_user`` in :meth:`recommend`.
        N : int, default 10
            Paths to name.
        """
        check_count("N", N, 1)
        for name, raw in (("userid", userid), ("itemid", itemid)):
            if not is_single(raw):
                raise TypeError(f"{name} must be one id, got {raw!r}")
        both = sides(self.store, by_row=by_row)
        item = int(both[1].rows(itemid, "itemid")[0])
        _, start = self._asked(userid, user_items, user_items is not None, both)
        values = self._walk.rank(start, self.tolerance, self._walker(self.n_threads))[0]
        if not start.nnz:  # nothing is known of them: anywhere
            start = sp.csr_array(self._walk.bases[None] / self._walk.bases.sum())
        paths = heaviest_paths(self._walk, start, values, item, self.alpha, N)
        named = [
            Path(tuple(both[1].answer(np.array(path.items, np.int32)).tolist()), path.mass)
            for path in paths
        ]
        return WalkExplanation(float(values[item]), named)

    def score(self, userid: ArrayLike, itemid: ArrayLike, *, by_row: bool = False) -> NDArray[Any]:
        """Probabilities of pairs: of item ``itemid[j]`` in the walk of ``userid[j]``."""
        users, items = sides(self.store, by_row=by_row)
        rows = users.rows(userid, "userid"), items.rows(itemid, "itemid")
        if len(rows[0]) != len(rows[1]):
            raise ValueError(f"{len(rows[0])} users for {len(rows[1])} items; give pairs")
        asked, place = np.unique(rows[0], return_inverse=True)
        scores, walker = np.empty(len(place)), self._walker(self.n_threads)
        for block in self._walk.blocks(len(asked)):
            of_block = (place >= block.start) & (place < block.stop)
            values = self._walk.rank(self._starts_of(asked[block]), self.tolerance, walker)
            scores[of_block] = values[place[of_block] - block.start, rows[1][of_block]]
        return scores

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Not of a walk, whose probabilities compare items, not users: raises TypeError."""
        raise TypeError("walks rank items for a user; they cannot rank users for an item")

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """Not of a walk, which has no factors of users: raises TypeError."""
        raise TypeError("walks are of items, they cannot tell which users are alike")

    def _adopt(self, store: FactorStore) -> None:
        super()._adopt(store)
        walk = ItemWalk.from_arrays(dict(store.extras))
        if walk.n_items != store.n_items:
            raise ValueError(f"the walk is of {walk.n_items} items, the store of {store.n_items}")
        self._served = _Served(walk, _saved_starts(store))

    def _fitted(self) -> _Served:
        if self._served is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._served

    @property
    def _walk(self) -> ItemWalk:
        return self._fitted().walk

    def _starts_of(self, rows: NDArray[np.int64]) -> sp.csr_array:
        """Where the walks of users of the fit restart."""
        picked: sp.csr_array = self._fitted().starts[rows]
        # Columns of a map are first read here; scipy adds rows without looking where they lie.
        check_csr(picked.indptr, picked.indices, *picked.shape, "starts")
        return picked

    def _lists(
        self,
        starts: sp.csr_array,
        chosen: Candidates,
        n: int,
        n_threads: int,
        first: NDArray[np.int64] | None = None,
    ) -> Lists:
        walker = self._walker(n_threads)
        return walked_lists(self._walk, starts, chosen, n, walker, self.tolerance, first)

    def _walker(self, n_threads: int) -> Walker:
        return Walker(self.alpha, choose(self.backend), n_threads)

    def _asked(
        self, userid: Raw, user_items: Matrix | None, anew: bool, both: tuple[Side, Side]
    ) -> tuple[Asked, sp.csr_array]:
        """Who asks, and where their walks restart."""
        users, items = both
        if not anew:
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
    """Where walks restart, from a store's extras; columns that are mapped are not looked at."""
    shares, indices, indptr = (
        store.extras[name] for name in ("starts", "starts_indices", "starts_indptr")
    )
    if shares.dtype != np.float64 or indices.dtype != np.int32 or shares.shape != indices.shape:
        raise ValueError("starts must be float64, each with an int32 column")
    if is_mapped(indices):
        check_indptr(indptr, indices.size, store.n_users, "starts")
    else:
        check_csr(indptr, indices, store.n_users, store.n_items, "starts")
        check_finite("starts", shares)
    return sp.csr_array((shares, indices, indptr), (store.n_users, store.n_items))


def walk_arrays(walk: ItemWalk, starts: sp.csr_array) -> dict[str, NDArray[Any]]:
    """A walk and where those of the users restart, as arrays of a store's extras."""
    return {
        **walk.to_arrays(),
        "starts_indptr": starts.indptr.astype(np.int64),
        "starts_indices": starts.indices.astype(np.int32),
        "starts": starts.data,
    }
