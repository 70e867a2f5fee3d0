"""The learners of supervised PageRank: GBN, GFN and GBP."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    check_above_zero,
    check_at_least_zero,
    check_count,
    generator,
    refuse_labels,
)
from mfrank.errors import InputValueError
from mfrank.pagerank.problem import Problem

Floats = NDArray[np.float64]

LEAST = 0.01
"""Lower bound of every weight, which the paper's ball of radius .99 around 1 implies."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnerStep:
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
        Whether these weights are the result so far.
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

    A radius below 1 keeps the weights above 0, but also close together, so that none of many
    features can dominate. The bound ``least`` permits larger balls; the set is still convex.
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
        """Initial weights, projected onto the ball; by default its center."""
        if weights is None:
            return np.ones(size)
        refuse_labels("start", weights, "bring it into the order of the features")
        begin = np.array(weights, dtype=np.float64)
        if begin.shape != (size,) or not np.isfinite(begin).all():
            raise InputValueError(f"`start` must be {size} finite weights, got shape {begin.shape}")
        return self.project(begin)


# GBN: the adaptive projected gradient method with an inexact oracle (Algorithms 3 and 4).


@dataclass(frozen=True)
class GBN:
    """Gradient-based learning: projected gradient steps of adaptive length, to a stationary point.

    The loss is not convex. The method ends at weights whose gradient mapping z = M |step| is at
    most sqrt(``epsilon``), after at most 8 L (f(start) - min f) / epsilon steps (Theorem 3). The
    paper prints the stopping rule z <= epsilon, which its theorem does not guarantee; this uses z^2
    <= epsilon.

    Parameters
    ----------
    epsilon : float, default 1e-12
        > 0. The default requires the same z as the paper's 1e-6 under its printed rule. Under the
        theorem's rule, 1e-6 would end at once, because the first step is at most 2 R long, with M =
        1e-4.
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

    def learn(self, problem: Problem, start: ArrayLike | None = None) -> Iterator[LearnerStep]:
        """Yield after every step; the last one with ``is_best`` is the result."""
        weights = Ball(self.radius).start(start, problem.n_weights)
        guess, least = self.smoothness, math.inf
        for step in range(1, self.iterations + 1):
            began = perf_counter()
            moved, loss, guess = self._step(problem, weights, guess)
            mapping = guess * float(np.linalg.norm(weights - moved))
            seconds = perf_counter() - began
            yield LearnerStep(step, seconds, loss, moved, mapping < least, mapping)
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


# GFN: random gradient-free descent with an inexact oracle (Algorithms 1 and 2).


def probe_gradient(
    loss: Callable[[Floats], float], at: Floats, loss_there: float, along: Floats, reach: float
) -> Floats:
    """(m / mu) (f(x + mu xi) - f(x)) xi; its mean over unit xi is the gradient of a smoothed f."""
    return len(at) / reach * (loss(at + reach * along) - loss_there) * along


@dataclass(frozen=True)
class GFN:
    """Gradient-free learning: steps along random directions, scaled by the change of the loss.

    If the loss is convex around its minimum, the expected best loss is within ``epsilon`` of the
    minimum after M = 128 m L R^2 / epsilon steps (Theorem 2), with L the gradient's Lipschitz
    constant. The step size is 1 / (8 m L), the probe length mu = sqrt(2 epsilon / (L (m + 8))). For
    the paper's constants and m = 78, mu is .0153, but weights in the ball may be .01, so probes
    could leave the positive orthant. The weights therefore stay in the ball of radius R - mu and >=
    .01 + mu, which keeps the probes in the ball of radius R and >= .01.

    Parameters
    ----------
    epsilon : float, default 1e-6
        > 0, the paper's.
    smoothness : float, default 1e-4
        > 0, the Lipschitz constant L (the paper's); too small a value overshoots.
    radius : float, default 0.99
        > 0, R of the ball around 1 that contains the probes (the paper's); each stays >= 0.01.
    iterations : int or None, default None
        Number of steps; None uses the theorem's M (978,532 for the paper's settings, m = 78).
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

    def learn(self, problem: Problem, start: ArrayLike | None = None) -> Iterator[LearnerStep]:
        """Yield after every step; the last one with ``is_best`` is the result.

        Raises
        ------
        ValueError
            Probes are longer than the ball permits.
        """
        m = problem.n_weights
        reach, error = self.reach(m), self.error(m)
        longest = min(self.radius, 1 - LEAST)
        if reach >= longest:
            raise InputValueError(
                f"epsilon {self.epsilon:g} and smoothness {self.smoothness:g} make probes of "
                f"length {reach:g}, but in the ball of radius {self.radius:g} they must be "
                f"shorter than {longest:g}",
                "lower `epsilon` or raise `smoothness`",
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
            yield LearnerStep(step, now - began, loss, weights, loss < least)
            began, least = perf_counter(), min(least, loss)


# GBP: plain projected gradient descent, the baseline (Zhukovskii et al. 2014).


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
        Queries per step, drawn without replacement from the queries with pairs; after a pass over
        all of them, drawing restarts. ``tolerance`` is then ignored, because a step's loss is the
        loss of its own batch before the step. None uses all queries in every step (the paper's).
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

    def learn(self, problem: Problem, start: ArrayLike | None = None) -> Iterator[LearnerStep]:
        """Yield after every step; the last one is the result."""
        weights = Ball(self.radius).start(start, problem.n_weights)
        if self.batch_size is None:
            yield from self._on_all(problem, weights)
        else:
            yield from self._on_batches(problem, weights, self.batch_size)

    def _on_all(self, problem: Problem, weights: NDArray[np.float64]) -> Iterator[LearnerStep]:
        ball, began = Ball(self.radius), perf_counter()
        here = problem.value_and_gradient_after(weights, self.walk_steps)
        for step in range(1, self.iterations + 1):
            weights = ball.project(weights - self.step_size * here.gradient)
            last, here = here, problem.value_and_gradient_after(weights, self.walk_steps)
            yield LearnerStep(step, perf_counter() - began, here.loss, weights, True)
            if last.loss - here.loss < self.tolerance:
                return
            began = perf_counter()

    def _on_batches(
        self, problem: Problem, weights: NDArray[np.float64], size: int
    ) -> Iterator[LearnerStep]:
        ball, random = Ball(self.radius), generator(self.random_state)
        judged, waiting = np.flatnonzero(problem.pairs.counts), np.array([], dtype=np.int64)
        for step in range(1, self.iterations + 1):
            began = perf_counter()
            if not len(waiting):
                waiting = random.permutation(judged)
            queries, waiting = np.split(waiting, [size])
            here = problem.part(queries).value_and_gradient_after(weights, self.walk_steps)
            weights = ball.project(weights - self.step_size * here.gradient)
            yield LearnerStep(step, perf_counter() - began, here.loss, weights, True)
