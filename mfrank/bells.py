"""Normal densities about the first places of lists, by the scores that may come there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.lists import Array

__all__ = ["Bells", "first_places", "sum_bells"]


def first_places(scores: Array, count: int, n_threads: int = 1) -> Array:
    """Places (B, count) of the largest scores (B, N) of each list, the first of equal ones first.

    In the C++ extension where it is, as is :func:`sum_bells`.
    """
    if native.takes(scores):
        places = np.empty((len(scores), count), np.int64)
        native.ext.first_places(np.ascontiguousarray(scores), places, n_threads)
        return places
    order: Array = np.argsort(-scores, axis=1, kind="stable")
    return order[:, :count]


class Bells(NamedTuple):
    """Where densities stand, and what they count for a score that is worth x: still + x rise.

    Attributes
    ----------
    levels, still, rise : float, shape (B, P)
    scales : float, shape (B,)
        1 over the spread of the densities of each list.
    """

    levels: Array
    still: Array
    rise: Array
    scales: Array


def sum_bells(scores: Array, worths: Array, bells: Bells, n_threads: int = 1) -> Array:
    """Sum over p of (still_p + worth_j rise_p) exp(-((level_p - score_j) scale)^2 / 2), (B, N).

    In the dtype of the scores.
    """
    if native.takes(scores):
        worths, levels, still, rise, scales = (
            np.ascontiguousarray(array, scores.dtype) for array in (worths, *bells)
        )
        out = np.empty(scores.shape, scores.dtype)
        native.ext.sum_bells(
            np.ascontiguousarray(scores), worths, levels, still, rise, scales, out, n_threads
        )
        return out
    apart = (bells.levels[:, None, :] - scores[:, :, None]) * bells.scales[:, None, None]
    counts = bells.still[:, None, :] + worths[:, :, None] * bells.rise[:, None, :]
    sums: Array = (counts * np.exp(-0.5 * apart**2)).sum(2)
    return sums.astype(scores.dtype, copy=False)
