"""Softmax over lists, the inner loop of cross-entropies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.lists import Array
from mfrank.logistic import log_sum_exp

__all__ = ["Shares", "shares"]


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
    if native.why_missing is None and isinstance(scores, np.ndarray):
        return _native_shares(scores, filled, less, n_threads)
    if less is not None:
        scores = scores - less
    log_total = log_sum_exp(scores, filled)
    return Shares(log_total, filled * np.exp(np.minimum(scores - log_total, 0)))


def _native_shares(scores: Array, filled: Array, less: Array | None, n_threads: int) -> Shares:
    dtype = np.result_type(scores, np.float32)
    log_total, values = np.empty(len(scores), dtype), np.empty(scores.shape, dtype)
    native.ext.softmax(
        np.ascontiguousarray(scores, dtype),
        np.ascontiguousarray(filled),
        None if less is None else np.ascontiguousarray(less, dtype),
        log_total,
        values,
        n_threads,
    )
    return Shares(log_total[:, None], values)
