"""Recommenders that score all items from one sparse row per query, without factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.retrieval.answers import Answer, answer
from mfrank.retrieval.candidates import Candidates
from mfrank.retrieval.queries import Asked, Rows
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.scored_lists import best_lists, blocks
from mfrank.retrieval.sides import Matrix, Raw, Side, sides
from mfrank.retrieval.top_k import Lists

__all__ = ["RowScorer"]


class RowScorer(Recommender):
    """A recommender whose scores come from a row of items: a user's own, or a walk's restarts.

    A subclass states the rows of users (:meth:`_rows_of`, :meth:`_rows_given`) and the scores of
    all items that follow from rows (:meth:`_scores_of`). Scores and lists are on the host.
    """

    n_threads: int = 0

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

        Scores follow from the users' rows of the fit or, with ``recalculate_user``, from those of
        ``user_items``. A user's list does not depend on the other users of the call.
        """
        wanted = self._wanted(N, filter_items, items, n_threads)
        users, item_side = sides(self.store, by_row=by_row)
        asked, rows = self._queries(userid, user_items, recalculate_user, (users, item_side))
        seen = None
        if filter_already_liked_items:
            seen = self._seen_by(userid, user_items, users, item_side)
        candidates = wanted.candidates(asked, item_side, seen)
        return answer(self._lists(rows, candidates, N, n_threads), item_side, userid)

    def score(self, userid: ArrayLike, itemid: ArrayLike, *, by_row: bool = False) -> NDArray[Any]:
        """Scores of user ``userid[j]`` for item ``itemid[j]``, float64, shape (pairs,)."""
        users, items = sides(self.store, by_row=by_row)
        rows = users.rows(userid, "userid"), items.rows(itemid, "itemid")
        if len(rows[0]) != len(rows[1]):
            raise ValueError(f"{len(rows[0])} users for {len(rows[1])} items; pass one item a user")
        distinct_users, place = np.unique(rows[0], return_inverse=True)
        scores = np.empty(len(place))
        for block in blocks(len(distinct_users), len(items.ids)):
            of_block = (place >= block.start) & (place < block.stop)
            values = self._scores_of(self._rows_of(distinct_users[block]), self.n_threads)
            scores[of_block] = values[place[of_block] - block.start, rows[1][of_block]]
        return scores

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: the scores of one user do not compare with another's."""
        raise TypeError(
            f"{type(self).__name__} ranks items for a user; it cannot rank users for an item"
        )

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: there are no user factors."""
        raise TypeError(f"{type(self).__name__} relates items; it cannot compare users")

    def _rows_of(self, users: Rows) -> sp.csr_array:
        """Rows of users of the fit, float64, shape (len(users), n_items)."""
        raise NotImplementedError

    def _rows_given(
        self, userid: Raw, user_items: Matrix, users: Side, items: Side
    ) -> sp.csr_array:
        """Rows of users from what they have now, in the same form."""
        raise NotImplementedError

    def _scores_of(self, rows: sp.csr_array, n_threads: int) -> NDArray[Any]:
        """Scores of all items, a new float64 array of shape (len(rows), n_items)."""
        raise NotImplementedError

    def _queries(
        self, userid: Raw, user_items: Matrix | None, recalculate: bool, both: tuple[Side, Side]
    ) -> tuple[Asked, sp.csr_array]:
        """The users as queries, and their rows."""
        users, items = both
        if not recalculate:
            rows = users.rows(userid, "userid")
            return Asked.known(rows, len(users.ids)), self._rows_of(rows)
        if user_items is None:
            raise ValueError("recalculate_user=True needs the users' rows in user_items")
        given = self._rows_given(userid, user_items, users, items)
        return users.asked(userid), given

    def _lists(
        self,
        rows: sp.csr_array,
        candidates: Candidates,
        n: int,
        n_threads: int,
        first: NDArray[np.int64] | None = None,
    ) -> Lists:
        return best_lists(
            lambda block: self._scores_of(rows[block], n_threads),
            rows.shape[0],
            rows.shape[1],
            candidates,
            n,
            first,
        )
