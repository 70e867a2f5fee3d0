"""GBP: plain projected gradient descent, the baseline (Zhukovskii et al. 2014)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import check_above_zero, check_at_least_zero, check_count
from mfrank.arrays.random import Seed, generator
from mfrank.pagerank.problem import Problem
from mfrank.pagerank.tuned import Ball, Tuned

__all__ = ["GBP"]


@dataclass(frozen=True)
class GBP:
    """Projected gradient descent with a fixed step size and a fixed number of walk steps.

    Parameters
    ----------
    step_size : float, default 100.0
        > 0; the paper compares 50, 100, 200 and 500.
    walk_steps : int, default 100
        Steps of the iterations for pi and for its adjoint, N1 = N2 (the paper's).
    tolerance : float, default 1e-5
        >= 0; learning ends when a step lowers the loss by less (the paper's).
    radius : float, default 0.99
        > 0, of the ball around 1 that contains the weights; each stays >= 0.01.
    iterations : int, default 1000
        Maximum number of steps.
    batch_size : int or None, default None
        Queries per step, drawn without replacement from those with pairs until all were used, then
        again. ``tolerance`` is then ignored, because a step's loss is that of its own batch before
        the step. None uses all queries in every step (the paper's).
    random_state : int, numpy.random.Generator or None, default None
        Seed of the batches.
    """

    step_size: float = 100.0
    walk_steps: int = 100
    tolerance: float = 1e-5
    radius: float = 0.99
    iterations: int = 1000
    batch_size: int | None = None
    random_state: Seed = None

    def __post_init__(self) -> None:
        check_above_zero(step_size=self.step_size)
        check_at_least_zero(tolerance=self.tolerance)
        for name in ("walk_steps", "iterations"):
            check_count(name, getattr(self, name), 1)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size, 1)
        Ball(self.radius)
        generator(self.random_state)

    def learn(self, problem: Problem, start: ArrayLike | None = None) -> Iterator[Tuned]:
        """Yield after every step; the last one is the result."""
        weights = Ball(self.radius).start(start, problem.n_weights)
        if self.batch_size is None:
            yield from self._on_all(problem, weights)
        else:
            yield from self._on_batches(problem, weights, self.batch_size)

    def _on_all(self, problem: Problem, weights: NDArray[np.float64]) -> Iterator[Tuned]:
        ball, began = Ball(self.radius), perf_counter()
        here = problem.value_and_gradient_after(weights, self.walk_steps)
        for step in range(1, self.iterations + 1):
            weights = ball.project(weights - self.step_size * here.gradient)
            last, here = here, problem.value_and_gradient_after(weights, self.walk_steps)
            yield Tuned(step, perf_counter() - began, here.loss, weights, True)
            if last.loss - here.loss < self.tolerance:
                return
            began = perf_counter()

    def _on_batches(
        self, problem: Problem, weights: NDArray[np.float64], size: int
    ) -> Iterator[Tuned]:
        ball, random = Ball(self.radius), generator(self.random_state)
        judged, waiting = np.flatnonzero(problem.pairs.counts), np.array([], dtype=np.int64)
        for step in range(1, self.iterations + 1):
            began = perf_counter()
            if not len(waiting):
                waiting = random.permutation(judged)
            queries, waiting = np.split(waiting, [size])
            here = problem.part(queries).value_and_gradient_after(weights, self.walk_steps)
            weights = ball.project(weights - self.step_size * here.gradient)
            yield Tuned(step, perf_counter() - began, here.loss, weights, True)
