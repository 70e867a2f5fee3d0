"""Learning: what each method promises, and that they agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest
from query_graphs import ACCURACIES, LOSS, exact, problem, random_graphs

from mfrank.pagerank import (
    GBN,
    GBP,
    GFN,
    Ball,
    Graphs,
    LearnerStep,
    Problem,
    probe_gradient,
)
from tests.support.errors import refuses

SEEDS = range(3)


def answer(steps: list[LearnerStep]) -> LearnerStep:
    return [step for step in steps if step.is_best][-1]


def test_ball() -> None:
    ball = Ball(0.5)
    inside, outside = np.array([1.1, 0.8]), np.array([4.0, 5.0])
    assert ball.project(inside) is inside
    np.testing.assert_allclose(ball.project(outside), [1.3, 1.4])
    np.testing.assert_array_equal(ball.start(None, 3), 1)
    np.testing.assert_allclose(ball.start(outside, 2), [1.3, 1.4])


@pytest.mark.parametrize("radius", [0.5, 0.99, 1.5, 4.0])
def test_projection_is_the_nearest_point_of_the_ball_cut_off(radius: float) -> None:
    """No feasible point makes an acute angle with what projecting moved along."""
    rng, ball = np.random.default_rng(0), Ball(radius)
    for _ in range(50):
        given = 1 + rng.standard_normal(6) * rng.choice([0.1, 1, 10])
        nearest = ball.project(given)
        assert np.linalg.norm(nearest - 1) <= radius + 1e-12
        assert nearest.min() >= 0.01
        if np.linalg.norm(np.maximum(given, 0.01) - 1) > radius:
            np.testing.assert_allclose(np.linalg.norm(nearest - 1), radius, rtol=1e-12)
        np.testing.assert_allclose(ball.project(nearest), nearest, atol=1e-12)
        others = 1 + rng.standard_normal((200, 6)) * rng.choice([0.3, 1, 3], (200, 1))
        others = np.maximum(np.where(rng.random((200, 6)) < 0.2, 0.01, others), 0.01)
        others = others[np.linalg.norm(others - 1, axis=1) <= radius]
        assert ((others - nearest) @ (given - nearest)).max(initial=0) <= 1e-9


@pytest.mark.parametrize("method", [GBN(), GBP(step_size=2.0), GFN(smoothness=1e-3, iterations=60)])
def test_a_wider_ball_has_lower_losses_and_no_weights_below_a_hundredth(method: Any) -> None:
    seen: list[np.ndarray] = []

    class Watched(Problem):
        def loss(self, weights: np.ndarray, error: float) -> float:
            seen.append(weights)
            return super().loss(weights, error)

    at = problem()
    watched = Watched(at.graphs, at.square, at.pairs, at.walker)
    narrow = answer(list(method.learn(at)))
    wide = list(replace(method, radius=2.0).learn(watched))
    assert answer(wide).loss < narrow.loss
    every = np.array([*seen, *(step.weights for step in wide)])
    assert np.linalg.norm(every - 1, axis=1).max() <= 2.0 + 1e-12
    assert every.min() >= 0.01 - 1e-12


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_gbn_goes_down_in_the_ball_to_a_stationary_point(seed: int, accuracy: str) -> None:
    at, method = problem(seed, accuracy), GBN()
    steps = list(method.learn(at))
    assert steps[-1].is_best
    assert steps[-1].stationarity <= math.sqrt(method.epsilon)
    assert all(step.stationarity > math.sqrt(method.epsilon) for step in steps[:-1])
    before = exact(at, np.ones(10))
    for number, step in enumerate(steps, 1):
        assert step.step == number
        assert np.linalg.norm(step.weights - 1) <= 0.99 + 1e-12
        # Descends by at least M/2 |step|^2, but for 3 eps / 16 M of oracle and test.
        slack = 3 * method.epsilon / (16 * method.smoothness)
        after = exact(at, step.weights)
        assert after <= before + slack
        assert abs(step.loss - after) <= method.epsilon / (32 * method.smoothness)
        before = after
    assert before < exact(at, np.ones(10))


class Bowl:
    """(L / 2) |w - c|^2 in place of a problem, without any error."""

    def __init__(self, curvature: float, center: np.ndarray) -> None:
        self.curvature, self.center, self.n_weights = curvature, center, len(center)

    def loss(self, weights: np.ndarray, error: float) -> float:
        return self.curvature / 2 * float(np.sum((weights - self.center) ** 2))

    def value_and_gradient(self, weights: np.ndarray, *_: float) -> tuple[float, np.ndarray]:
        return self.loss(weights, 0.0), self.curvature * (weights - self.center)


@pytest.mark.parametrize("doublings", [0, 1, 7])
def test_gbn_takes_the_first_curvature_whose_model_bounds_the_loss(doublings: int) -> None:
    """On a quadratic that is its own curvature, with which a step ends at the minimum."""
    bowl: Any = Bowl(0.5, np.array([1.2, 0.9, 1.0]))
    step = next(GBN(smoothness=0.5 / 2**doublings).learn(bowl))
    np.testing.assert_allclose(step.weights, bowl.center, atol=1e-12)
    assert step.stationarity is not None
    length = float(np.linalg.norm(bowl.center - 1))
    np.testing.assert_allclose(step.stationarity, 0.5 * length, rtol=1e-9)


def test_gbn_halves_its_guess_after_every_step() -> None:
    """From four times the curvature: a quarter, half and all of the way to the center."""
    bowl: Any = Bowl(0.5, np.array([1.2, 0.9, 1.0]))
    away = [
        float(np.linalg.norm(step.weights - bowl.center))
        for step in GBN(smoothness=2.0).learn(bowl)
    ]
    length = float(np.linalg.norm(bowl.center - 1))
    np.testing.assert_allclose(away, length * np.array([0.75, 0.375, 0.0, 0.0]), atol=1e-12)


def test_gbn_ends_at_a_mapping_of_the_root_of_epsilon() -> None:
    bowl: Any = Bowl(0.5, np.array([1.0 + 2.0**-10]))
    (step,) = GBN(smoothness=0.5, epsilon=2.0**-22).learn(bowl)
    assert step.stationarity == 2.0**-11
    assert len(list(GBN(smoothness=0.5, epsilon=2.0**-23).learn(bowl))) == 2


def test_errors_of_the_oracle_are_three_quarters_of_what_a_step_of_gbn_allows() -> None:
    """Of two losses, and of a gradient along the longest step that the ball permits."""
    asked: list[tuple[float, ...]] = []

    class Asked(Bowl):
        def loss(self, weights: np.ndarray, error: float) -> float:
            asked.append((error,))
            return super().loss(weights, error)

        def value_and_gradient(self, weights: np.ndarray, *errors: float) -> Any:
            asked.append(errors)
            return Bowl.loss(self, weights, 0.0), self.curvature * (weights - self.center)

    bowl: Any = Asked(0.5, np.array([1.2, 0.9, 1.0]))
    method = GBN(smoothness=0.125, radius=0.7, epsilon=1e-3)
    next(method.learn(bowl))
    for tried, (errors, (of_moved,)) in zip(
        (0.125, 0.25, 0.5), zip(asked[::2], asked[1::2], strict=True), strict=True
    ):
        of_loss, of_gradient = errors
        along = of_gradient * math.sqrt(3) * 2 * method.radius
        allowed = method.epsilon / (8 * tried)
        assert of_loss == of_moved == pytest.approx(allowed / 4)
        assert along == pytest.approx(allowed / 4)


def test_gbn_accepts_a_model_short_of_the_loss_by_the_stated_part_of_epsilon() -> None:
    """With M < L the model is short by (L - M) / 2 |step|^2, of which eps / 8M is allowed."""
    center, tried = np.array([1.0 + 2.0**-10]), 0.25
    bowl: Any = Bowl(0.5, center)
    step_length = 0.5 / tried * 2.0**-10
    short = (0.5 - tried) / 2 * step_length**2
    allowed = GBN(smoothness=tried, epsilon=1.01 * short * 8 * tried)
    refused = replace(allowed, epsilon=0.99 * short * 8 * tried)
    lengths = [float(next(method.learn(bowl)).weights[0] - 1) for method in (allowed, refused)]
    np.testing.assert_allclose(lengths, [step_length, step_length / 2], rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_gbn_reaches_the_same_weights_by_theory_and_by_certificate(seed: int) -> None:
    method = GBN(epsilon=1e-11)
    one, other = (answer(list(method.learn(problem(seed, kind)))) for kind in ACCURACIES)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-5)


def test_gradient_mapping_is_zero_where_gbn_ends() -> None:
    at = problem()
    best = answer(list(GBN(epsilon=1e-12).learn(at)))
    slope = at.value_and_gradient(best.weights, 1e-12, 1e-10).gradient
    ball = Ball(0.99)
    assert np.linalg.norm(ball.project(best.weights - slope) - best.weights) <= 1e-5
    worse = exact(at, best.weights) + 1e-7
    rng = np.random.default_rng(0)
    for _ in range(20):  # no point nearby is better
        near = ball.project(best.weights + 1e-2 * rng.standard_normal(10))
        assert exact(at, near) >= 2 * exact(at, best.weights) - worse


def test_probes_have_the_gradient_of_the_smoothed_loss_as_their_mean() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((4, 4))
    hessian, at = half @ half.T, rng.standard_normal(4)

    def quadratic(x: np.ndarray) -> float:
        return float(x @ hessian @ x / 2)

    frame = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    # Both signs of an orthonormal frame have the moments of the sphere that a quadratic sees.
    probes = [
        probe_gradient(quadratic, at, quadratic(at), sign * along, 0.3)
        for along in frame
        for sign in (1, -1)
    ]
    np.testing.assert_allclose(np.mean(probes, axis=0), hessian @ at, rtol=1e-12)


def test_probes_of_the_loss_have_its_gradient_as_their_mean() -> None:
    at = problem()
    weights = np.full(10, 0.8)
    probes = [
        probe_gradient(lambda x: at.loss(x, 1e-13), weights, at.loss(weights, 1e-13), xi, 1e-4)
        for xi in np.concatenate([np.eye(10), -np.eye(10)])
    ]
    slope = at.value_and_gradient(weights, 1e-13, 1e-12).gradient
    np.testing.assert_allclose(np.mean(probes, axis=0), slope, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_gfn_goes_down_with_its_probes_in_the_ball(accuracy: str) -> None:
    at = problem(0, accuracy)
    method = GFN(epsilon=1e-4, smoothness=2e-3, iterations=150, random_state=1)
    reach = method.reach(10)
    seen: list[np.ndarray] = []

    class Watched(Problem):
        def loss(self, weights: np.ndarray, error: float) -> float:
            seen.append(weights)
            return super().loss(weights, error)

    watched = Watched(at.graphs, at.square, at.pairs, at.walker, at.accuracy)
    steps = list(method.learn(watched))
    assert len(steps) == 150
    assert max(np.linalg.norm(weights - 1) for weights in seen) <= 0.99 + 1e-12
    assert all(np.linalg.norm(step.weights - 1) <= 0.99 - reach + 1e-12 for step in steps)
    best = answer(steps)
    assert best.loss == min(step.loss for step in steps)
    assert exact(at, best.weights) < exact(at, np.ones(10))
    again = answer(list(method.learn(watched)))
    np.testing.assert_array_equal(best.weights, again.weights)


def test_gfn_steps_along_its_probe_by_the_stated_length() -> None:
    """On a linear loss, the step along xi is -(g . xi) / 8L, with g the slope."""
    slope = np.array([0.03, -0.02, 0.01])

    class Plane(Bowl):
        def loss(self, weights: np.ndarray, error: float) -> float:
            return float(slope @ weights)

    plane: Any = Plane(0.0, np.ones(3))
    method = GFN(epsilon=1e-4, smoothness=0.2, random_state=0, iterations=1)
    (step,) = method.learn(plane)
    moved = step.weights - 1
    assert np.linalg.norm(moved) > 1e-3
    np.testing.assert_allclose(-slope @ moved, 8 * 0.2 * moved @ moved, rtol=1e-6)


@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_probes_of_gfn_are_shorter_than_the_way_to_the_least_weight(radius: float) -> None:
    longest, at = min(radius, 0.99), problem()

    def probing(reach: float) -> GFN:
        return GFN(epsilon=reach**2 * 18 * 1e-3 / 2, smoothness=1e-3, radius=radius, iterations=1)

    assert len(list(probing(longest - 1e-6).learn(at))) == 1
    with refuses(ValueError, "epsilon", remedy="lower epsilon or raise"):
        next(probing(longest + 1e-6).learn(at))


def test_gfn_at_the_papers_constants() -> None:
    method = GFN()
    assert method.steps(78) == 978_532
    assert 0.01 < method.reach(78) < 0.0153
    assert GFN(iterations=3).steps(78) == 3
    # Errors of both its losses turn a probe's slope by at most an eighth of epsilon over the ball.
    turned = 78 / method.reach(78) * 2 * method.error(78)
    assert turned * method.radius == pytest.approx(method.epsilon / 8)
    with refuses(ValueError, "epsilon"):
        next(GFN(epsilon=1e-2).learn(problem()))


def test_gfn_comes_near_what_gbn_finds() -> None:
    at = problem()
    found = answer(list(GBN(epsilon=1e-12).learn(at))).loss
    steps = list(GFN(epsilon=1e-6, smoothness=1e-3, iterations=600, random_state=0).learn(at))
    first = exact(at, np.ones(10))
    assert found <= answer(steps).loss + 1e-6
    assert first - answer(steps).loss >= 0.8 * (first - found)


def test_gbp_is_projected_descent_that_ends_where_it_gains_little() -> None:
    at = problem()
    method = GBP(step_size=0.5, tolerance=1e-6)
    steps = list(method.learn(at))
    weights = np.ones(10)
    losses = [exact(at, weights)]
    for step in steps:
        slope = at.value_and_gradient(weights, 1e-13, 1e-12).gradient
        weights = Ball(0.99).project(weights - 0.5 * slope)
        np.testing.assert_allclose(step.weights, weights, atol=1e-9)
        losses.append(exact(at, weights))
        np.testing.assert_allclose(step.loss, losses[-1], rtol=1e-6)
    gains = -np.diff(losses)
    assert (gains[:-1] >= 1e-6).all()
    assert gains[-1] < 1e-6
    assert all(step.is_best and step.stationarity is None for step in steps)


def test_batches_go_through_the_judged_queries_and_their_slopes_add_up() -> None:
    graphs = random_graphs(sizes=(9, 5, 7, 12, 6), m=(4, 6))
    labels = graphs.labels.copy()
    labels[graphs.query_of == 2] = np.nan
    at = Problem.of(graphs.with_labels(labels), LOSS)
    whole = at.value_and_gradient_after(np.ones(10), 60)
    parts = [
        at.part(np.array(queries)).value_and_gradient_after(np.ones(10), 60)
        for queries in ([0, 3], [4, 1])
    ]
    np.testing.assert_allclose(sum(p.gradient for p in parts) * 2 / 5, whole.gradient, atol=1e-14)
    np.testing.assert_allclose(sum(p.loss for p in parts) * 2 / 5, whole.loss)

    drawn: list[list[int]] = []

    class Watched(Problem):
        def part(self, queries: np.ndarray) -> Problem:
            drawn.append(queries.tolist())
            return at.part(queries)

    watched = Watched(at.graphs, at.square, at.pairs, at.walker)
    method = GBP(step_size=0.05, batch_size=3, iterations=40, random_state=0)
    steps = list(method.learn(watched))
    assert all(step.is_best for step in steps)
    assert [len(batch) for batch in drawn[:4]] == [3, 1, 3, 1]
    assert sorted(drawn[0] + drawn[1]) == sorted(drawn[2] + drawn[3]) == [0, 1, 3, 4]
    assert exact(at, steps[-1].weights) < exact(at, np.ones(10))
    assert max(np.linalg.norm(step.weights - 1) for step in steps) <= 0.99 + 1e-12
    np.testing.assert_array_equal(steps[-1].weights, list(method.learn(at))[-1].weights)


@pytest.mark.parametrize(
    "method",
    [
        GBN(iterations=4, epsilon=1e-12),
        GBP(iterations=4, tolerance=0.0),
        GBP(iterations=4, batch_size=2, random_state=0),
        GFN(epsilon=1e-4, smoothness=2e-3, iterations=4, random_state=0),
    ],
    ids=repr,
)
def test_seconds_of_steps_are_those_of_their_work(method: Any) -> None:
    pause, paused, told = 0.02, 0.0, 0.0
    began = perf_counter()
    for step in method.learn(problem()):
        assert step.seconds > 0
        told += step.seconds
        rest = perf_counter()
        sleep(pause)  # what its caller does, such as an evaluation, is no part of a step
        paused += perf_counter() - rest
    assert paused >= 3 * pause
    assert told <= perf_counter() - began - paused


def test_start_and_record() -> None:
    at = problem()
    begin = np.linspace(0.8, 1.2, 10)
    [step] = GBP(step_size=1e-12, iterations=1, tolerance=0.0).learn(at, begin)
    np.testing.assert_allclose(step.weights, begin, atol=1e-9)
    assert step.record() == {"epoch": 1, "seconds": step.seconds, "objective": step.loss}
    for start in (np.ones(3), np.full(10, np.nan)):
        with refuses(ValueError, "start"):
            next(GBN().learn(at, start))
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    labeled = pandas.Series(begin, index=[f"feature {n}" for n in range(10)])
    with refuses(ValueError, "start", remedy=r"pass start\.to_numpy\(\)"):
        next(GBN().learn(at, labeled))


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_a_start_of_any_dtype_is_one_of_float64(dtype: Any) -> None:
    begin = Ball(0.99).start(np.ones(10, dtype), 10)
    assert begin.dtype == np.float64
    np.testing.assert_array_equal(begin, 1)


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize(
    "method",
    [
        GBN(epsilon=1e-300),
        GBP(tolerance=0.0),
        GBP(tolerance=0.0, step_size=1e-30),  # gains nothing, which is not less than 0
        GBP(batch_size=1, random_state=0),
        GFN(epsilon=1e-4, smoothness=2e-3, random_state=0),
    ],
    ids=repr,
)
def test_iterations_are_the_number_of_steps(method: Any, iterations: int) -> None:
    steps = list(replace(method, iterations=iterations).learn(problem()))
    assert [step.step for step in steps] == list(range(1, iterations + 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda method=method, name=name: method(**{name: 0}), f"{name} must be a finite nu")
            for method, names in (
                (GBN, ("epsilon", "smoothness", "radius")),
                (GFN, ("epsilon", "smoothness", "radius")),
                (GBP, ("step_size", "radius")),
            )
            for name in names
        ),
        *(
            (lambda method=method: method(iterations=0), "iterations must be at least 1")
            for method in (GBN, GFN, GBP)
        ),
        (lambda: GBP(tolerance=-1e-9), "tolerance must be a finite number >= 0"),
        (lambda: GBP(walk_steps=0), "walk_steps must be at least 1"),
        (lambda: GBP(batch_size=0), "batch_size must be at least 1"),
        (lambda: GBP(random_state=-1), "random_state must"),
        (lambda: GFN(random_state=-1), "random_state must"),
        (lambda: problem(accuracy="best"), "accuracy must be one of certificate, theory"),
        (lambda: problem(alpha=1.0), r"alpha must be a fraction in \(0, 1\)"),
        (lambda: problem(backend="gpu"), "backend must be one of"),
        (lambda: problem(n_threads=-1), "n_threads must be"),
        (
            lambda: Problem.of(
                replace(random_graphs(), edge_features=0 * random_graphs().edge_features)
            ),
            "weigh 0 in total",
        ),
        (
            lambda: Problem.of(Graphs.from_edges([0], [1], seeds=[0])),
            "no query has pages with different labels",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
