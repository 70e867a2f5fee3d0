"""What follows an item in the latest histories: directed links between items, by counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_above_zero, check_count, check_powers, in_turn
from mfrank.data import Interactions, cells
from mfrank.models.baselines import popularity_store, update_at_once
from mfrank.models.histories import (
    histories,
    in_order,
    joined_times,
    places_of,
    rows_given,
    scores_after,
    somebody,
    times_in,
    times_of,
)
from mfrank.models.item_links import strongest
from mfrank.models.item_models import NeighborRecommender
from mfrank.models.parameters import describe
from mfrank.models.sequence_regression import reach_of
from mfrank.retrieval import LikedItems, ModelState, OwnRows, Rows
from mfrank.store import FactorStore, pack_neighbors
from mfrank.store import contents as extra_rows

Ints = NDArray[np.int64]


@dataclass(eq=False, repr=False)
class SequentialRules(NeighborRecommender):
    """Recommend what lately came next after a user's last items: counts, at any size.

    Items of a user are in order of time, as for :class:`mfrank.NextItem`. O_i are the ``latest``
    occurrences of item i in histories of two items or more, over all users. The weight of the
    link from i to j is ::

        w_ij = |O_i|^-count_power sum_{o in O_i} g(o, j)

    where j, if it is d places after the occurrence, has g = exp(-(d - 1) / near), and d places
    before it, ``backward`` times that; beyond 4 ``near`` places, 0. The score of j is the sum of
    exp(-(k - 1) / last) w_ij over the user's items i, which are k - 1 places before the last one,
    within 4 ``last``.

    These are sequential rules (Kamehkhosh, Jannach and Ludewig 2017), in both directions. The
    limit of ``latest`` is that of a kNN of sessions (VMIS-kNN, Kersbergen et al. 2022): of an item
    that many have, only what followed it lately counts, so lists are of the day, and a rare item
    has all its history. As :class:`mfrank.NextItem`, it answers new users by
    :meth:`recommend_from_items`, oldest item first, or by Interactions with timestamps; from rows
    without timestamps, scores are the mean over all orders.

    Parameters
    ----------
    last : float, default 1.0
        > 0, in places. A small one follows the user's last item alone.
    near : float, default 3.0
        > 0, in places: how far apart items still belong together.
    backward : float, default 0.3
        0 to 1: weight of what precedes an item, beside what follows it. Large in shops, small for
        news.
    latest : int, default 300
        Maximum number of occurrences of an item that count, >= 1.
    count_power : float, default 0.5
        0 to 1. 0 adds up counts; 1 adds up confidences, so that rare items of the user count as
        much as popular ones.
    neighbors : int, default 400
        Maximum number of links per item, >= 1, strongest first.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (n_items, n_items)
        Row i has the links of item i. Do not write to it.
    store : FactorStore
        As in :class:`mfrank.ItemKNN`.

    Notes
    -----
    The time of a fit grows with the number of interactions times 8 ``near``. An update fits anew
    to old and new interactions in the order of their times, also of those that arrive late; of
    equal times of different users, the higher row is later. That some are older than the latest of
    their user is logged.

    Examples
    --------
    >>> import mfrank
    >>> users, items = [0, 0, 0, 1, 1, 1, 2, 2], [5, 6, 7, 5, 6, 7, 5, 6]
    >>> data = mfrank.Interactions.from_arrays(users, items, timestamps=range(8))
    >>> mfrank.SequentialRules().fit(data).recommend(2, N=1).ids.tolist()
    [7]
    """

    last: float = 1.0
    near: float = 3.0
    backward: float = 0.3
    latest: int = 300
    count_power: float = 0.5
    neighbors: int = 400

    def __post_init__(self) -> None:
        check_above_zero(last=self.last, near=self.near)
        check_powers(backward=self.backward, count_power=self.count_power)
        check_count("latest", self.latest, 1)
        check_count("neighbors", self.neighbors, 1)

    @property
    def _reads_order(self) -> bool:
        return True

    @in_turn
    def partial_fit(
        self, new: Any = None, *, batch: str | None = None, leave_out: Any = None
    ) -> Self:
        """Update the model with new interactions: a fit to all that it has and to what is new.

        ``new`` needs timestamps, in the unit of the fit; otherwise as
        :meth:`mfrank.ItemKNN.partial_fit`.
        """
        seen = self._now().seen
        update_at_once(self, None if seen is None else seen.positives, new, batch, leave_out)
        return self

    def _store_of(self, data: Interactions) -> FactorStore:
        return self._made(data, times_of("SequentialRules", "ItemFilter", data))

    def _updated(self, held: ModelState, joined: Interactions, new: Interactions) -> FactorStore:
        own = times_of("SequentialRules", "ItemFilter", new)
        times, _ = joined_times("SequentialRules", times_in(held.store), own, new, joined)
        return self._made(Interactions(cells.ones(times), joined.user_ids, joined.item_ids), times)

    def _left(
        self, held: ModelState, users: Ints, items: Ints
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        left = times_in(held.store)[users][:, items]
        left.sort_indices()
        popularity = np.bincount(left.indices, minlength=len(items)).astype(np.float64)
        return popularity, self._packed(left)

    def _made(self, data: Interactions, times: sp.csr_array) -> FactorStore:
        return popularity_store(data, describe(self), **self._packed(times))

    def _packed(self, times: sp.csr_array) -> dict[str, NDArray[Any]]:
        own = histories(places_of(times), (self.last,))
        packed = pack_neighbors(self._weights(times), own)
        return packed | extra_rows.pack("times", times)

    def _weights(self, rows: sp.csr_array) -> sp.csr_array:
        """The strongest links between items, from the times of all interactions."""
        n_items = rows.shape[1]
        users = cells.entry_rows(rows)
        order = np.lexsort((rows.data, users))  # user after user, oldest first
        items, times = rows.indices[order].astype(np.int64), rows.data[order]
        before = np.arange(len(items)) - rows.indptr[users[order]]
        behind = rows.indptr[users[order] + 1] - rows.indptr[users[order]] - 1 - before
        counted = np.flatnonzero(before + behind > 0)
        counted = counted[np.lexsort((times[counted], items[counted]))]  # item after item
        ends = np.searchsorted(items[counted], np.arange(1, n_items + 1))
        counted = counted[ends[items[counted]] - np.arange(len(counted)) <= self.latest]
        begins = np.searchsorted(items[counted], np.arange(n_items + 1))
        reach = reach_of(self.near)

        def links_of(part: slice) -> sp.csr_array:
            some = counted[begins[part.start] : begins[part.stop]]
            sums = sp.csr_array((part.stop - part.start, n_items))
            for distance in range(1, reach + 1):
                weight = np.exp((1 - distance) / self.near)
                after, ahead = some[behind[some] >= distance], some[before[some] >= distance]
                own = np.append(items[after], items[ahead]) - part.start
                theirs = np.append(items[after + distance], items[ahead - distance])
                values = np.repeat([weight, weight * self.backward], [len(after), len(ahead)])
                sums = sums + sp.csr_array((values, (own, theirs)), sums.shape)
            sums.eliminate_zeros()
            scale = np.maximum(np.diff(begins)[part], 1.0) ** -self.count_power
            return sp.csr_array(sp.diags_array(scale) @ sums)

        return strongest(links_of, n_items, self.neighbors, np.diff(begins) * 2.0 * reach)

    def _rows_given(self, own: OwnRows) -> sp.csr_array:
        return rows_given(self, own, _last_of(self.store))

    def _in_order(self, row: int) -> NDArray[np.integer]:
        return in_order(self._now().store, row)

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> sp.csr_array:
        return somebody(self, held, own, _last_of(held.store), has_values=has_values)

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        return scores_after(self, items, _last_of(self.store), n_threads)


def _last_of(store: FactorStore) -> tuple[float]:
    """The decay of the fit, whatever was set since."""
    return (store.fitter["options"]["last"],)
