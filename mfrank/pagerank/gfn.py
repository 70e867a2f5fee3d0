"""GFN: random gradient-free descent with an inexact oracle (Algorithms 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_above_zero, check_count
from mfrank.arrays.random import Seed, generator
from mfrank.pagerank.problem import Problem
from mfrank.pagerank.tuned import LEAST, Ball, Tuned

__all__ = ["GFN", "probe_gradient"]

Floats = NDArray[np.float64]


def probe_gradient(
    loss: Callable[[Floats], float], at: Floats, loss_there: float, along: Floats, reach: float
) -> Floats:
    """(m / mu) (f(x + mu xi) - f(x)) xi; its mean over unit xi is the gradient of a smoothed f."""
    return len(at) / reach * (loss(at + reach * along) - loss_there) * along


@dataclass(frozen=True)
class GFN:
    """Gradient-free learning: steps along random directions, by the change of the loss there.

    If the loss is convex around its minimum, the expected best loss is within ``epsilon`` of it
    after M = 128 m L R^2 / epsilon steps (Theorem 2), with L the gradient's Lipschitz constant. The
    step size is 1 / (8 m L), the probe length mu = sqrt(2 epsilon / (L (m + 8))). For the paper's
    constants and m = 78, mu is .0153, but weights in the ball may be .01, so that probes could
    leave the positive orthant. Therefore the weights stay in the ball of radius R - mu and
    >= .01 + mu, which keeps the probes in the ball of radius R and >= .01.

    Parameters
    ----------
    epsilon : float, default 1e-6
        > 0, the paper's.
    smoothness : float, default 1e-4
        > 0, the Lipschitz constant L (the paper's); too small a value overshoots.
    radius : float, default 0.99
        > 0, R of the ball around 1 that contains the probes (the paper's); each stays >= 0.01.
    iterations : int or None, default None
        Number of steps; None takes the theorem's M (978,532 for the paper's settings, m = 78).
    random_state : int, numpy.random.Generator or None, default None
        Seed of the directions.
    """

    epsilon: float = 1e-6
    smoothness: float = 1e-4
    radius: float = 0.99
    iterations: int | None = None
    random_state: Seed = None

    def __post_init__(self) -> None:
        check_above_zero(epsilon=self.epsilon, smoothness=self.smoothness)
        if self.iterations is not None:
            check_count("iterations", self.iterations, 1)
        Ball(self.radius)
        generator(self.random_state)

    def reach(self, m: int) -> float:
        """Length mu of a probe with m weights."""
        return math.sqrt(2 * self.epsilon / (self.smoothness * (m + 8)))

    def steps(self, m: int) -> int:
        """Number of steps M with m weights."""
        if self.iterations is not None:
            return self.iterations
        return math.ceil(128 * m * self.smoothness * self.radius**2 / self.epsilon)

    def error(self, m: int) -> float:
        """Accuracy delta of the loss with m weights."""
        root = math.sqrt(self.smoothness * (m + 8))
        return float(self.epsilon**1.5) * math.sqrt(2) / (16 * m * self.radius * root)

    def learn(self, problem: Problem, start: ArrayLike | None = None) -> Iterator[Tuned]:
        """Yield after every step; the last one with ``is_best`` is the result.

        Raises
        ------
        ValueError
            Probes are so long that they leave the ball from any weights.
        """
        m = problem.n_weights
        reach, error = self.reach(m), self.error(m)
        longest = min(self.radius, 1 - LEAST)
        if reach >= longest:
            raise ValueError(
                f"epsilon {self.epsilon:g} and smoothness {self.smoothness:g} make probes of "
                f"length {reach:g}, but in the ball of radius {self.radius:g} they must be shorter "
                f"than {longest:g}; lower epsilon or raise smoothness"
            )
        ball, random = Ball(self.radius - reach, LEAST + reach), generator(self.random_state)
        weights = ball.start(start, m)
        began = perf_counter()
        loss = least = problem.loss(weights, error)
        for step in range(1, self.steps(m) + 1):
            along = random.standard_normal(m)
            along /= np.linalg.norm(along)
            estimate = probe_gradient(lambda x: problem.loss(x, error), weights, loss, along, reach)
            weights = ball.project(weights - estimate / (8 * m * self.smoothness))
            loss = problem.loss(weights, error)
            now = perf_counter()
            yield Tuned(step, now - began, loss, weights, loss < least)
            began, least = perf_counter(), min(least, loss)
