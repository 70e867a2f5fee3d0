"""What learning yields after each step, and the ball that weights are kept in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import share

__all__ = ["Ball", "Tuned"]

Floats = NDArray[np.float64]


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
    """Weights at most ``radius`` from 1 each, all of them > 0 where the radius is below 1 (3.7)."""

    radius: float

    def __post_init__(self) -> None:
        share("radius", self.radius)

    def project(self, weights: Floats) -> Floats:
        """The nearest point of the ball."""
        away = weights - 1
        length = float(np.linalg.norm(away))
        return weights if length <= self.radius else 1 + away * (self.radius / length)

    def start(self, weights: ArrayLike | None, size: int) -> Floats:
        """Where learning begins: weights of the ball, by default its centre."""
        if weights is None:
            return np.ones(size)
        begin = np.array(weights, dtype=np.float64)
        if begin.shape != (size,) or not np.isfinite(begin).all():
            raise ValueError(f"start must be {size} finite weights, got shape {begin.shape}")
        return self.project(begin)
