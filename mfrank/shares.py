"""Softmax over lists, the inner loop of cross-entropies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.lists import Array, Lists
from mfrank.logistic import log_sum_exp

__all__ = ["ListShares", "Shares", "list_shares", "shares"]


class Shares(NamedTuple):
    """Parts that the places of lists have of their list's sum of exponentials.

    Attributes
    ----------
    log_total : shape (B, 1)
        Log of the sum; -inf in a list of nothing.
    values : shape (B, N)
        exp(score) over the sum, 0 for padding.
    """

    log_total: Array
    values: Array


class ListShares(NamedTuple):
    """The same over whole lists, likes and others apart: (B, 1), (B, L), and (B, M)."""

    log_total: Array
    likes: Array
    others: Array


def list_shares(
    lists: Lists,
    likes: Array,
    others: Array,
    log_of_like: Array | float = 0.0,
    log_of_other: Array | float = 0.0,
) -> ListShares:
    """Softmax over all places of each list.

    Parameters
    ----------
    lists : Lists
    likes, others : float, shape (B, L) and (B, M)
        Scores.
    log_of_like, log_of_other : float, shape (B, 1), optional
        Log of how many items a like, or an other, stands for.
    """
    parts = [
        (shares(scores, filled, n_threads=lists.n_threads), log_of_each)
        for scores, filled, log_of_each in (
            (likes, lists.likes, log_of_like),
            (others, lists.others, log_of_other),
        )
    ]
    totals = [part.log_total + log_of_each for part, log_of_each in parts]
    total = np.logaddexp(*totals)
    return ListShares(
        total,
        *(
            part.values * np.exp(own - total).astype(part.values.dtype, copy=False)
            for (part, _), own in zip(parts, totals, strict=True)
        ),
    )


def shares(scores: Array, filled: Array, less: Array | None = None, n_threads: int = 1) -> Shares:
    """Softmax of ``scores - less`` over each list, in the C++ extension where it is.

    Parameters
    ----------
    scores : float, shape (B, N)
        What is computed is in their dtype.
    filled : bool, shape (B, N)
    less : float, shape (B, N), optional
    n_threads : int
        0 takes every core this process may use.
    """
    if native.takes(scores):
        return _native_shares(scores, filled, less, n_threads)
    if less is not None:
        scores = scores - less
    log_total = log_sum_exp(scores, filled)
    return Shares(log_total, filled * np.exp(np.minimum(scores - log_total, 0)))


def _native_shares(scores: Array, filled: Array, less: Array | None, n_threads: int) -> Shares:
    dtype = np.result_type(scores, np.float32)
    log_total, values = np.empty(len(scores), dtype), np.empty(scores.shape, dtype)
    level = less is not None and less.strides[1] == 0  # shares are the same without it
    native.ext.softmax(
        np.ascontiguousarray(scores, dtype),
        np.ascontiguousarray(filled),
        None if less is None or level else np.ascontiguousarray(less, dtype),
        log_total,
        values,
        n_threads,
    )
    if less is not None and level:
        log_total -= less[:, 0]
    return Shares(log_total[:, None], values)
