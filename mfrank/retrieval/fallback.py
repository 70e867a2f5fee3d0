"""Lists of users without usable data: padding or, by ``fallback``, the most popular items.

The same holds for the unfilled end of a list.

A user has no usable data if the model cannot rank items for them: no interactions that count, only
unknown items, or an id without data in the fit. Otherwise, ties at score 0 would list the first
items in sort order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import beside, counted, on_host
from mfrank.backends import Factors
from mfrank.data import Interactions
from mfrank.errors import InputValueError, Notice
from mfrank.retrieval.filters import Candidates, some_lists
from mfrank.retrieval.lists_by_id import ListCall, QueryFactors, best
from mfrank.retrieval.model_state import ModelState
from mfrank.retrieval.queries import Matrix
from mfrank.retrieval.side import Side
from mfrank.retrieval.steered import best_steered
from mfrank.retrieval.top_k import Lists, emptied, without_repeats
from mfrank.store import FactorStore

_log = logging.getLogger("mfrank")
_untold: ContextVar[list[int] | None] = ContextVar("untold", default=None)


@contextmanager
def unannounced() -> Iterator[list[int]]:
    """Suppress the notice on users without usable data in this block; append their numbers."""
    counts: list[int] = []
    token = _untold.set(counts)
    try:
        yield counts
    finally:
        _untold.reset(token)


def tell_nobody(n_nobody: int, n_queries: int, noun: str, *, filled: bool = False) -> None:
    """Log, once per call, the number of queries without usable data and the effect, if any."""
    if not n_nobody:
        return
    if (untold := _untold.get()) is not None:
        untold.append(n_nobody)
        return
    level = logging.INFO if n_queries == 1 else logging.WARNING  # one empty list is seen as it is
    then = "are of the most popular items" if filled else "are empty"
    if noun == "user" and not filled:
        then += '; `fallback="popularity"` lists popular items'
    told = f"{n_nobody:,} of {counted(n_queries, noun)}"
    _log.log(level, Notice(f"{told}: nothing to go by, so their lists {then}"))


def popularity_of(held: ModelState, given: Matrix | None, items: Side) -> Factors:
    """Number of users with each item, shape (n_items, 1), for the fallback of a call.

    Raises
    ------
    ValueError
        Neither the model nor the call has interactions to count.
    """
    if held.seen is not None:
        return held.seen.popularity
    if not isinstance(given, Interactions):
        raise InputValueError(
            '`fallback="popularity"` needs the interactions of the fit, which this model does not '
            "have:",
            "fit it anew, save it `with_seen=True`, or pass `user_items=Interactions`",
        )
    liked = given.user_items.indices[given.user_items.data > 0]
    counts = np.bincount(liked, minlength=given.n_items)
    rows = items.ids.rows(given.item_ids.labels, missing=-1)
    popularity = np.zeros((len(items.ids), 1))
    popularity[rows[rows >= 0], 0] = counts[rows >= 0]
    return popularity


def settled(
    call: ListCall,
    lists: Lists,
    nobody: NDArray[np.bool_],
    filters: Candidates,
    candidates: Candidates,
) -> Lists:
    """The lists of a call, emptied or filled with popular items for unknown users and ``nobody``.

    With the fallback, popular items also fill the end of short lists, unless levers choose items
    position by position, because caps hold for whole lists.

    Parameters
    ----------
    call : ListCall
    lists : Lists
        May change.
    nobody : bool, shape (U,)
        Users without usable data.
    filters : Candidates
        Filters without seen items, because an unknown user has the seen items of a placeholder.
    candidates : Candidates
        Filters with seen items.
    """
    known, popularity = call.own.known, call.popularity
    unknown = known.unknown
    nobody = beside(nobody, lists[0])
    if unknown is not None:
        nobody &= ~beside(unknown, nobody)
    tell_nobody(int(nobody.sum()), len(nobody), "user", filled=popularity is not None)
    lists = known.blank(emptied(lists, nobody))
    if popularity is None:
        return lists
    short = nobody
    if call.levers is None or not call.levers.chooses:
        short = lists[0][:, -1] < 0
        if unknown is not None:
            short &= ~beside(unknown, short)
    if bool(short.any()):
        _fill(call, lists, np.flatnonzero(short), candidates)
    if unknown is not None and bool(unknown.any()):
        rows = np.flatnonzero(beside(unknown, nobody))
        own = candidates if _has_row_each(call) else filters
        _fill(call._replace(history=None), lists, rows, own)
    return lists


def lists_of_unknown(call: ListCall, *, filter_seen: bool) -> Lists:
    """The lists of a call whose users are all unknown."""
    known, items = call.own.known, call.own.answering
    lists = known.padding(call.options.n)
    if call.popularity is None:
        return lists
    candidates = call.options.candidates(known.queries, items)
    if filter_seen and _has_row_each(call):
        candidates = candidates.without_lists(call.own.seen())
    _fill(call, lists, np.arange(len(lists[0])), candidates)
    return lists


def _fill(call: ListCall, lists: Lists, rows: NDArray[np.int64], candidates: Candidates) -> None:
    """Write the most popular items into the lists of some queries, after what they have."""
    counts, history = call.popularity, call.history
    assert counts is not None
    store, rank = FactorStore(np.ones((1, 1)), counts), best
    items = call.own.answering._replace(store=store)
    if call.levers is not None:
        had = None if history is None else some_lists(history, rows)
        rank = partial(best_steered, call.levers, store, had, directions=call.held.store)
    queries = QueryFactors(np.ones((len(rows), 1)), None)
    found = rank(queries, items, call.options, candidates.of_queries(rows))
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


def _has_row_each(call: ListCall) -> bool:
    """Whether the call has a matrix with a row for each of its users, known or not."""
    matrix: Any = call.own.matrix
    if matrix is None or isinstance(matrix, Interactions):
        return False
    return bool(matrix.shape[0] == call.own.known.queries.n_queries)
