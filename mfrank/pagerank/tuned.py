"""The state that learners yield after each step, and the ball that contains the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_above_zero
from mfrank.arrays.labelled import refuse_labels

__all__ = ["LEAST", "Ball", "Tuned"]

Floats = NDArray[np.float64]

LEAST = 0.01
"""Lower bound of every weight, which the paper's ball of radius .99 around 1 implies."""


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """State of a learner after a step.

    Attributes
    ----------
    step : int
        Number of steps so far, from 1.
    seconds : float
        Wall-clock seconds of this step.
    loss : float
        Loss at ``weights``, to the method's accuracy; of GBP's batches, before the step.
    weights : float64, shape (m1 + m2,)
    is_best : bool
        Whether these weights would be the result if this step were the last.
    stationarity : float or None
        Norm of the gradient mapping, 0 at a stationary point; None if the method has none.
    """

    step: int
    seconds: float
    loss: float
    weights: Floats
    is_best: bool
    stationarity: float | None = None

    def record(self) -> dict[str, float | int | None]:
        """The record of the step in a store's history, without weights."""
        return {"epoch": self.step, "seconds": self.seconds, "objective": self.loss}


@dataclass(frozen=True, slots=True)
class Ball:
    """Weights at a distance of at most ``radius`` from (1, ..., 1) (3.7), each >= ``least``.

    A radius below 1 alone keeps the weights above 0, but also close to each other, so that with
    many features none can dominate. With the bound ``least``, larger balls are valid too, and the
    set is still convex.
    """

    radius: float
    least: float = LEAST

    def __post_init__(self) -> None:
        check_above_zero(radius=self.radius)

    def project(self, weights: Floats) -> Floats:
        """The nearest point of the ball, 1 + max(s (weights - 1), least - 1) for some s <= 1."""
        away, floor = weights - 1, self.least - 1
        clipped = away < floor
        if np.linalg.norm(np.where(clipped, floor, away)) <= self.radius:
            return np.where(clipped, self.least, weights) if clipped.any() else weights
        clipped[:] = False
        while True:  # s never decreases, so no weight leaves the clipped set
            left = self.radius**2 - clipped.sum() * floor**2
            scale = np.sqrt(left / (away[~clipped] ** 2).sum())
            below = clipped | (away * scale < floor)
            if np.array_equal(below, clipped):
                return 1 + np.where(clipped, floor, away * scale)
            clipped = below

    def start(self, weights: ArrayLike | None, size: int) -> Floats:
        """First weights: the given ones, projected onto the ball, or by default its center."""
        if weights is None:
            return np.ones(size)
        refuse_labels("start", weights, "bring it into the order of the features")
        begin = np.array(weights, dtype=np.float64)
        if begin.shape != (size,) or not np.isfinite(begin).all():
            raise ValueError(f"start must be {size} finite weights, got shape {begin.shape}")
        return self.project(begin)
