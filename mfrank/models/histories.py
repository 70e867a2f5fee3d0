"""What models of sequences read: the items of a user in their order, as places from the end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import Interactions, cells, rank_in_rows
from mfrank.models.item_models import NeighborRecommender
from mfrank.models.options import tell_of_liked
from mfrank.models.sequence_regression import Ints, reach_of
from mfrank.retrieval import LikedItems, ModelState, OwnRows, Rows

_TIES = 0.1
"""Share of interactions without an order from which on it is told."""

log = logging.getLogger("mfrank")


def rows_given(model: NeighborRecommender, own: OwnRows, decays: Sequence[float]) -> sp.csr_array:
    """The histories of users from what they have now."""
    data = own.matrix
    if isinstance(data, Interactions) and data.timestamps is not None:
        places = places_of(data)
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


# Histories, as places from their end: 1 is the latest item.


def places_of(data: Interactions) -> sp.csr_array:
    """Places of the items that a user likes, float64, shape (n_users, n_items).

    Of equal timestamps, the higher row is later, as in :class:`mfrank.pagerank.Sessions`.
    """
    kept = np.flatnonzero(data.user_items.data > 0)
    liked = cells.select(data.user_items, kept)
    rank = rank_in_rows(liked.indptr, np.asarray(data.timestamps)[kept])
    counts = np.diff(liked.indptr)
    places = (np.repeat(counts, counts) - rank).astype(np.float64)
    return sp.csr_array((places, liked.indices, liked.indptr), liked.shape)


def tell_of_ties(model: str, data: Interactions, times: Ints) -> None:
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


def later(
    old: sp.csr_array, new: sp.csr_array, data: Interactions, joined: Interactions
) -> tuple[sp.csr_array, Ints]:
    """Places after an update, and each user's new interactions.

    What is new comes last, also where a user had it before.
    """
    users = joined.user_ids.rows(data.user_ids.labels)[cells.entry_rows(new)]
    items = joined.item_ids.rows(data.item_ids.labels)[new.indices]
    more = np.bincount(users, minlength=joined.n_users)
    of_old = cells.entry_rows(old)
    rows, columns = np.append(users, of_old), np.append(items, old.indices)
    places = np.append(new.data, old.data + more[of_old])
    order = np.lexsort((places, columns, rows))
    rows, columns, places = rows[order], columns[order], places[order]
    first = np.append(True, (np.diff(rows) != 0) | (np.diff(columns) != 0))[: len(rows)]
    rows, columns, places = rows[first], columns[first], places[first]
    indptr = np.searchsorted(rows, np.arange(len(more) + 1))
    ranked = rank_in_rows(indptr, places) + 1.0
    return sp.csr_array((ranked, columns, indptr), (len(more), joined.n_items)), more


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
