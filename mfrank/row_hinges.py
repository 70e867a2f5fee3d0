"""Hinges of rows of scores, each row with a threshold of its own.

    sums[b, l] = row_weight_bl sum over the places j of weight_bj max(0, score_blj - threshold_bl)

Unlike ramps of differences (:mod:`mfrank.ramps`), each threshold has scores of its own, and as many
slopes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.lists import Array

__all__ = ["RowHinges", "row_hinges"]


class RowHinges(NamedTuple):
    """The sums, and their derivatives by the scores.

    Attributes
    ----------
    sums : shape (B, L)
    slope_sums : shape (B, L)
        Derivatives by the thresholds, negative.
    slopes : shape (B, L, N)
    """

    sums: Array
    slope_sums: Array
    slopes: Array


def row_hinges(
    scores: Array, thresholds: Array, row_weights: Array, weights: Array, n_threads: int = 1
) -> RowHinges:
    """Sums of hinges of rows, in the C++ extension where it is.

    Parameters
    ----------
    scores : float32 or float64, shape (B, L, N)
        Rows may lie apart.
    thresholds, row_weights : of the same dtype, shape (B, L)
    weights : of the same dtype, shape (B, N)
    n_threads : int
        0 takes every core this process may use.
    """
    if native.takes(scores):
        found = RowHinges(
            *(np.empty(shape, scores.dtype) for shape in (*[thresholds.shape] * 2, scores.shape))
        )
        native.ext.row_hinges(
            scores=scores,
            thresholds=np.ascontiguousarray(thresholds),
            row_weights=np.ascontiguousarray(row_weights),
            weights=np.ascontiguousarray(weights),
            **found._asdict(),
            n_threads=n_threads,
        )
        return found
    lead = scores - thresholds[:, :, None]
    slopes = (lead > 0) * row_weights[:, :, None] * weights[:, None, :]
    return RowHinges(np.einsum("bln,bln->bl", slopes, lead), slopes.sum(axis=2), slopes)
