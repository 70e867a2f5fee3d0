"""The next item of a sequence, by factors: asymmetric ALS."""

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
    single_threaded,
)
from mfrank.errors import InputValueError
from mfrank.models.cost import of_empty_rows
from mfrank.models.histories import SequenceRecommender, check_decays, places_of
from mfrank.models.history_factors import HistoryFactors
from mfrank.models.history_softmax import HistorySoftmax
from mfrank.models.item_links import strongest, strongest_of_dense
from mfrank.models.sequence_regression import Dense, reach_of

_BYTES_A_TARGET, _BYTES_OF_ENTERING = 60, 60
"""Of a target of a place, with the transpose, and of what enters the sum of a decay there."""


@dataclass(eq=False, repr=False)
class AsymmetricALS(SequenceRecommender):
    """Recommend what comes next after a user's last items, by factors of items alone.

    A user is the sum of factors of their items, the last ones most: at a place t of a history, with
    i_(t-k) the item k places before it, ::

        x_t = sum_d sum_k exp(-(k - 1) / d) P_d[i_(t-k)],    k = 1 ... 4 d

    with d from ``decays``. Histories, and ``ahead``, ``item_power`` and ``backward``, are those of
    :class:`mfrank.NextItem`. The factors P and Q minimize ::

        sum_t sum_j w_tj (1 - x_t q_j)^2 + alpha0 sum_t sum_j (x_t q_j)^2 + ridges

    w_tj is 1 for the item at t, exp(-f / ahead) for the item f places after it, both times
    (m_j / mean of m)^-item_power with the m_j users of item j, and 0 for others. So what a user did
    not take counts less than what they took, as in :class:`mfrank.IALS`; for
    :class:`mfrank.NextItem` both count alike. The two rank best together, in a
    :class:`mfrank.Blend`.

    Q is solved exactly, as the items of :class:`mfrank.ALS`, P improved by conjugate gradients, in
    turn. P is from Paterek (2007) and Koren (2008), the alternation from Pilaszy and Tikk (2009).

    With ``softmax_epochs``, so many epochs of Adam (Kingma & Ba 2015) follow, which minimize ::

        -sum_t log(exp(x_t q_(i_t)) / sum_j exp(x_t q_j))

    over all places, forward only, from the P and Q found before, at the scale at which this is
    least. The sum over j is estimated from 256 items drawn by the roots of their numbers of users
    and those that came next in the batch. It ranks clearly higher where histories are long and
    many, and overfits where they are few.

    Parameters
    ----------
    decays : tuple of float, default (1.0, 10.0)
        As of :class:`mfrank.NextItem`.
    factors : int, default 128
        >= 1. Where histories are long (MovieLens-1M), 128 ranked clearly higher than 64.
    alpha0 : float, default 0.01
        >= 0. Weight of all items at each place. The best ones were .003 to .007 in long histories
        and sessions, .07 where users rate few new films.
    regularization : float, default 0.003
        > 0. The ridge of a row of factors is this times the root of its mass times the mean mass:
        of P_d[i], the squared length of the column of X; of q_j, the weights of its places.
    ahead : float, default 0.0
        >= 0, in places, as of :class:`mfrank.NextItem`.
    item_power : float, default 0.1
        0 to 1: larger gives popular items less weight.
    backward : float, default 0.2
        0 to 1, as of :class:`mfrank.NextItem`.
    iterations : int, default 3
        >= 1.
    neighbors : int, default 400
        >= 1. Maximum number of weights P_d Q' per item and decay that are kept, largest magnitudes
        first. Lists by 400 ranked as lists by all.
    softmax_epochs : int, default 0
        >= 0; 0 leaves the factors as the squares have them. On MovieLens-1M, 2 were nearly enough.
    learning_rate : float, default 0.003
        > 0, of the softmax. It rises for 50 batches of 512 places, then falls as half a cosine.
    dropout : float, default 0.2
        0 to below 1: the share of the elements of x_t that a batch of the softmax leaves out.

    Attributes
    ----------
    similarity, store
        As of :class:`mfrank.NextItem`.

    Notes
    -----
    An update fits anew to old and new interactions in the order of their times. A fit needs memory
    for a row of factors, in float32, for each interaction and direction, and time for its square.
    The same data give the same bits, on any number of threads.

    Examples
    --------
    >>> import mfrank
    >>> users, items = [0, 0, 0, 1, 1, 1, 2, 2], [5, 6, 7, 5, 6, 7, 5, 6]
    >>> data = mfrank.Interactions.from_arrays(users, items, timestamps=range(8))
    >>> mfrank.AsymmetricALS(factors=2).fit(data).recommend(2, N=1).ids.tolist()
    [7]
    """

    decays: tuple[float, ...] = (1.0, 10.0)
    factors: int = 128
    alpha0: float = 0.01
    regularization: float = 0.003
    ahead: float = 0.0
    item_power: float = 0.1
    backward: float = 0.2
    iterations: int = 3
    neighbors: int = 400
    softmax_epochs: int = 0
    learning_rate: float = 0.003
    dropout: float = 0.2

    def __post_init__(self) -> None:
        check_decays(self.decays)
        check_count("factors", self.factors, 1)
        check_at_least_zero(alpha0=self.alpha0, ahead=self.ahead)
        check_above_zero(regularization=self.regularization)
        check_powers(item_power=self.item_power, backward=self.backward)
        check_count("iterations", self.iterations, 1)
        check_count("neighbors", self.neighbors, 1)
        check_count("softmax_epochs", self.softmax_epochs, 0)
        check_above_zero(learning_rate=self.learning_rate)
        check_powers(dropout=self.dropout)
        if self.dropout == 1:
            raise InputValueError("`dropout` must be below 1, or nothing is left of a history")

    _of_no_times = "ALS"

    @staticmethod
    def _decays_of(options: dict[str, Any]) -> Sequence[float]:
        decays: Sequence[float] = options["decays"]
        return decays

    def bytes_needed(self, n_items: int, n_interactions: int) -> int:
        """Bytes of a fit: all vectors, and as much while they are turned; targets; factors."""
        ways, decays = 1 + (self.backward > 0), len(self.decays)
        targets = 1 + (reach_of(self.ahead) if self.ahead else 0)
        of_place = 8 * self.factors + _BYTES_A_TARGET * targets + _BYTES_OF_ENTERING * decays
        return ways * n_interactions * of_place + 48 * (1 + decays) * n_items * self.factors

    def _weights(self, times: sp.csr_array) -> sp.csr_array:
        places = places_of(times)
        n_users, n_items = places.shape
        loss = self._loss(places)
        check_memory(
            self.bytes_needed(n_items, places.nnz),
            f"AsymmetricALS of {self.factors} factors and {places.nnz:,} interactions",
            of_empty_rows(n_users + n_items, places.nnz)
            + "use fewer `factors`, `ahead=0`, `backward=0`, or NextItem(candidates=100)",
        )
        p, q = loss.fitted(self.iterations)
        if self.softmax_epochs:
            p, q = self._softmax(places).improved(p, q)
            q = q - q.mean(axis=0)  # lists stay, and an item without a weight is as the mean
        with single_threaded():
            kept = [self._strongest(own, q) for own in p]
        return sp.csr_array(sp.vstack(kept, format="csr"))

    def _strongest(self, p: Dense, q: Dense) -> sp.csr_array:
        """The largest products of the factors of a decay.

        Those of a softmax are scores from their mean, of which the highest decide.
        """
        n, lows = self.neighbors, np.zeros((len(q), 1), p.dtype)

        def products(part: slice) -> sp.csr_array:
            found = p[part] @ q.T
            if self.softmax_epochs:
                lows[part] = found.min(axis=1, keepdims=True) - 1
            return strongest_of_dense(found - lows[part], n + 1)

        kept = strongest(products, len(q), n)
        kept.data += np.repeat(lows[:, 0], np.diff(kept.indptr))
        kept.eliminate_zeros()
        return kept

    def _softmax(self, places: sp.csr_array) -> HistorySoftmax:
        return HistorySoftmax(
            places, self.decays, self.softmax_epochs, self.learning_rate, self.dropout
        )

    def _loss(self, places: sp.csr_array) -> HistoryFactors:
        return HistoryFactors(
            places,
            self.decays,
            self.factors,
            self.alpha0,
            self.regularization,
            self.ahead,
            self.item_power,
            self.backward,
        )
