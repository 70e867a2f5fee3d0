"""Projection of lists of scores onto the simplex: sparsemax (Martins & Astudillo 2016)."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.losses.sums import Projection

__all__ = ["project"]


def project(scores: Array, filled: Array) -> Projection:
    """See :meth:`mfrank.losses.sums.ListSums.project`."""
    scores = np.where(filled, scores, -np.inf)
    tops = scores.max(axis=1, keepdims=True)
    scores = np.where(filled, scores - tops, -np.inf)  # A shift leaves the projection unchanged.
    points = np.maximum(scores - _threshold(scores), 0)
    values = (points * (np.where(points > 0, scores, 0) - 0.5 * points)).sum(1) + 0.5
    return Projection(tops, values, points)


def _threshold(scores: Array) -> Array:
    """The t with sum_j max(score_j - t, 0) = 1 in each row, shape (B, 1)."""
    falling = -np.sort(-scores, axis=1)
    there = np.isfinite(falling)
    falling = np.where(there, falling, 0)
    sums = np.cumsum(falling, axis=1)
    places = np.arange(1, scores.shape[1] + 1, like=scores)
    inside = there & (1 + places * falling > sums)
    n_inside = inside.sum(axis=1, keepdims=True).clip(1)  # none only if scores are NaN
    threshold: Array = (np.take_along_axis(sums, n_inside - 1, axis=1) - 1) / n_inside
    return threshold
