"""What models of sequences read: the items of a user in their order, as places from the end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import Interactions, cells, rank_in_rows, timestamps_of
from mfrank.models.item_models import NeighborRecommender
from mfrank.models.options import tell_of_liked
from mfrank.models.sequence_regression import Ints, reach_of
from mfrank.retrieval import LikedItems, ModelState, OwnRows, Rows
from mfrank.store import FactorStore
from mfrank.store import contents as extra_rows

_TIES = 0.1
"""Share of interactions without an order from which on it is told."""
_BEFORE_ALL = -(2**62)
"""Times up to here only order what has no time."""

log = logging.getLogger("mfrank")


def rows_given(model: NeighborRecommender, own: OwnRows, decays: Sequence[float]) -> sp.csr_array:
    """The histories of users from what they have now."""
    data = own.matrix
    if isinstance(data, Interactions) and data.timestamps is not None:
        places = places_of(_liked_times(data))
        timed = replace(data, user_items=places, timestamps=None, seen_only=None)
        return histories(replace(own, matrix=timed).rows, decays)
    rows = NeighborRecommender._rows_given(model, own)
    if (np.diff(rows.indptr) > 1).any():
        log.info(
            "%s: `user_items` has no timestamps, so scores are means over all orders of a user's "
            "items",
            type(model).__name__,
        )
    return _in_any_order(rows, decays)


def somebody(
    model: NeighborRecommender,
    held: ModelState,
    own: LikedItems,
    decays: Sequence[float],
    *,
    has_values: bool,
) -> sp.csr_array:
    """The history of somebody new, whose items are given oldest first."""
    tell_of_liked(model, own.values, held.store.threshold, given=has_values)
    liked = own.likes.indices[own.values > 0]
    latest = np.zeros(held.store.n_items, np.int64)
    known = own.given[own.given >= 0]
    latest[known] = np.arange(1, len(known) + 1)  # of a repeated item, the last is kept
    places = np.empty(len(liked))
    places[np.argsort(-latest[liked])] = np.arange(1, len(liked) + 1)
    row = sp.csr_array((places, liked, np.array([0, len(liked)])), (1, held.store.n_items))
    return histories(row, decays)


def scores_after(
    model: NeighborRecommender, items: Rows, decays: Sequence[float], n_threads: int
) -> NDArray[Any]:
    """What comes next after each item alone; -inf where nothing leads."""
    shape = len(items), model.store.n_items
    last = sp.csr_array((np.ones(len(items)), items, np.arange(len(items) + 1)), shape)
    scores = model._scores_of(histories(last, decays), n_threads)
    scores[scores == 0] = -np.inf
    scores[np.arange(len(items)), items] = scores.max(axis=1, initial=1)
    return scores


# When interactions were: updates and removals need the time of each.


def times_of(model: str, other: str, data: Interactions) -> sp.csr_array:
    """The times of what users like, int64, shape (n_users, n_items).

    ``other`` is a model that needs no times, for the error if there are none.
    """
    times = timestamps_of(data, model, other)
    _tell_of_ties(model, data, times)
    return _liked_times(data)


def _liked_times(data: Interactions) -> sp.csr_array:
    kept = np.flatnonzero(data.user_items.data > 0)
    liked = cells.select(data.user_items, kept)
    times = np.asarray(data.timestamps)[kept]
    return sp.csr_array((times, liked.indices, liked.indptr), liked.shape)


def _tell_of_ties(model: str, data: Interactions, times: Ints) -> None:
    """Say that many interactions have the time of the user's one before, if so."""
    rows = data.entry_users
    order = np.lexsort((times, rows))
    ties = int(((np.diff(times[order]) == 0) & (np.diff(rows[order]) == 0)).sum())
    if ties > _TIES * len(order):
        log.warning(
            "%s: %s of %s interactions have the time of the user's one before; these are ordered "
            "by id, so pass times that are more exact, such as seconds for days",
            *(model, f"{ties:,}", f"{len(order):,}"),
        )


def in_order(store: FactorStore, row: int) -> NDArray[np.integer]:
    """Rows of the items of a user, oldest first."""
    own = times_in(store)[[row]]
    items: NDArray[np.integer] = own.indices[np.argsort(own.data, kind="stable")]
    return items


