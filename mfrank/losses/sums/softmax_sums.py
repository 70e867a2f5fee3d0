"""Softmax over lists, the logistic function, and the projection onto the simplex."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mfrank.arrays import Array
from mfrank.losses.contract import Lists
from mfrank.losses.sums import Projection, SoftmaxOfLists

# The logistic function and related functions, numerically stable for all arguments.

_FAR = 600.0
"""Exponentials of numbers no further apart can be summed in float64 without underflow."""


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x: Array) -> Array:
    """Log(1 + exp(x))."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def log_sum_exp(x: Array, filled: Array) -> Array:
    """Log of the sum of exp(x) over each row's filled places, shape (B, 1); -inf if none is."""
    largest: Array = np.where(filled, x, -np.inf).max(axis=1, keepdims=True)
    total: Array = (filled * np.exp(np.minimum(x - largest, 0))).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return largest + np.log(total)


def log_sums_so_far(x: Any) -> Array:
    """Log of the cumulative sums of exp(x) along each row, in the shape of x."""
    if isinstance(x, np.ndarray):
        wide = x.astype(np.float64)
        largest = np.maximum(wide.max(axis=1, keepdims=True), np.finfo(wide.dtype).min)
        if ((wide < largest - _FAR) & (wide > -np.inf)).any():
            return np.logaddexp.accumulate(x, axis=1)
        with np.errstate(divide="ignore"):
            logs: Array = largest + np.log(np.cumsum(np.exp(wide - largest), axis=1))
        return logs.astype(x.dtype, copy=False)
    sums = [x[:, 0]]
    for place in range(1, x.shape[1]):
        sums.append(np.logaddexp(sums[-1], x[:, place]))
    stacked: Array = np.stack(sums, axis=1)
    return stacked


class ListSoftmax(NamedTuple):
    """Softmax over lists, divided into positives and negatives.

    Attributes
    ----------
    log_total : shape (B, 1)
        Log of the softmax's denominator.
    positives, negatives : shape (B, L) and (B, M)
        Softmax; 0 for padding.
    """

    log_total: Array
    positives: Array
    negatives: Array


def list_softmax(
    lists: Lists,
    positives: Array,
    negatives: Array,
    log_of_positive: Array | float = 0.0,
    log_of_negative: Array | float = 0.0,
) -> ListSoftmax:
    """Softmax over all places of each list.

    Parameters
    ----------
    lists : Lists
    positives, negatives : float, shape (B, L) and (B, M)
        Scores.
    log_of_positive, log_of_negative : float, shape (B, 1), optional
        Log of the number of items that each positive, or negative, represents.
    """
    parts = [
        (lists.sums.softmax(scores, filled), log_of_each)
        for scores, filled, log_of_each in (
            (positives, lists.positives, log_of_positive),
            (negatives, lists.negatives, log_of_negative),
        )
    ]
    totals = [part.log_total + log_of_each for part, log_of_each in parts]
    total = np.logaddexp(*totals)
    return ListSoftmax(
        total,
        *(
            part.values * np.exp(own - total).astype(part.values.dtype, copy=False)
            for (part, _), own in zip(parts, totals, strict=True)
        ),
    )


def softmax(scores: Array, filled: Array, less: Array | None = None) -> SoftmaxOfLists:
    """See :meth:`mfrank.losses.sums.ListSums.softmax`."""
    if less is not None:
        scores = scores - less
    log_total = log_sum_exp(scores, filled)
    return SoftmaxOfLists(log_total, filled * np.exp(np.minimum(scores - log_total, 0)))


# Projection of lists of scores onto the simplex: sparsemax (Martins & Astudillo 2016).


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
