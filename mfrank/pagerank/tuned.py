"""What learning yields after each step, and the ball that weights are kept in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_above_zero

__all__ = ["LEAST", "Ball", "Tuned"]

Floats = NDArray[np.float64]

LEAST = 0.01
"""No weight is less: what a ball of the paper's radius .99 around 1 sees to by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """State after a step.

    Attributes
    ----------
    step : int
        Steps so far, from 1.
    seconds : float
        Wall-clock seconds of this step.
    loss : float
        At ``weights``, to the method's accuracy.
    weights : float64, shape (m1 + m2,)
    is_best : bool
        Whether the method would answer with these weights if this step were the last.
    stationarity : float or None
        Norm of the gradient mapping, 0 at a stationary point; None where it is not known.
    """

    step: int
    seconds: float
    loss: float
    weights: Floats
    is_best: bool
    stationarity: float | None = None

    def record(self) -> dict[str, float | int | None]:
        """The step without its weights, as kept in a history."""
        return {"epoch": self.step, "seconds": self.seconds, "objective": self.loss}


@dataclass(frozen=True, slots=True)
class Ball:
    """Weights at most ``radius`` from 1 altogether (3.7), none of them below ``least``.

    A radius below 1 keeps weights above 0 by itself, but also near to each other: of many features
    none can lead. Cut off at ``least``, larger balls serve as well, and are as convex.
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
        while True:  # s only rises, so weights only join the clipped
            left = self.radius**2 - clipped.sum() * floor**2
            scale = np.sqrt(left / (away[~clipped] ** 2).sum())
            below = clipped | (away * scale < floor)
            if np.array_equal(below, clipped):
                return 1 + np.where(clipped, floor, away * scale)
            clipped = below

    def start(self, weights: ArrayLike | None, size: int) -> Floats:
        """Where learning begins: weights of the ball, by default its centre."""
        if weights is None:
            return np.ones(size)
        begin = np.array(weights, dtype=np.float64)
        if begin.shape != (size,) or not np.isfinite(begin).all():
            raise ValueError(f"start must be {size} finite weights, got shape {begin.shape}")
        return self.project(begin)