def times_in(store: FactorStore) -> sp.csr_array:
    """The times that a store has, int64, shape (n_users, n_items)."""
    shape = store.n_users, store.n_items
    if "times" in store.extras:
        return extra_rows.unpack(store.extras, "times", shape, np.int64)
    # A NextItem that an earlier version saved has places alone: before all that has a time.
    places = extra_rows.unpack(store.extras, "places", shape)
    return sp.csr_array(
        (_BEFORE_ALL - places.data.astype(np.int64), places.indices, places.indptr), shape
    )


def joined_times(
    model: str, old: sp.csr_array, new: sp.csr_array, data: Interactions, joined: Interactions
) -> tuple[sp.csr_array, NDArray[np.bool_]]:
    """The times after an update, and which of them are new.

    Of an item that a user had before, the later time stays. If what is new is older than what the
    user had, that is said.
    """
    users = joined.user_ids.rows(data.user_ids.labels)[cells.entry_rows(new)]
    items = joined.item_ids.rows(data.item_ids.labels)[new.indices]
    of_old = cells.entry_rows(old).astype(np.int64)
    _tell_of_late(model, (of_old, old.data), (users, new.data), joined.n_users)
    rows, columns = np.append(of_old, users), np.append(old.indices, items)
    times, is_new = np.append(old.data, new.data), np.repeat([False, True], [old.nnz, new.nnz])
    order = np.lexsort((times, columns, rows))
    rows, columns, times, is_new = rows[order], columns[order], times[order], is_new[order]
    last = np.append((np.diff(rows) != 0) | (np.diff(columns) != 0), True)[: len(rows)]
    indptr = np.searchsorted(rows[last], np.arange(joined.n_users + 1))
    shape = joined.n_users, joined.n_items
    return sp.csr_array((times[last], columns[last], indptr), shape), is_new[last]


def _tell_of_late(model: str, old: tuple[Ints, Ints], new: tuple[Ints, Ints], n_users: int) -> None:
    """Say how many new interactions are older than the latest that their user had."""
    if (old[1] <= _BEFORE_ALL).any():
        log.warning(
            "%s was saved by an earlier version of mfrank, without times: what it had counts as "
            "older than what is new; fit again to order late interactions by their times",
            model,
        )
    latest = np.full(n_users, np.iinfo(np.int64).min)
    np.maximum.at(latest, *old)
    if late := int((new[1] < latest[new[0]]).sum()):
        log.info(
            "%s: %s of %s new interactions are older than the latest that their user had; all are "
            "ordered by their times",
            *(model, f"{late:,}", f"{len(new[1]):,}"),
        )


# Histories, as places from their end: 1 is the latest item.


def places_of(times: sp.csr_array) -> sp.csr_array:
    """Places of the items of a user, float64, from their times.

    Of equal times, the higher row is later, as in :class:`mfrank.pagerank.Sessions`.
    """
    counts = np.diff(times.indptr)
    places = np.repeat(counts, counts) - rank_in_rows(times.indptr, times.data)
    return sp.csr_array((places.astype(np.float64), times.indices, times.indptr), times.shape)


def histories(places: sp.csr_array, decays: Sequence[float]) -> sp.csr_array:
    """What multiplies the weights: a block of columns per decay."""
    blocks = []
    for decay in decays:
        near = cells.select(places, np.flatnonzero(places.data <= reach_of(decay)))
        blocks.append(
            sp.csr_array((np.exp((1 - near.data) / decay), near.indices, near.indptr), near.shape)
        )
    return sp.csr_array(sp.hstack(blocks, format="csr"))


def _in_any_order(rows: sp.csr_array, decays: Sequence[float]) -> sp.csr_array:
    """The mean of histories over all orders of the items of each row."""
    counts, blocks = np.diff(rows.indptr), []
    for decay in decays:
        sums = np.cumsum(np.exp(-np.arange(reach_of(decay)) / decay))
        means = sums[np.minimum(counts, len(sums)) - 1] / np.maximum(counts, 1)
        blocks.append(
            sp.csr_array((np.repeat(means, counts), rows.indices, rows.indptr), rows.shape)
        )
    return sp.csr_array(sp.hstack(blocks, format="csr"))
