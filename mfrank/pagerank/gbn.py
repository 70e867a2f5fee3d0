"""GBN: the adaptive projected gradient method with an inexact oracle (Algorithms 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_above_zero, check_count
from mfrank.pagerank.problem import Problem
from mfrank.pagerank.tuned import Ball, Tuned

__all__ = ["GBN"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GBN:
    """Gradient-based learning: projected gradient steps of adaptive length, to a stationary point.

    The loss is not convex; the method finds weights whose gradient mapping z = M |step| is at most
    sqrt(``epsilon``), after at most 8 L (f(start) - min f) / epsilon steps (Theorem 3). The paper
    prints the stopping rule z <= epsilon, which its theorem does not guarantee; this uses
    z^2 <= epsilon.

    Parameters
    ----------
    epsilon : float, default 1e-12
        > 0; requires the same z as the paper's 1e-6 under its printed rule. Under the theorem's
        rule, 1e-6 would end at once: the first step is at most 2 R long, with M = 1e-4.
    smoothness : float, default 1e-4
        > 0, first guess L0 of the gradient's Lipschitz constant (the paper's), then adapted.
    radius : float, default 0.99
        > 0, of the ball around 1 that contains the weights (the paper's); each stays >= 0.01.
    iterations : int, default 1000
        Maximum number of steps.
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
        """Yield after every step; the last one with ``is_best`` is the result."""
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
        """Next weights, their loss, and the constant M whose model bounds the loss (6.8)."""
        ball, eps = Ball(self.radius), self.epsilon
        while True:
            of_loss = eps / (32 * guess)
            of_gradient = eps / (64 * guess * self.radius * math.sqrt(problem.n_weights))
            loss, gradient = problem.value_and_gradient(weights, of_loss, of_gradient)
            moved = ball.project(weights - gradient / guess)
            away = moved - weights
            loss_moved = problem.loss(moved, of_loss)
            model = loss + float(gradient @ away) + guess / 2 * float(away @ away)
            if loss_moved <= model + eps / (8 * guess) or np.array_equal(moved, weights):
                return moved, loss_moved, guess  # an empty step: only rounding is left
            guess *= 2
