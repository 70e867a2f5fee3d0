"""The next item of a sequence, by a ridge regression on the items before it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    Work,
    check_above_zero,
    check_at_least_zero,
    check_count,
    check_memory,
    check_powers,
    in_turn,
    shown,
)
from mfrank.data import Interactions, cells, rank_in_rows, timestamps_of
from mfrank.errors import InputTypeError, unreadable
from mfrank.models.baselines import popularity_store, update_at_once
from mfrank.models.cost import of_empty_rows
from mfrank.models.ease import load_algebra
from mfrank.models.item_links import strongest, strongest_of_dense
from mfrank.models.item_models import NeighborRecommender
from mfrank.models.options import tell_of_liked
from mfrank.models.parameters import describe
from mfrank.retrieval import LikedItems, ModelState, OwnRows, Rows
from mfrank.store import FactorStore, pack_neighbors
from mfrank.store import contents as extra_rows

_FAR = 4.0
"""Distances beyond so many decays, of weights below 2 %, do not count."""
_SINGLE_FROM = 4096
"""Width of the regression from which on it is solved in float32."""
_COLUMNS = 512
_TIES = 0.1
"""Share of interactions without an order from which on it is told."""

log = logging.getLogger("mfrank")

Ints = NDArray[np.int64]
Dense = NDArray[np.floating]


@dataclass(eq=False, repr=False)
class NextItem(NeighborRecommender):
    """Recommend what comes next after a user's last items: an exact regression, without epochs.

    A user's items are in order of time, each once, at its last time; items of equal times are
    in the order of their ids, which a fit or update tells if they are more than a tenth. At every
    place t of every user, the items before t predict the item at t and, less, those that follow it.
    B minimizes ::

        sum_t ||y_t - x_t B||^2 + sum_d ridge_d ||B_d||^2

    x_t has a block of columns for each of ``decays``: the item at distance k before t has
    exp(-(k - 1) / decay), and 0 beyond 4 decays. y_t has the item at t and, if ``ahead`` > 0,
    exp(-f / ahead) for the item f places after it. Item j of y_t is multiplied by
    (m_j / mean of m)^-item_power, with the m_j users of item j. The same sum over all histories in
    reverse, times ``backward``, is added: what precedes an item tells something of what follows it.
    After SLIT (Choi et al. 2021), with several decays at once, and without its normalization of the
    columns.

    Lists need only a user's last items, in their order: :meth:`recommend_from_items` takes them
    oldest first, and ``recalculate_user`` takes Interactions with timestamps. From rows without
    timestamps, scores are the mean over all orders.

    Parameters
    ----------
    decays : tuple of float, default (1.0, 10.0)
        Each > 0, in places. A small one follows the last item, a large one what the user likes.
    regularization : float, default 1.0
        > 0. The ridge of a block is this times the mean squared length of its columns.
    ahead : float, default 0.0
        >= 0, in places. 0 predicts only the next item; 0.8 ranked higher where users have long
        histories (MovieLens-1M: 1.4 % in NDCG@10), lower in short sessions.
    item_power : float, default 0.1
        0 to 1: larger ranks popular items lower. 0.1 ranked .3 to 1 % higher than 0 on the
        validation parts of MovieLens-1M (NDCG@10) and yoochoose (MRR@20).
    backward : float, default 0.2
        0 to 1. In sessions, 1 is best: on the validation part of yoochoose it ranked 15 % higher in
        NDCG@20 than 0; on MovieLens-1M, 0.2 ranked 0.8 % higher.
    neighbors : int, default 400
        Maximum number of weights per item and decay, >= 1, largest magnitudes first.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (len(decays) * n_items, n_items)
        Row d * n_items + i has the weights by which item i at decay d recommends others. Do not
        write to it.
    store : FactorStore
        As in :class:`mfrank.ItemKNN`.

    Notes
    -----
    A fit needs memory for a square matrix of len(decays) * n_items columns, in float32 from 4,096
    on, and time cubic in them: 7,000 take seconds on two cores. Similar items are those that come
    next after an item alone.

    Examples
    --------
    >>> import mfrank
    >>> users, items = [0, 0, 0, 1, 1, 1, 2, 2], [5, 6, 7, 5, 6, 7, 5, 6]
    >>> data = mfrank.Interactions.from_arrays(users, items, timestamps=range(8))
    >>> mfrank.NextItem().fit(data).recommend(2, N=1).ids.tolist()
    [7]
    """

    decays: tuple[float, ...] = (1.0, 10.0)
    regularization: float = 1.0
    ahead: float = 0.0
    item_power: float = 0.1
    backward: float = 0.2
    neighbors: int = 400

    def __post_init__(self) -> None:
        if not isinstance(self.decays, tuple | list) or not self.decays:
            raise InputTypeError(
                f"`decays` must be a tuple of numbers, such as (1.0, 10.0); got "
                f"{shown(self.decays)}"
            )
        for decay in self.decays:
            check_above_zero(decays=decay)
        check_above_zero(regularization=self.regularization)
        check_at_least_zero(ahead=self.ahead)
        check_powers(item_power=self.item_power, backward=self.backward)
        check_count("neighbors", self.neighbors, 1)

    @property
    def _reads_order(self) -> bool:
        return True

    @staticmethod
    def is_single(n_decays: int, n_items: int) -> bool:
        """Whether a fit is in float32."""
        return n_decays * n_items >= _SINGLE_FROM

    @classmethod
    def bytes_needed(cls, n_decays: int, n_items: int) -> int:
        """Bytes of the matrices of a fit."""
        width = n_decays * n_items
        return (4 if cls.is_single(n_decays, n_items) else 8) * width * (width + n_items)

    @in_turn
    def partial_fit(
        self, new: Any = None, *, batch: str | None = None, leave_out: Any = None
    ) -> Self:
        """Update the model with new interactions: a fit to all that it has and to what is new.

        ``new`` needs timestamps, and counts as later than what the model has; otherwise as
        :meth:`mfrank.ItemKNN.partial_fit`.
        """
        seen = self._now().seen
        update_at_once(self, None if seen is None else seen.positives, new, batch, leave_out)
        return self

    def _store_of(self, data: Interactions) -> FactorStore:
        tell_of_ties("NextItem", data, timestamps_of(data, "NextItem", "EASE"))
        return self._made(data, places_of(data))

    def _updated(self, held: ModelState, joined: Interactions, new: Interactions) -> FactorStore:
        tell_of_ties("NextItem", new, timestamps_of(new, "NextItem", "EASE"))
        shape = held.store.n_users, held.store.n_items
        old = extra_rows.unpack(held.store.extras, "places", shape)
        places = _later(old, places_of(new), new, joined)
        every = Interactions(cells.ones(places), joined.user_ids, joined.item_ids)
        return self._made(every, places)

    def _left(
        self, held: ModelState, users: Ints, items: Ints
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        shape = held.store.n_users, held.store.n_items
        left = extra_rows.unpack(held.store.extras, "places", shape)[users][:, items]
        left.sort_indices()
        left.data = rank_in_rows(left.indptr, left.data) + 1.0
        weights = sp.csr_array((len(self.decays) * len(items), len(items)))
        if left.nnz:
            weights = self._weights(left)
        packed = pack_neighbors(weights, _history(left, self.decays))
        popularity = np.bincount(left.indices, minlength=len(items)).astype(np.float64)
        return popularity, packed | extra_rows.pack("places", left)

    def _made(self, data: Interactions, places: sp.csr_array) -> FactorStore:
        packed = pack_neighbors(self._weights(places), _history(places, self.decays))
        return popularity_store(data, describe(self), **packed, **extra_rows.pack("places", places))

    def _weights(self, rows: sp.csr_array) -> sp.csr_array:
        n_users, n_items = rows.shape
        needed = self.bytes_needed(len(self.decays), n_items)
        what = f"NextItem of {len(self.decays)} decays and {n_items:,} items"
        remedy = "pass fewer `decays`, or keep the items with the most users"
        check_memory(needed, what, of_empty_rows(n_users + n_items, rows.nnz) + remedy)
        load_algebra(needed, what, remedy)
        blocks = [
            strongest(_largest_of(block, self.neighbors), n_items, self.neighbors)
            for block in np.split(self._regression(rows), len(self.decays))
        ]
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _regression(self, places: sp.csr_array) -> Dense:
        """B: all weights, dense, shape (len(decays) * n_items, n_items)."""
        from scipy.linalg import cho_factor, cho_solve

        n_items = places.shape[1]
        gram, cross = _products(places, self.decays, self.ahead, self.backward)
        diagonal = gram[np.diag_indices(len(gram))].reshape(-1, n_items)
        ridges = self.regularization * diagonal.mean(axis=1, dtype=np.float64)
        gram[np.diag_indices(len(gram))] += np.repeat(np.where(ridges, ridges, 1.0), n_items)
        users = np.maximum(np.bincount(places.indices, minlength=n_items), 1.0)
        cross *= ((users / users.mean()) ** -self.item_power).astype(cross.dtype)
        work = Work(n_items)
        try:
            factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise FloatingPointError(
                f"NextItem cannot solve with a regularization of {self.regularization:g}; raise it"
            ) from error
        for begin in range(0, n_items, _COLUMNS):
            columns = slice(begin, begin + _COLUMNS)
            cross[:, columns] = cho_solve(factor, cross[:, columns], check_finite=False)
            work.advance(_COLUMNS)
        return cross

    def _parts_of(self, store: FactorStore) -> Any:
        parts = super()._parts_of(store)
        if parts.near.shape[0] != len(_decays_of(store)) * store.n_items:
            raise unreadable("the neighbors saved with the store", "are damaged")
        return parts

    def _rows_given(self, own: OwnRows) -> sp.csr_array:
        data, decays = own.matrix, _decays_of(self.store)
        if isinstance(data, Interactions) and data.timestamps is not None:
            places = places_of(data)
            timed = replace(data, user_items=places, timestamps=None, seen_only=None)
            return _history(replace(own, matrix=timed).rows, decays)
        rows = super()._rows_given(own)
        if (np.diff(rows.indptr) > 1).any():
            log.info(
                "NextItem: `user_items` has no timestamps, so scores are means over all orders of "
                "a user's items"
            )
        return _in_any_order(rows, decays)

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> sp.csr_array:
        tell_of_liked(self, own.values, held.store.threshold, given=has_values)
        liked = own.likes.indices[own.values > 0]
        latest = np.zeros(held.store.n_items, np.int64)
        known = own.given[own.given >= 0]
        latest[known] = np.arange(1, len(known) + 1)  # of a repeated item, the last is kept
        places = np.empty(len(liked))
        places[np.argsort(-latest[liked])] = np.arange(1, len(liked) + 1)
        row = sp.csr_array((places, liked, np.array([0, len(liked)])), (1, held.store.n_items))
        return _history(row, _decays_of(held.store))

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        last = sp.csr_array(
            (np.ones(len(items)), items, np.arange(len(items) + 1)),
            (len(items), self.store.n_items),
        )
        scores = self._scores_of(_history(last, _decays_of(self.store)), n_threads)
        scores[scores == 0] = -np.inf  # nothing leads there
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


def _later(
    old: sp.csr_array, new: sp.csr_array, data: Interactions, joined: Interactions
) -> sp.csr_array:
    """Places after an update: what is new comes last, also where a user had it before."""
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
    return sp.csr_array((ranked, columns, indptr), (len(more), joined.n_items))


def _history(places: sp.csr_array, decays: Sequence[float]) -> sp.csr_array:
    """What multiplies the weights: a block of columns per decay."""
    blocks = []
    for decay in decays:
        near = cells.select(places, np.flatnonzero(places.data <= _reach(decay)))
        blocks.append(
            sp.csr_array((np.exp((1 - near.data) / decay), near.indices, near.indptr), near.shape)
        )
    return sp.csr_array(sp.hstack(blocks, format="csr"))


def _in_any_order(rows: sp.csr_array, decays: Sequence[float]) -> sp.csr_array:
    """The mean of histories over all orders of the items of each row."""
    counts, blocks = np.diff(rows.indptr), []
    for decay in decays:
        sums = np.cumsum(np.exp(-np.arange(_reach(decay)) / decay))
        means = sums[np.minimum(counts, len(sums)) - 1] / np.maximum(counts, 1)
        blocks.append(
            sp.csr_array((np.repeat(means, counts), rows.indices, rows.indptr), rows.shape)
        )
    return sp.csr_array(sp.hstack(blocks, format="csr"))


def _reach(decay: float) -> int:
    """The largest distance that counts."""
    return max(1, math.ceil(_FAR * decay))


def _decays_of(store: FactorStore) -> list[float]:
    """The decays of the fit, whatever was set since."""
    decays: list[float] = store.fitter["options"]["decays"]
    return decays


# The normal equations of the regression, from pairs of items at each distance.


class _Sequences(NamedTuple):
    """Items of user after user, oldest first; how many precede and follow each."""

    items: Ints
    before: Ints
    behind: Ints

    @classmethod
    def of(cls, places: sp.csr_array) -> _Sequences:
        counts = np.diff(places.indptr)
        ends = np.repeat(places.indptr[1:], counts)
        behind = places.data.astype(np.int64) - 1
        order = np.argsort(ends - behind, kind="stable")
        before = (np.repeat(counts, counts) - 1 - behind)[order]
        return cls(places.indices[order].astype(np.int64), before, behind[order])

    def reversed(self) -> _Sequences:
        """The same histories, latest first."""
        return _Sequences(self.items[::-1], self.behind[::-1], self.before[::-1])

    def pairs(self, distance: int) -> tuple[Ints, Ints, Ints]:
        """Earlier and later items at a distance, and how many follow the later one."""
        later = np.flatnonzero(self.before >= distance)
        return self.items[later - distance], self.items[later], self.behind[later]


def _products(
    places: sp.csr_array, decays: Sequence[float], ahead: float, backward: float
) -> tuple[Dense, Dense]:
    """X'X, on and below the diagonal, and X'Y: sums over pairs of items, never over rows of X."""
    n_items, width = places.shape[1], len(decays) * places.shape[1]
    dtype = np.float64 if width < _SINGLE_FROM else np.float32
    gram, cross = np.zeros((width, width), dtype), np.zeros((width, n_items), dtype)
    forward = _Sequences.of(places)
    furthest = max(map(_reach, decays)) + (_reach(ahead) if ahead else 0)
    directions = [(forward, 1.0)] + [(forward.reversed(), backward)] * (backward > 0)
    work = Work(len(directions) * (furthest + 1))
    for sequences, weight in directions:
        for distance in range(furthest + 1):
            _add_pairs(gram, cross, sequences.pairs(distance), distance, decays, ahead, weight)
            work.advance()
    return gram, cross


def _add_pairs(
    gram: Dense,
    cross: Dense,
    pairs: tuple[Ints, Ints, Ints],
    distance: int,
    decays: Sequence[float],
    ahead: float,
    weight: float,
) -> None:
    """Add the pairs at a distance to both products.

    An earlier item a of block d and a later item b of block e meet in the rows of all places behind
    b that both reach. With k places between b and such a row, the product is
    exp(-(distance + k) / d - k / e): over k, this is a geometric series.
    """
    n_items = cross.shape[1]
    earlier, later, behind = pairs
    for d, decay in enumerate(decays):
        at, reach = d * n_items, _reach(decay)
        if distance:
            times = weight * _of_target(decay, ahead, distance)
            _add(cross, at + earlier, later, np.full(len(earlier), times))
        if distance >= reach:
            continue
        for e, other in enumerate(decays):
            beside = e * n_items
            most = min(reach - distance, _reach(other))
            sums = _geometric(1 / decay + 1 / other, np.minimum(behind, most), most)
            sums *= weight * math.exp(-distance / decay)
            if d >= e:
                _add(gram, at + earlier, beside + later, sums)
            if distance and e >= d:
                _add(gram, beside + later, at + earlier, sums)


def _add(table: Dense, rows: Ints, columns: Ints, values: NDArray[np.float64]) -> None:
    np.add.at(table.reshape(-1), rows * table.shape[1] + columns, values.astype(table.dtype))


def _geometric(rate: float, terms: Ints, most: int) -> NDArray[np.float64]:
    """The sums of the first ``terms`` of 1, e^-rate, e^-2 rate, ...; at most ``most``."""
    sums = np.concatenate([[0.0], np.cumsum(np.exp(-rate * np.arange(most)))])
    return sums[terms]


def _of_target(decay: float, ahead: float, distance: int) -> float:
    """The sum over rows between two items: the weight of the earlier times that of the later."""
    first = np.arange(1, min(distance, _reach(decay)) + 1)  # distance of the earlier to the row
    beyond = distance - first
    first = first[beyond <= (_reach(ahead) if ahead else 0)]
    more = (distance - first) / ahead if ahead else 0.0
    return float(np.exp(-(first - 1) / decay - more).sum())


def _largest_of(block: Dense, n: int) -> Callable[[slice], sp.csr_array]:
    return lambda part: strongest_of_dense(block[part], n + 1)  # one is itself
