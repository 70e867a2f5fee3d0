"""Sums of hinges over rows of scores, each row with its own threshold.

    sums[b, l] = row_weight_bl sum over the places j of weight_bj max(0, score_blj - threshold_bl)

Unlike in :mod:`mfrank.losses.sums.ramps`, each threshold has its own scores, and the gradients have
the shape of these, (B, L, N).
"""

from __future__ import annotations

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.losses.sums import RowHinges

__all__ = ["row_hinges"]


def row_hinges(scores: Array, thresholds: Array, row_weights: Array, weights: Array) -> RowHinges:
    """See :meth:`mfrank.losses.sums.ListSums.row_hinges`."""
    lead = scores - thresholds[:, :, None]
    gradients = (lead > 0) * row_weights[:, :, None] * weights[:, None, :]
    return RowHinges(np.einsum("bln,bln->bl", gradients, lead), gradients.sum(axis=2), gradients)
