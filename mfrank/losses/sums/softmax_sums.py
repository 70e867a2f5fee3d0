"""Softmax over lists, the inner loop of cross-entropy losses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.losses import Lists
from mfrank.losses.sums import Softmax
from mfrank.losses.sums.logistic import log_sum_exp

__all__ = ["ListSoftmax", "list_softmax", "softmax"]


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


def softmax(scores: Array, filled: Array, less: Array | None = None) -> Softmax:
    """See :meth:`mfrank.losses.sums.ListSums.softmax`."""
    if less is not None:
        scores = scores - less
    log_total = log_sum_exp(scores, filled)
    return Softmax(log_total, filled * np.exp(np.minimum(scores - log_total, 0)))
