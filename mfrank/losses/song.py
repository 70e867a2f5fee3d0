"""SONG (Qiu et al. 2022): NDCG by stochastic compositional optimization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_choice
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Sizes, averaged, check_decay
from mfrank.losses.sums.ramps import HingeRanks, discounted_gains, largest_hinge_array


@dataclass(frozen=True)
class SONG(Loss):
    """-sum_i G_i / (Z_u log2(1 + N_u g_i)) over positives i: a lower bound on NDCG, negated.

    N_u g_i is the smooth rank of :class:`mfrank.losses.sums.ramps.HingeRanks` (the bound requires
    ``margin`` >= 1). With an estimate of g_i from a single sample, the logarithm would be biased,
    so a moving average of the estimates is stored for each observed cell. Complete lists need no
    average: with ``decay=1``, the loss is exact, needs no memory, and takes O(N log N) time per
    user.

    Parameters
    ----------
    decay : float, default 0.1
        Weight gamma_0 of a new estimate in the average, in (0, 1]. The default is the paper's for
        MovieLens-20M.
    margin : float, default 1.0
        c > 0 of the squared hinge.
    pooled : bool, default False
        Estimate g by the plain mean over the sample, as in the authors' code. Positives, which
        score high, are a far larger fraction of the sample than of the list, so these ranks are too
        large, and the error grows as the model improves.
    from_zero : bool, default False
        Start the averages at 0, as in the authors' code (and in the paper's Algorithm 1, with
        infinite first gradients). After v updates, an average is too small by a factor 1 - (1 -
        decay)^v, so gradients of rarely visited cells are many times too large.
    """

    decay: float = 0.1
    margin: float = 1.0
    pooled: bool = False
    from_zero: bool = False

    def __post_init__(self) -> None:
        check_decay(self.decay)
        check_above_zero(margin=self.margin)
        check_choice("pooled", self.pooled, (True, False))
        check_choice("from_zero", self.from_zero, (True, False))

    def memory(self, sizes: Sizes) -> Memory:
        """Mean g of each cell, NaN before the first estimate; nothing for a decay of 1."""
        if self.decay == 1:
            return {}
        return {"means": np.full(sizes.cells, 0.0 if self.from_zero else np.nan)}

    def largest_pair_array(self, n_positives: int, n_negatives: int) -> int:
        """See :meth:`mfrank.losses.Loss.largest_pair_array`."""
        return largest_hinge_array(n_positives + n_negatives, n_positives)

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        ranks = HingeRanks.of(lists, positives, negatives, self.margin, self.pooled)
        kept = memory.get("means")
        means = averaged(kept, lists.cells, ranks.means, self.decay, lists.positives)
        gained, by_mean = discounted_gains(lists, means)
        return Gradients(*ranks.gradients(by_mean), -gained.sum(1))
