"""What follows an item in the latest histories: directed links between items, by counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.arrays import check_above_zero, check_count, check_powers
from mfrank.data import cells, order_in_rows
from mfrank.models.histories import SequenceRecommender
from mfrank.models.item_links import strongest
from mfrank.models.sequence_regression import reach_of


@dataclass(eq=False, repr=False)
class SequentialRules(SequenceRecommender):
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

    _of_no_times = "ItemFilter"

    @staticmethod
    def _decays_of(options: dict[str, Any]) -> Sequence[float]:
        return (options["last"],)

    def _weights(self, times: sp.csr_array) -> sp.csr_array:
        """The strongest links between items, from the times of all interactions."""
        n_items = times.shape[1]
        users = cells.entry_rows(times)
        order = order_in_rows(times.indptr, times.data)
        items, at = times.indices[order].astype(np.int64), times.data[order]
        before = np.arange(len(items)) - times.indptr[users[order]]
        behind = times.indptr[users[order] + 1] - times.indptr[users[order]] - 1 - before
        counted = np.flatnonzero(before + behind > 0)
        counted = counted[np.lexsort((at[counted], items[counted]))]  # item after item
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
