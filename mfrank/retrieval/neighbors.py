"""Similar items and users of a store, by cosine, also for rows that are new to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank.backends import Factors, choose
from mfrank.data import OnUnknown
from mfrank.retrieval.answers import Answer, Fallback, ListOptions, around, closest
from mfrank.retrieval.fitted import Fitted
from mfrank.retrieval.side import Matrix, Raw, given_ids, sides


class Similar(Fitted):
    """Lists of similar items and users; a model with a quadratic objective also folds rows in."""

    def similar_items(
        self,
        itemid: Raw,
        N: int = 10,
        filter_items: Any = None,
        items: Any = None,
        *,
        recalculate_item: bool = False,
        item_users: Matrix | None = None,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        n_threads: int = 0,
    ) -> Answer:
        """Items with the highest cosine to the factors of one or many items.

        An item comes first in its own list, unless it is filtered. Filters are those of
        :meth:`mfrank.Recommender.recommend`. An item of which the model knows nothing is in no
        other list, and its own has no others.

        With ``recalculate_item``, the factors of the items, which may be new to the model, are
        first solved from their rows of ``item_users`` (Interactions, or a sparse matrix with one
        row per item id); it is read only then. An item that the model has is then listed by the
        cosine of its old factors to the new, like any other.
        """
        side, itemid = sides(self.placed, by_row=by_row)[1], given_ids(itemid, "itemid")
        options = self._options(N, filter_items, items, n_threads, on_unknown)
        if not recalculate_item:
            return closest(side, itemid, options)
        if item_users is None:
            raise ValueError("recalculate_item=True needs the items' rows in item_users")
        factors = self.recalculate_item(itemid, item_users, by_row=by_row)
        return around(side, itemid, np.atleast_2d(factors), options)

    def similar_users(
        self,
        userid: Raw,
        N: int = 10,
        filter_users: Any = None,
        users: Any = None,
        *,
        recalculate_user: bool = False,
        user_items: Matrix | None = None,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        n_threads: int = 0,
    ) -> Answer:
        """Users with the highest cosine to one or many users, like :meth:`similar_items`."""
        side, userid = sides(self.placed, by_row=by_row)[0], given_ids(userid, "userid")
        options = self._options(N, filter_users, users, n_threads, on_unknown)
        if not recalculate_user:
            return closest(side, userid, options)
        if user_items is None:
            raise ValueError("recalculate_user=True needs the users' rows in user_items")
        factors = self.recalculate_user(userid, user_items, by_row=by_row)
        return around(side, userid, np.atleast_2d(factors), options)

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Raise TypeError: only models with a quadratic objective can fold users in."""
        raise TypeError(
            f"{type(self).__name__} cannot fold users in: it has no objective with a closed-form "
            "solution. Use recalculate_user=False; evaluate it by a split such as by_time or "
            "by_ratio, whose test users are in the training part"
        )

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Raise TypeError: only models with a quadratic objective can fold items in."""
        raise TypeError(
            f"{type(self).__name__} cannot fold items in: it has no objective with a closed-form "
            "solution. Use recalculate_item=False"
        )

    def _options(
        self,
        n: int,
        blocked: Any,
        only: Any,
        n_threads: int,
        on_unknown: OnUnknown,
        fallback: Fallback = "none",
    ) -> ListOptions:
        backend = choose(self.backend)
        return ListOptions(n, blocked, only, n_threads, backend, on_unknown, fallback)
