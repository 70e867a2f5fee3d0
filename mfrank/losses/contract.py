"""The contract between a ranking loss and the code that fits with it.

A loss sees scores, not factors. From lists of some users (:class:`Lists`) and their scores, it
computes its values and their derivatives with respect to the scores (:class:`Gradients`). The
engine (:mod:`mfrank.descent.engine`) computes the scores and propagates the gradients to the
factors. A loss uses numpy's functions and runs on arrays of any library with numpy's interface,
such as CuPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from mfrank.arrays import Array, is_number, lazy, shown
from mfrank.errors import InputValueError
from mfrank.losses.sums import ListSums

Scores: TypeAlias = Literal["dot", "cosine", "distance"]
"""Scores of p and q: p . q, p . q / (|p| |q|), or -|p - q|^2."""

NOTHING: Array = np.empty(0)


@dataclass(frozen=True, eq=False)
class Lists:
    """A batch of B lists, each with up to L positives and up to M negatives of one user.

    Positives are items of the user; negatives are other items. A list contains all of them or a
    sample. For :class:`mfrank.LinearRanker`, a list belongs to a query: positives are its relevant
    documents, negatives all others.

    Lists are padded to L and M positions. Scores at padding are finite but arbitrary: they must not
    affect the loss, and their gradients must be 0. Every list has at least one positive; it may
    have no negatives.

    On a GPU, all arrays are CuPy arrays.

    Attributes
    ----------
    gains : float64, shape (B, L)
        Gain G_i > 0 of each positive: 1 in :class:`mfrank.Descent`, 2^relevance - 1 in
        :class:`mfrank.LinearRanker`. 0 marks padding.
    negatives : bool, shape (B, M)
        False marks padding. A sampled item may occur several times in its list.
    n_positives, n_items : float64, shape (B,)
        Numbers of positives, N_u+, and of all items, N_u, in the complete list; this list may be a
        sample of it.
    ideal : float64, shape (B,)
        Ideal DCG of the complete list, Z_u = sum_r G_(r) / log2(1 + r), with the gains in
        descending order. The sum ends at r = ``Loss.cutoff``, if the loss has one.
    cells : int64, shape (B, L)
        Index of each positive's observed cell (pair of user and item), from 0 to ``Sizes.cells``
        - 1, each at most once in a batch; -1 for padding. For memory by cell.
    users : int64, shape (B,)
        Row of each list's user, or query. Index of memory by user.
    sums : ListSums
        The backend's sums over lists: pairwise ramps, softmax and more
        (:class:`mfrank.losses.sums.ListSums`).
    log_expected_counts : float64, shape (B, M), optional
        Log of the expected number of times that each negative is drawn (with
        ``shared_negatives``, of the probability that it is drawn at all); arbitrary for padding.
        None if negatives are not sampled.
    positive_items : int64, shape (B, L)
        Rows of the positive items; arbitrary for padding. Empty in :class:`mfrank.LinearRanker`.
    pair_scores : float, shape (B, L, M)
        Scores of the negatives by the factors of each positive item instead of the user. Empty
        unless ``Loss.pair_scores`` is True.
    """

    gains: Array
    negatives: Array
    n_positives: Array
    n_items: Array
    ideal: Array
    cells: Array
    users: Array
    sums: ListSums
    log_expected_counts: Array | None = None
    positive_items: Array = field(default_factory=lambda: NOTHING)
    pair_scores: Array = field(default_factory=lambda: NOTHING)

    @lazy
    def positives(self) -> Array:
        """Positions of positives without padding, bool, shape (B, L)."""
        return self.gains > 0

    @lazy
    def filled(self) -> Array:
        """Positions without padding, positives first, bool, shape (B, L + M)."""
        return np.concatenate([self.positives, self.negatives], axis=1)

    @lazy
    def positive_weights(self) -> Array:
        """Weights of a mean over each list's positives, shape (B, L).

        1 / (number of filled places), 0 for padding. Read-only.
        """
        return _mean_weights(self.positives)

    @lazy
    def negative_weights(self) -> Array:
        """Weights of a mean over each list's negatives, shape (B, M).

        1 / (number of filled places), 0 for padding. Read-only.
        """
        return _mean_weights(self.negatives)

    def weigh(
        self, of_positives: Array, of_negatives: Array, dtype: DTypeLike = np.float64
    ) -> Array:
        """Expand one weight per list to all places, positives first.

        Parameters
        ----------
        of_positives, of_negatives : float, shape (B, 1)
            Weight of each positive and of each negative of a list.
        dtype : dtype, default float64

        Returns
        -------
        shape (B, L + M)
            0 for padding.
        """
        (size, width), n_negatives = self.gains.shape, self.negatives.shape[1]
        weights = np.empty((size, width + n_negatives), dtype, like=self.gains)
        weights[:, :width] = where_filled(self.positives, of_positives)
        weights[:, width:] = where_filled(self.negatives, of_negatives)
        return weights


def count_filled(filled: Array) -> Array:
    """Number of filled places of each list, float64, shape (B, 1)."""
    if not _may_pad(filled):
        return np.full_like(filled, filled.shape[1], dtype=np.float64, shape=(len(filled), 1))
    counts: Array = filled.sum(axis=1, keepdims=True).astype(np.float64)
    return counts


def where_filled(filled: Array, numbers: Array) -> Array:
    """The numbers, 0 at padding.

    Parameters
    ----------
    filled : bool, shape (B, N)
    numbers : float
        Finite, of a shape that broadcasts to (B, N).

    Returns
    -------
    shape (B, N)
        Or ``numbers`` itself, if they are on the host and no place is padding.
    """
    return numbers * filled if _may_pad(filled) else numbers


def _may_pad(filled: Array) -> bool:
    """Whether some place may be padding.

    Only host arrays are searched, which is cheap. On a GPU the search would wait for the device,
    which takes longer than computing with padding.
    """
    return not (isinstance(filled, np.ndarray) and filled.all())


def _mean_weights(filled: Array) -> Array:
    return np.broadcast_to(where_filled(filled, 1 / count_filled(filled).clip(1)), filled.shape)


Memory = dict[str, Array]
"""State of a loss between batches: named arrays, by observed cell, user or item."""


class Sizes(NamedTuple):
    """Numbers of observed cells, users and items: the lengths of arrays in a loss's memory."""

    cells: int
    users: int
    items: int


