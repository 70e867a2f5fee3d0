"""Slopes of a metric smoothed by normal noise in the scores, from one draw of the noise.

The slope of item j is the sum over the places p that the others leave of its jump there
(:mod:`mfrank.jumps`) times the density of its noisy score at that place, at the others' noise as it
was drawn (Ustimenko & Prokhorenkova 2020, theorem 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfrank import native
from mfrank.jumps import TopMetric
from mfrank.lists import Array, count_filled

__all__ = ["Draw", "smoothed"]


class Draw(NamedTuple):
    """Lists, and the noise that their scores get.

    Attributes
    ----------
    centres : float, shape (B, N)
        Scores without noise.
    noise : likewise
        Standard normal numbers, 0 for padding.
    sigma : float
        What they are multiplied by.
    worths : likewise
        What the items are worth to the metric.
    whole : shape (B, 1)
        What the metric divides by.
    filled : bool, shape (B, N)
    """

    centres: Array
    noise: Array
    sigma: float
    worths: Array
    whole: Array
    filled: Array


def smoothed(
    metric: TopMetric, k: int, draw: Draw, *, share: bool, n_threads: int = 1
) -> tuple[Array, Array]:
    """Slopes (B, N) of the smoothed metric in the centres, and the metric (B,) at this draw.

    Where they ``share``, the noise that all others of an item have in common is integrated too. In
    the C++ extension where it is.
    """
    n_levels = min(k, draw.centres.shape[1] - 1)
    if native.takes(draw.centres):
        return _native(metric, k, n_levels, draw, share, n_threads)
    noisy = np.where(draw.filled, draw.centres + draw.sigma * draw.noise, -np.inf)
    order = np.argsort(-noisy, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    # The p-th of the others is at p, or, below j's own place, at p + 1.
    places = np.arange(n_levels, like=rank)
    at = places + (places >= rank[:, :, None])
    passed = np.take_along_axis(order[:, None, :], at, axis=2)
    levels = np.take_along_axis(noisy[:, None, :], passed, axis=2)
    others = np.take_along_axis(draw.worths[:, None, :], passed, axis=2)
    jumps = metric.jump(draw.worths[:, :, None], others, draw.whole, k)
    shared, spread = _shared_noise(draw) if share else (0.0, np.ones_like(draw.whole))
    spread = (draw.sigma * spread)[:, :, None]
    apart = (levels - (draw.centres + draw.sigma * shared)[:, :, None]) / spread
    density = np.exp(-0.5 * apart**2) / (np.sqrt(2 * np.pi) * spread)
    slopes = np.where(draw.filled, (jumps * density).sum(2), 0)
    return slopes, metric.value(np.take_along_axis(draw.worths, order, axis=1), draw.whole, k)


def _shared_noise(draw: Draw) -> tuple[Array, Array]:
    """What is drawn of the noise that all others of an item share, and the spread of the rest.

    In parts of sigma, shape (B, N) and (B, 1).
    """
    count = count_filled(draw.filled)
    besides = np.maximum(count - 1, 1)
    shared = (draw.noise.sum(1, keepdims=True) - draw.noise) / besides
    return shared, np.sqrt(count / besides)


def _native(
    metric: TopMetric, k: int, n_levels: int, draw: Draw, share: bool, n_threads: int
) -> tuple[Array, Array]:
    dtype = np.result_type(draw.centres, np.float32)
    centres, noise, worths, whole = (
        np.ascontiguousarray(array, dtype)
        for array in (draw.centres, draw.noise, draw.worths, draw.whole[:, 0])
    )
    slopes, values = np.empty(centres.shape, dtype), np.empty(len(centres), dtype)
    native.ext.smoothed(
        centres,
        noise,
        worths,
        np.ascontiguousarray(draw.filled),
        whole,
        metric.weights(n_levels + 1, k).astype(dtype),
        metric.above,
        draw.sigma,
        share,
        slopes,
        values,
        n_threads,
    )
    return slopes, values
