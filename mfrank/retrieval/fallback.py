"""Lists of users with nothing to go by: empty, or on request the most popular items.

So are the last places of lists that a model does not fill.

A user has nothing to go by if the model knows nothing that tells one item from another for them:
no interactions (or none that count), all of their items unknown, an id that the fit only named.
Without this, ties at score 0 would list the first items in sort order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Listed, beside, counted, on_host
from mfrank.backends import Factors
from mfrank.data import Interactions
from mfrank.retrieval.answers import KnownQueries, ListOptions, QueryFactors
from mfrank.retrieval.filters import Candidates, Queries, some_lists
from mfrank.retrieval.fitted import Held
from mfrank.retrieval.side import Matrix, Side
from mfrank.retrieval.steered import best_steered
from mfrank.retrieval.top_k import Lists, emptied, without_repeats
from mfrank.steering import Levers
from mfrank.store import FactorStore, empty_rows

_log = logging.getLogger("mfrank")
_untold: ContextVar[list[int] | None] = ContextVar("untold", default=None)


@contextmanager
def unannounced() -> Iterator[list[int]]:
    """Calls within say nothing about users with nothing to go by; their numbers are appended."""
    counts: list[int] = []
    token = _untold.set(counts)
    try:
        yield counts
    finally:
        _untold.reset(token)


def tell_nobody(n_nobody: int, n_queries: int, noun: str, *, filled: bool = False) -> None:
    """Say once in a call for how many queries nothing is known, and what follows; else nothing."""
    if not n_nobody:
        return
    if (untold := _untold.get()) is not None:
        untold.append(n_nobody)
        return
    level = logging.INFO if n_queries == 1 else logging.WARNING  # one empty list is seen as it is
    then = "are of the most popular items" if filled else "are empty"
    if noun == "user" and not filled:
        then += '; fallback="popularity" lists popular items'
    told = f"{n_nobody:,} of {counted(n_queries, noun)}"
    _log.log(level, "%s: nothing to go by, so their lists %s", told, then)


def nothing_known(query_factors: QueryFactors, store: FactorStore) -> NDArray[np.bool_]:
    """Queries without factors, for which no biases rank items, bool (U,), beside the factors."""
    factors = query_factors.factors
    empty: NDArray[np.bool_] = np.logical_not(factors.any(axis=1))
    if bool(empty.any()) and store.ranks_anybody:
        empty[:] = False
    return empty


def popularity_of(
    options: ListOptions, held: Held, given: Matrix | None, items: Side
) -> Factors | None:
    """Number of users with each item, (n_items, 1), if the call has the fallback; else None.

    Raises
    ------
    ValueError
        Neither the model nor the call has interactions to count.
    """
    if options.fallback == "none":
        return None
    if held.seen is not None:
        return held.seen.popularity
    if not isinstance(given, Interactions):
        raise ValueError(
            'fallback="popularity" needs the interactions of the fit, which this model does not '
            "have: fit it anew, save it with_seen=True, or pass user_items=Interactions"
        )
    liked = given.user_items.indices[given.user_items.data > 0]
    counts = np.bincount(liked, minlength=given.n_items)
    rows = items.ids.rows(given.item_ids.labels, missing=-1)
    popularity = np.zeros((len(items.ids), 1))
    popularity[rows[rows >= 0], 0] = counts[rows >= 0]
    return popularity


@dataclass(frozen=True, slots=True, eq=False)
class Nobody:
    """What a call needs to empty or fill the lists of users with nothing to go by, and short lists.

    Attributes
    ----------
    options : ListOptions
    items : Side
    popularity : (n_items, 1), or None
        As of :func:`popularity_of`.
    levers : Levers, or None
    store : FactorStore
        Of the model.
    """

    options: ListOptions
    items: Side
    popularity: Factors | None
    levers: Levers | None
    store: FactorStore

    def settled(
        self,
        lists: Lists,
        nobody: NDArray[np.bool_],
        known: KnownQueries,
        filters: tuple[Queries, Candidates],
        history: sp.csr_array | Listed | None,
        user_items: Matrix | None,
    ) -> Lists:
        """The lists, in which those of nobody and of unknown users are empty or popular.

        With the fallback, popular items also follow the others in lists that are shorter than
        asked, unless levers choose the items of lists place by place: caps hold for whole lists.

        Parameters
        ----------
        lists : Lists
            May change.
        nobody : bool, shape (U,)
        known : Known
            The users of the call.
        filters : Queries and Candidates
            Of all users; an unknown user has the seen items of a stand-in, unless ``user_items`` is
            a matrix with a row for each user.
        history : a row for each query, or None
            What the queries have, for calibration.
        user_items : as in the call
        """
        if self.popularity is None and known.unknown is None and not nobody.any():
            return lists  # as nearly always
        queries, candidates = filters
        nobody = beside(nobody, lists[0])
        if known.unknown is not None:
            nobody &= ~beside(known.unknown, nobody)
        n_nobody = int(nobody.sum())
        tell_nobody(n_nobody, len(nobody), "user", filled=self.popularity is not None)
        lists = known.blank(emptied(lists, nobody))
        if self.popularity is None:
            return lists
        short = nobody
        if self.levers is None or not self.levers.chooses:
            short = lists[0][:, -1] < 0
            if known.unknown is not None:
                short &= ~beside(known.unknown, short)
        if bool(short.any()):
            self._fill(lists, np.flatnonzero(short), candidates, history)
        if known.unknown is not None and bool(known.unknown.any()):
            if not _has_row_each(user_items, len(nobody)):
                candidates = self.options.candidates(queries, self.items)
            self._fill(lists, np.flatnonzero(beside(known.unknown, nobody)), candidates, None)
        return lists

    def all_unknown(
        self, known: KnownQueries, user_items: Matrix | None, *, filters: bool
    ) -> Lists:
        """Lists of users who are all unknown."""
        lists = known.padding(self.options.n)
        if self.popularity is None:
            return lists
        n_users = len(lists[0])
        seen: Any = user_items if filters and _has_row_each(user_items, n_users) else None
        candidates = self.options.candidates(Queries.new(n_users), self.items, seen)
        self._fill(lists, np.arange(n_users), candidates, None)
        return lists

    def _fill(
        self,
        lists: Lists,
        rows: NDArray[np.int64],
        candidates: Candidates,
        history: sp.csr_array | Listed | None,
    ) -> None:
        """Write the most popular items into the lists of some queries, after what they have."""
        counts = self.popularity
        assert counts is not None
        if history is not None:
            history = some_lists(history, rows)
        found = best_steered(
            QueryFactors(Queries.new(len(rows)), np.ones((len(rows), 1)), None),
            replace(
                self.items, factors=counts, biases=None, unmet=lambda: empty_rows(counts, None)
            ),
            self.options,
            candidates.of_queries(rows),
            levers=self.levers,
            store=FactorStore(np.ones((1, 1)), counts),
            history=history,
            directions=self.store,
        )
        for whole, part in zip(lists, _followed(lists, rows, found), strict=True):
            whole[rows] = beside(part, whole, whole.dtype)


def _followed(lists: Lists, rows: NDArray[np.int64], more: Lists) -> Lists:
    """The lists of these rows, each with the items of ``more`` that it does not have after it."""
    own = (on_host(each[beside(rows, each)]) for each in lists)
    ids, scores = (np.hstack([first, on_host(then)]) for first, then in zip(own, more, strict=True))
    ids = without_repeats(ids)
    best = np.argsort(ids < 0, axis=1, kind="stable")[:, : lists[0].shape[1]]
    ids, scores = (np.take_along_axis(each, best, axis=1) for each in (ids, scores))
    return ids, np.where(ids < 0, np.nan, scores)


def _has_row_each(user_items: Matrix | None, n_users: int) -> bool:
    """Whether this is a matrix with a row for each user of the call, known or not."""
    if user_items is None or isinstance(user_items, Interactions):
        return False
    shape: tuple[int, ...] = user_items.shape  # type: ignore[union-attr]
    return shape[0] == n_users
