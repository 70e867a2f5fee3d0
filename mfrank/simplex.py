"""Projections of lists to the simplex: sparsemax (Martins & Astudillo 2016)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.lists import Array

__all__ = ["Projection", "project"]


class Projection(NamedTuple):
    """The nearest points of the simplex to lists of scores h.

    Attributes
    ----------
    tops : shape (B, 1)
        Largest score of each list.
    values : shape (B,)
        Largest p (h - top) - |p|^2 / 2 + 1/2 over the simplex.
    shares : shape (B, N)
        The p of it, 0 for padding and for what is far enough behind.
    """

    tops: Array
    values: Array
    shares: Array


def project(scores: Array, filled: Array, n_threads: int = 1) -> Projection:
    """Project the filled places of each list, in the C++ extension where it is.

    Parameters
    ----------
    scores : float, shape (B, N)
    filled : bool, shape (B, N)
    n_threads : int
        0 takes every core this process may use.
    """
    if native.takes(scores):
        return _native(scores, filled, n_threads)
    scores = np.where(filled, scores, -np.inf)
    tops = scores.max(axis=1, keepdims=True)
    scores = np.where(filled, scores - tops, -np.inf)  # Only differences count.
    shares = np.maximum(scores - _threshold(scores), 0)
    values = (shares * (np.where(shares > 0, scores, 0) - 0.5 * shares)).sum(1) + 0.5
    return Projection(tops, values, shares)


def _threshold(scores: Array) -> Array:
    """T with sum max(scores - t, 0) = 1 in each row, shape (B, 1)."""
    falling = -np.sort(-scores, axis=1)
    sums = np.cumsum(np.where(np.isfinite(falling), falling, 0), axis=1)
    places = np.arange(1, scores.shape[1] + 1, like=scores)
    inside = np.isfinite(falling) & (1 + places * np.where(np.isfinite(falling), falling, 0) > sums)
    n_inside = inside.sum(axis=1, keepdims=True).clip(1)  # none only of what is not a number
    threshold: Array = (np.take_along_axis(sums, n_inside - 1, axis=1) - 1) / n_inside
    return threshold


def _native(scores: Array, filled: Array, n_threads: int) -> Projection:
    dtype = np.result_type(scores, np.float32)
    tops, values = np.empty(len(scores), dtype), np.empty(len(scores), dtype)
    shares = np.empty(scores.shape, dtype)
    native.ext.project(
        np.ascontiguousarray(scores, dtype),
        np.ascontiguousarray(filled),
        tops,
        values,
        shares,
        n_threads,
    )
    return Projection(tops[:, None], values, shares)
