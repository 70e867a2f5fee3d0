"""The next item of a sequence, by a ridge regression on the items before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.arrays import (
    check_above_zero,
    check_at_least_zero,
    check_count,
    check_memory,
    check_powers,
)
from mfrank.data import Interactions, cells
from mfrank.models.cost import of_empty_rows
from mfrank.models.ease import load_algebra
from mfrank.models.histories import SequenceRecommender, check_decays, places_of, times_in
from mfrank.models.item_links import strongest, strongest_of_dense
from mfrank.models.item_regressions import bytes_needed as bytes_of_regressions
from mfrank.models.sequence_regression import Dense, SequenceRegression
from mfrank.retrieval import ModelState, Rows
from mfrank.store import FactorStore

_BYTES_AN_ENTRY = 90
"""Of an entry of X or Y, with the transpose and copies of some columns, and what a place takes."""


@dataclass(eq=False, repr=False)
class NextItem(SequenceRecommender):
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
    candidates : int, optional
        >= 1. Predict each item from so many columns of X, those that alone predict it best (columns
        with which it never occurs are none); no large matrix is solved, so a catalog may have any
        size. 100 ranked as all do in sessions (yoochoose), in a hundredth of the time; in long
        histories (MovieLens-1M), 300 ranked 3 % lower in NDCG@10 and took longer. None, the
        default, or at least the number of columns: from all.

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
    on, and time cubic in them: 7,000 take seconds on two cores. A fit to ``candidates`` needs time,
    and 90 bytes of memory, for each entry of X and Y, also if the interactions are on disk. An
    interaction has 1 + 4 ``ahead`` of them and 4 ``decay`` for each decay, or as many as its user
    has items, and as many again if ``backward`` > 0.
    Similar items are those that come next after an item alone.

    In an update, the weights of the items that meet what is new, at most half of all, minimize the
    loss over all interactions while those of others stay; with ``candidates``, the weights to the
    items of new interactions are those of a fit, and others fall as the number of places rises. A
    regression of fewer than 1,000 columns, and one to which more than half of its interactions are
    added, is solved whole, as a fit does.

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
    candidates: int | None = None

    def __post_init__(self) -> None:
        check_decays(self.decays)
        check_above_zero(regularization=self.regularization)
        check_at_least_zero(ahead=self.ahead)
        check_powers(item_power=self.item_power, backward=self.backward)
        check_count("neighbors", self.neighbors, 1)
        if self.candidates is not None:
            check_count("candidates", self.candidates, 1)

    _of_no_times = "EASE"

    @staticmethod
    def _decays_of(options: dict[str, Any]) -> Sequence[float]:
        decays: Sequence[float] = options["decays"]
        return decays

    @staticmethod
    def is_single(n_decays: int, n_items: int) -> bool:
        """Whether a fit to all columns is in float32."""
        return SequenceRegression.is_single(n_decays * n_items)

    @classmethod
    def bytes_needed(
        cls, n_decays: int, n_items: int, candidates: int | None = None, entries: int = 0
    ) -> int:
        """Bytes of the matrices of a fit; ``entries`` are those of X and Y."""
        width = n_decays * n_items
        if candidates is not None and candidates < width:
            return bytes_of_regressions(n_items, candidates, width) + _BYTES_AN_ENTRY * entries
        return (4 if cls.is_single(n_decays, n_items) else 8) * width * (width + n_items)

    def _is_local(self, n_items: int) -> bool:
        return self.candidates is not None and self.candidates < len(self.decays) * n_items

    def _updated(self, held: ModelState, joined: Interactions, new: Interactions) -> FactorStore:
        times, is_new = self._joined(held, joined, new)
        places = places_of(times)
        if self._regression.is_updated_whole(places, is_new):
            weights = self._weights(times)
        elif self._is_local(places.shape[1]):
            labels = new.item_ids.labels[np.unique(new.user_items.indices)]
            items = np.sort(joined.item_ids.rows(labels))
            before = places_of(times_in(held.store))
            weights = self._columns_updated(held, before, places, items)
        else:
            items = self._regression.rows_to_update(places, is_new, held.store.n_items)
            weights = self._rows_updated(held, places, items)
        every = Interactions(cells.ones(times), joined.user_ids, joined.item_ids)
        return self._made(every, times, weights)

    def _weights(self, times: sp.csr_array) -> sp.csr_array:
        places = places_of(times)
        self._prepare(places)
        if self._is_local(places.shape[1]):
            return self._linked(self._regression.of_candidates(places, self.candidates or 0))
        blocks = np.split(self._regression.solved(places), len(self.decays))
        return sp.csr_array(sp.vstack([self._largest(block) for block in blocks], format="csr"))

    def _linked(self, found: sp.csr_array) -> sp.csr_array:
        """The largest weights, from those of each target in a row."""
        n_items, weights = found.shape[0], found.T.tocsr()
        blocks = (weights[at : at + n_items] for at in range(0, weights.shape[0], n_items))
        kept = [strongest(block.__getitem__, n_items, self.neighbors) for block in blocks]
        return sp.csr_array(sp.vstack(kept, format="csr"))

    def _grown(self, held: ModelState, n_items: int) -> sp.csr_array:
        """The weights that are held, among more items."""
        known = held.store.n_items
        near = [
            cells.in_shape(held.parts.near[begin : begin + known], (n_items, n_items))
            for begin in range(0, known * len(self.decays), known)
        ]
        return sp.csr_array(sp.vstack(near, format="csr"))

    def _columns_updated(
        self, held: ModelState, old: sp.csr_array, places: sp.csr_array, items: Rows
    ) -> sp.csr_array:
        """The weights after an update of those to some items, from candidates."""
        self._prepare(places)
        before = cells.in_shape(old, places.shape)
        weights = self._regression.shrunk(self._grown(held, places.shape[1]), before, places)
        new = self._regression.of_candidates(places, self.candidates or 0, items)
        rows = np.arange(places.shape[1])
        rows[items] = len(rows) + np.arange(len(items))
        return self._linked(sp.csr_array(sp.vstack([weights.T.tocsr(), new], format="csr")[rows]))

    def _rows_updated(self, held: ModelState, places: sp.csr_array, items: Rows) -> sp.csr_array:
        """The weights after an update of those of some items."""
        self._prepare(places)
        n_items, weights = places.shape[1], self._grown(held, places.shape[1])
        blocks = np.split(self._regression.updated(places, weights, items), len(self.decays))
        rows = np.arange(weights.shape[0])
        for number in range(len(blocks)):
            at = number * n_items + items
            rows[at] = weights.shape[0] + number * len(items) + np.arange(len(items))
        new = [self._largest(block, items) for block in blocks]
        return sp.csr_array(sp.vstack([weights, *new], format="csr")[rows])

    def _largest(self, block: Dense, items: Rows | None = None) -> sp.csr_array:
        n = self.neighbors
        return strongest(
            lambda part: strongest_of_dense(block[part], n + 1),  # one is itself
            block.shape[1],
            n,
            items=items,
        )

    def _prepare(self, places: sp.csr_array) -> None:
        """Raise if the matrices of a fit do not fit in memory."""
        n_users, n_items = places.shape
        entries = self._regression.entries(places)
        needed = self.bytes_needed(len(self.decays), n_items, self.candidates, entries)
        what = f"NextItem of {len(self.decays)} decays and {n_items:,} items"
        remedy = "use `candidates`, such as `candidates=100`, or fewer `decays`"
        if self._is_local(n_items):
            remedy = "use shorter or fewer `decays`, `backward=0`, or SequentialRules"
        check_memory(needed, what, of_empty_rows(n_users + n_items, places.nnz) + remedy)
        if not self._is_local(n_items):
            load_algebra(needed, what, remedy)

    @property
    def _regression(self) -> SequenceRegression:
        return SequenceRegression(
            self.decays, self.regularization, self.ahead, self.item_power, self.backward
        )