class Gradients(NamedTuple):
    """Result of :meth:`Loss.gradients`.

    Each list has its own loss, and gradients are the derivatives of this loss, not of a mean over
    the batch; the engine divides by B. Both float32 and float64 are valid; the engine casts to the
    dtype of the factors.

    Attributes
    ----------
    positives : float, shape (B, L)
        Derivatives with respect to the scores of the positives; 0 for padding.
    negatives : float, shape (B, M)
        Derivatives with respect to the scores of the negatives; 0 for padding.
    loss : float, shape (B,)
        Loss of each list.
    pair_scores : float, shape (B, L, M), optional
        Derivatives with respect to ``lists.pair_scores``; 0 for padding. Required if
        ``Loss.pair_scores`` is True, otherwise left out.
    """

    positives: Array
    negatives: Array
    loss: Array
    pair_scores: Array = NOTHING


class Loss(ABC):
    """Base class of ranking losses.

    A subclass is a dataclass whose fields are its options, and implements :meth:`gradients`. A
    model with your own loss can be saved if the class is defined at the top level of a module, from
    which :func:`mfrank.load` imports it.

    Notation of mfrank's losses: i is a positive of a list; j a negative, or any item in a sum over
    all; h_i the score of item i; G_i its gain; r_i its rank, from 1; Z the ideal DCG; N_u the
    number of items; N_u+ the number of the user's positives.

    Attributes
    ----------
    scores : {"dot", "cosine", "distance"}, default "dot"
        Scores for which the loss is designed, p . q, p . q / (|p| |q|) or -|p - q|^2: the default
        of ``Descent(scores=...)``.
    remembers_users : bool, default False
        Whether memory is indexed by user. Such a loss needs batches with at most one list per user,
        so ``Descent(batches="positives")`` is refused.
    pair_scores : bool, default False
        Whether the loss reads ``lists.pair_scores`` and returns their gradients. Only with
        :class:`mfrank.Descent`.
    decomposes : bool, default False
        Whether a list may be restricted to a random share of the items: on average, its gradients
        are then approximately the gradients of the complete list (``lists.log_expected_counts``
        gives the number of items that a negative represents). ``Descent.fit(cluster=...)`` requires
        this, and a loss without memory.

    Examples
    --------
    The pairwise hinge, the mean over pairs of max(0, margin + h_j - h_i)::

        @dataclass(frozen=True)
        class Hinge(mfrank.Loss):
            margin: float = 1.0

            def gradients(self, lists, positives, negatives, memory):
                weights, thresholds = lists.positive_weights, positives - self.margin
                pairs = lists.sums.ramps("hinge", negatives, lists.negative_weights, thresholds)
                by_positives, by_negatives = pairs.gradients(weights)
                return mfrank.Gradients(by_positives, by_negatives, (weights * pairs.sums).sum(1))


        mfrank.Descent(Hinge(margin=0.5)).fit(user_items)
    """

    scores: ClassVar[Scores] = "dot"
    remembers_users: ClassVar[bool] = False
    pair_scores: ClassVar[bool] = False
    decomposes: ClassVar[bool] = False

    @property
    def cutoff(self) -> int | None:
        """Number of positions in ``Lists.ideal``, the K of NDCG@K; default None, all."""
        return None

    def memory(self, sizes: Sizes) -> Memory:
        """Create the loss's state between batches; by default none.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        dict of numpy arrays
            By name. The engine moves them to the backend's device, passes them to every call of
            :meth:`gradients`, and saves them in checkpoints.
        """
        return {}

    def largest_array(self, n_positives: int, n_negatives: int) -> int:
        """Number of elements of the largest array that :meth:`gradients` makes, per list.

        :class:`mfrank.Descent` refuses batches that would need too much memory. Override this if
        arrays are larger than a list; the default is L + M.

        Parameters
        ----------
        n_positives, n_negatives : int
            L and M.
        """
        return n_positives + n_negatives

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """Number of elements of the largest array of pairs that ``lists.sums`` makes, per list.

        Only for backends whose sums store pairs (``ListSums.holds_pairs``). Override this if the
        loss uses such sums; the example needs L M. The default is 0.
        """
        return 0

    @abstractmethod
    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """Compute the loss of each list, and its derivatives with respect to the scores.

        Parameters
        ----------
        lists : Lists
            B lists of L positives and M negatives.
        positives : float32 or float64, shape (B, L)
            Scores h_i of the positives, read-only; finite but arbitrary at padding.
        negatives : float32 or float64, shape (B, M)
            Scores h_j of the negatives; finite but arbitrary at padding.
        memory : dict of arrays
            The arrays of :meth:`memory`. Update them in place.

        Returns
        -------
        Gradients
        """


