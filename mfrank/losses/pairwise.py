"""Losses of pairs: BPR, RankNet, LambdaRank; and two that compare each item with a boundary.

BPR ranks every positive above every negative, RankNet every item above every less relevant one,
and LambdaRank weighs RankNet's pairs by the change of NDCG when they are swapped. BCE has the
boundary 0, UIB learns one for each user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_at_least_zero, contracted
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Sizes, count_filled, where_filled


@dataclass(frozen=True)
class BPR(Loss):
    """Mean over pairs of a positive i and a negative j of log(1 + exp(h_j - h_i)).

    Rendle et al. (2009). RankNet on binary relevance is the same loss.
    """

    decomposes: ClassVar[bool] = True

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * n_negatives

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        pairs = lists.sums.ramps("softplus", negatives, lists.negative_weights, positives)
        on_positives, on_negatives = pairs.gradients(lists.positive_weights)
        return Gradients(on_positives, on_negatives, (lists.positive_weights * pairs.sums).sum(1))


@dataclass(frozen=True)
class RankNet(Loss):
    """Mean over pairs with G_i > G_j of log(1 + exp(h_j - h_i)).

    Burges et al. (2005). If all gains are equal, the pairs are all (positive, negative) pairs, and
    this is BPR.
    """

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        return _logistic_pairs(lists, positives, negatives)


@dataclass(frozen=True)
class LambdaRank(Loss):
    """Sum over pairs with G_i > G_j of |dNDCG_ij| log(1 + exp(steepness (h_j - h_i))).

    Burges et al. (2006). |dNDCG_ij| = |G_i - G_j| |1/log2(1 + r_i) - 1/log2(1 + r_j)| / Z at the
    current ranks r is treated as a constant. The gradients are not the gradients of any metric, so
    convergence is not guaranteed.

    Parameters
    ----------
    steepness : float, default 1.0
        Factor > 0 of the score differences.
    """

    steepness: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(steepness=self.steepness)

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return n_positives * (n_positives + n_negatives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        return _logistic_pairs(lists, positives, negatives, 1 / lists.ideal, self.steepness)


def _logistic_pairs(
    lists: Lists,
    positives: Array,
    negatives: Array,
    scales: Array | None = None,
    steepness: float = 1.0,
) -> Gradients:
    """The logistic loss of pairs with G_i > G_j, see :meth:`mfrank.losses.ListSums.pair_losses`."""
    scores, width = np.concatenate([positives, negatives], axis=1), positives.shape[1]
    gradients, loss = lists.sums.pair_losses(scores, lists.gains, lists.filled, scales, steepness)
    return Gradients(gradients[:, :width], gradients[:, width:], loss)


@dataclass(frozen=True)
class BCE(Loss):
    """Mean over positives of log(1 + exp(-h_i)) plus mean over negatives of log(1 + exp(h_j)).

    Binary cross-entropy of the scores as logits.
    """

    decomposes: ClassVar[bool] = True

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        one = np.ones_like(positives, shape=(len(positives), 1))
        above = lists.sums.ramps("softplus", negatives, lists.negative_weights, 0 * one)
        below = lists.sums.ramps("softplus", -positives, lists.positive_weights, 0 * one)
        loss = below.sums[:, 0] + above.sums[:, 0]
        return Gradients(-below.gradients(one)[1], above.gradients(one)[1], loss)


@dataclass(frozen=True)
class UIB(Loss):
    """Mean over positives of phi(b_u - h_i) plus mean over negatives of phi(h_j - b_u).

    phi(x) = max(0, margin + x) (Zhuo et al. 2022). Each user's boundary b_u starts at 0. Every
    batch with the user updates it by a step of plain gradient descent, after the gradients of the
    scores.

    Parameters
    ----------
    margin : float, default 1.0
        > 0, of the hinge. The default is from the RG2 paper's appendix B, where UIB is a baseline.
    boundary_learning_rate : float, default 0.1
        >= 0, of the boundaries; 0 leaves them at 0.
    """

    remembers_users: ClassVar[bool] = True

    margin: float = 1.0
    boundary_learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check_above_zero(margin=self.margin)
        check_at_least_zero(boundary_learning_rate=self.boundary_learning_rate)

    def memory(self, sizes: Sizes) -> Memory:
        """Boundary of each user."""
        return {"boundaries": np.zeros(sizes.users)}

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`; a batch has at most one list per user."""
        boundary = memory["boundaries"][lists.users][:, None].astype(positives.dtype)
        on_positives, above = _hinges(self.margin + boundary - positives, lists.positives)
        on_negatives, below = _hinges(self.margin - boundary + negatives, lists.negatives)
        by_boundary = contracted("bn->b", on_positives) - contracted("bn->b", on_negatives)
        memory["boundaries"][lists.users] -= self.boundary_learning_rate * by_boundary
        return Gradients(-on_positives, on_negatives, above + below)


def _hinges(x: Array, filled: Array) -> tuple[Array, Array]:
    """Derivatives by x (B, N) of the mean of max(0, x) over the filled places, and that mean."""
    weight = (1 / count_filled(filled).clip(1)).astype(x.dtype)
    gradients = where_filled(filled, weight * (x > 0))
    return gradients, contracted("bn,bn->b", gradients, x)
