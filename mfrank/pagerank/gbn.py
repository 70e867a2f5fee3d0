"""GBN: the adaptive projected gradient method with an inexact oracle (Algorithms 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_above_zero, check_count
from mfrank.pagerank.problem import Problem
from mfrank.pagerank.tuned import Ball, Tuned

__all__ = ["GBN"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GBN:
    """Gradient-based learning: steps as long as a model of the loss allows, to a stationary point.

    The loss is not convex; the method finds weights whose gradient mapping z = M |step| is at most
    sqrt(``epsilon``), after at most 8 L (f(start) - min f) / epsilon steps (Theorem 3). The paper
    prints z <= epsilon as the end, which its theorem does not promise; this stops where z^2 is.

    Parameters
    ----------
    epsilon : float, default 1e-12
        > 0. The paper's 1e-6 under its printed rule asks for the same z; under the theorem's rule
        1e-6 asks for nothing, since its first step is at most 2 R long and has M = 1e-4.
    smoothness : float, default 1e-4
        > 0, first guess L0 of the gradient's Lipschitz constant (the paper's); it is found.
    radius : float, default 0.99
        > 0, of the ball around 1 that weights are kept in (the paper's); none falls below 0.01.
    iterations : int, default 1000
        Most steps.
    """

    epsilon: float = 1e-12
    smoothness: float = 1e-4
    radius: float = 0.99
    iterations: int = 1000

    def __post_init__(self) -> None:
        check_above_zero(epsilon=self.epsilon, smoothness=self.smoothness)
        check_count("iterations", self.iterations, 1)
        Ball(self.radius)

    def learn(self, problem: Problem, start: ArrayLike | None = None) -> Iterator[Tuned]:
        """Yield after every step; the last that is best is the answer."""
        weights = Ball(self.radius).start(start, problem.n_weights)
        guess, least = self.smoothness, math.inf
        for step in range(1, self.iterations + 1):
            began = perf_counter()
            moved, loss, guess = self._step(problem, weights, guess)
            mapping = guess * float(np.linalg.norm(weights - moved))
            seconds = perf_counter() - began
            yield Tuned(step, seconds, loss, moved, mapping < least, mapping)
            least = min(least, mapping)
            if least <= math.sqrt(self.epsilon):
                return
            weights, guess = moved, guess / 2

    def _step(self, problem: Problem, weights: Floats, guess: float) -> tuple[Floats, float, float]:
        """The next weights, their loss, and the constant M at which the model holds (6.8)."""
        ball, eps = Ball(self.radius), self.epsilon
        while True:
            of_loss = eps / (32 * guess)
            of_gradient = eps / (64 * guess * self.radius * math.sqrt(problem.n_weights))
            loss, slope = problem.slope(weights, of_loss, of_gradient)
            moved = ball.project(weights - slope / guess)
            away = moved - weights
            there = problem.loss(moved, of_loss)
            model = loss + float(slope @ away) + guess / 2 * float(away @ away)
            if there <= model + eps / (8 * guess) or np.array_equal(moved, weights):
                return moved, there, guess  # no step at all: rounding is all that is left
            guess *= 2