# Moving averages in a loss's memory.


def check_decay(decay: float) -> None:
    """Raise ValueError unless the weight of a new estimate is in (0, 1]."""
    if not is_number(decay) or not 0 < decay <= 1:
        raise InputValueError(f"`decay` must be in (0, 1], got {shown(decay)}")


def averaged(
    averages: Array | None, places: Array, estimates: Array, decay: float, filled: Array
) -> Array:
    """Update moving averages by new estimates, in place, and return the updated ones.

    Parameters
    ----------
    averages : float, written to, or None
        By cell or user. NaN before the first estimate, which then has weight 1, because
        any other start would bias the average for many updates. None for a decay of 1; the
        estimates are then returned.
    places : int, any shape
        Index of each estimate in ``averages``; filled places are distinct.
    estimates : float, shape of ``places`` plus any further axes of ``averages``
    decay : float
        Weight of the new estimate, in (0, 1].
    filled : bool, shape of ``places``
        False marks padding, which is not stored; returned values there are arbitrary.

    Returns
    -------
    float, shape of ``estimates``
    """
    if averages is None:
        return estimates
    before = averages[places]
    mixed = (1 - decay) * before + decay * estimates
    updated: Array = np.where(np.isnan(before), estimates, mixed)
    averages[places[filled]] = updated[filled]
    return updated
