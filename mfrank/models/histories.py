"""Models of sequences, and what they read: a user's items in order, as places from the end."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_above_zero, in_turn, shown
from mfrank.data import (
    Interactions,
    cells,
    order_in_rows,
    rank_in_rows,
    tell_other_unit,
    timestamps_of,
)
from mfrank.errors import InputTypeError, unreadable
from mfrank.models.at_once import update_at_once
from mfrank.models.item_models import NeighborRecommender
from mfrank.models.parameters import describe
from mfrank.models.popularity import popularity_store
from mfrank.models.sequence_regression import Ints, reach_of
from mfrank.models.value_notes import tell_of_liked
from mfrank.retrieval import LikedItems, ModelState, OwnRows, Rows
from mfrank.store import FactorStore, pack_neighbors
from mfrank.store import contents as extra_rows

_TIES = 0.1
"""Share of interactions without an order from which on it is told."""
_BEFORE_ALL = -(2**62)
"""Times up to here only order what has no time."""

log = logging.getLogger("mfrank")


def check_decays(decays: Any) -> None:
    """Raise unless these are decays in places, one or more."""
    if not isinstance(decays, tuple | list) or not decays:
        raise InputTypeError(
            f"`decays` must be a tuple of numbers, such as (1.0, 10.0); got {shown(decays)}"
        )
    for decay in decays:
        check_above_zero(decays=decay)


class SequenceRecommender(NeighborRecommender):
    """A model of weights between items that reads the order of a user's items.

    Its users' values are histories: how near each item is to the last one, for each of the decays
    of the fit. A subclass defines the weights (:meth:`_weights`), and :meth:`_decays_of`.
    """

    _of_no_times: str
    """A model that needs no times, for the error if there are none."""

    @property
    def _reads_order(self) -> bool:
        return True

    @staticmethod
    @abstractmethod
    def _decays_of(options: dict[str, Any]) -> Sequence[float]:
        """The decays of histories, from the options of a fit."""

    @abstractmethod
    def _weights(self, times: sp.csr_array) -> sp.csr_array:
        """Weights between items, float64, shape (n_decays * n_items, n_items).

        They are from the times of what users like, int64, shape (n_users, n_items).
        """

    @in_turn
    def partial_fit(
        self, new: Any = None, *, batch: str | None = None, leave_out: Any = None
    ) -> Self:
        """Update the model with new interactions: a fit to all that it has and to what is new.

        ``new`` needs timestamps, in the unit of the fit; otherwise as
        :meth:`mfrank.ItemKNN.partial_fit`. All interactions are ordered by their times, also those
        that arrive late; that some are older than the latest of their user is logged.
        """
        seen = self._now().seen
        update_at_once(self, None if seen is None else seen.positives, new, batch, leave_out)
        return self

    def _store_of(self, data: Interactions) -> FactorStore:
        times = times_of(type(self).__name__, self._of_no_times, data)
        return self._made(data, times, self._weights(times))

    def _updated(self, held: ModelState, joined: Interactions, new: Interactions) -> FactorStore:
        times, _ = self._joined(held, joined, new)
        every = Interactions(cells.ones(times), joined.user_ids, joined.item_ids)
        return self._made(every, times, self._weights(times))

    def _joined(
        self, held: ModelState, joined: Interactions, new: Interactions
    ) -> tuple[sp.csr_array, NDArray[np.bool_]]:
        """The times after an update, and which of them are new."""
        own = times_of(type(self).__name__, self._of_no_times, new)
        return joined_times(type(self).__name__, times_in(held.store), own, new, joined)

    def _left(
        self, held: ModelState, users: Ints, items: Ints
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        left = times_in(held.store)[users][:, items]
        left.sort_indices()
        n_blocks = len(self._decays_of(describe(self)["options"]))
        weights = sp.csr_array((n_blocks * len(items), len(items)))
        if left.nnz:
            weights = self._weights(left)
        popularity = np.bincount(left.indices, minlength=len(items)).astype(np.float64)
        return popularity, self._packed(left, weights)

    def _made(self, data: Interactions, times: sp.csr_array, weights: sp.csr_array) -> FactorStore:
        return popularity_store(data, describe(self), **self._packed(times, weights))

    def _packed(self, times: sp.csr_array, weights: sp.csr_array) -> dict[str, NDArray[Any]]:
        own = histories(places_of(times), self._decays_of(describe(self)["options"]))
        return pack_neighbors(weights, own) | extra_rows.pack("times", times)

    def _parts_of(self, store: FactorStore) -> Any:
        parts = super()._parts_of(store)
        if parts.near.shape[0] != len(self._decays_in(store)) * store.n_items:
            raise unreadable("the neighbors saved with the store", "are damaged")
        return parts

    def _decays_in(self, store: FactorStore) -> Sequence[float]:
        """The decays of the fit, whatever was set since."""
        return self._decays_of(store.fitter["options"])

    def _rows_given(self, own: OwnRows) -> sp.csr_array:
        data, decays = own.matrix, self._decays_in(self.store)
        if isinstance(data, Interactions) and data.timestamps is not None:
            places = places_of(_liked_times(data))
            timed = replace(data, user_items=places, timestamps=None, seen_only=None)
            return histories(replace(own, matrix=timed).rows, decays)
        rows = super()._rows_given(own)
        if (np.diff(rows.indptr) > 1).any():
            log.info(
                "%s: `user_items` has no timestamps, so scores are means over all orders of a "
                "user's items",
                type(self).__name__,
            )
        return _in_any_order(rows, decays)

    def _in_order(self, row: int) -> NDArray[np.integer]:
        own = times_in(self._now().store)[[row]]
        items: NDArray[np.integer] = own.indices[np.argsort(own.data, kind="stable")]
        return items

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> sp.csr_array:
        """The history of somebody new, whose items are given oldest first."""
        tell_of_liked(self, own.values, held.store.threshold, given=has_values)
        liked = own.likes.indices[own.values > 0]
        latest = np.zeros(held.store.n_items, np.int64)
        known = own.given[own.given >= 0]
        latest[known] = np.arange(1, len(known) + 1)  # of a repeated item, the last is kept
        places = np.empty(len(liked))
        places[np.argsort(-latest[liked])] = np.arange(1, len(liked) + 1)
        row = sp.csr_array((places, liked, np.array([0, len(liked)])), (1, held.store.n_items))
        return histories(row, self._decays_in(held.store))

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        """What comes next after each item alone; -inf where nothing leads."""
        shape = len(items), self.store.n_items
        last = sp.csr_array((np.ones(len(items)), items, np.arange(len(items) + 1)), shape)
        scores = self._scores_of(histories(last, self._decays_in(self.store)), n_threads)
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
    order = order_in_rows(data.user_items.indptr, times)
    ties = int(((np.diff(times[order]) == 0) & (np.diff(rows[order]) == 0)).sum())
    if ties > _TIES * len(order):
        log.warning(
            "%s: %s of %s interactions have the time of the user's one before; these are ordered "
            "by id, so pass times that are more exact, such as seconds for days",
            *(model, f"{ties:,}", f"{len(order):,}"),
        )


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
    tell_other_unit(old.data, new.data, model)
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
