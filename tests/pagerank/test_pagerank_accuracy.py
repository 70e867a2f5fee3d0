"""The loss of a problem and its gradient: as accurate as asked, by certificate and by theory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from query_graphs import (
    ACCURACIES,
    ALPHA,
    LOSS,
    WALKER,
    dense,
    exact,
    problem,
    random_graphs,
    random_weights,
)

from mfrank.backends import Until, choose
from mfrank.pagerank import (
    Graphs,
    Problem,
    SquareLoss,
    Transitions,
    adjoint,
    gradient_error,
    loss_error,
    power,
    power_steps,
    sensitivity,
    steps_for_gradient,
    steps_for_loss,
    tolerances_for_gradient,
    tolerances_for_loss,
)

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("error", [1e-1, 1e-3, 1e-6])
def test_loss_is_as_accurate_as_asked(seed: int, accuracy: str, error: float) -> None:
    at = problem(seed, accuracy)
    weights = random_weights(at.graphs, seed)
    assert abs(at.loss(weights, error) - exact(at, weights)) <= error


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("error", [1e-1, 1e-3, 1e-6])
def test_gradient_is_as_accurate_as_asked(seed: int, accuracy: str, error: float) -> None:
    at = problem(seed, accuracy)
    weights = random_weights(at.graphs, seed)
    truth = at.value_and_gradient(weights, 1e-13, 1e-11).gradient
    got = at.value_and_gradient(weights, 1.0, error)
    assert np.abs(got.gradient - truth).max() <= error
    assert abs(got.loss - exact(at, weights)) <= 1.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_certificate_of_the_loss(seed: int, tolerance: float) -> None:
    at = problem(seed)
    weights = random_weights(at.graphs, seed)
    pi = power(Transitions.of(at.graphs, weights), tolerance, at.walker)
    off = abs(at.pairs.losses(pi.values).mean() - exact(at, weights))
    assert off <= loss_error(at.pairs, pi) + 1e-15


@pytest.mark.parametrize("error", [1e-3, 3e-4, 1e-4, 7e-5, 2e-6])
def test_step_counts_of_the_lemmas(error: float) -> None:
    assert steps_for_loss(10, error, 0.15) == math.ceil(math.log(80 / error) / 0.15) - 1
    n1, n2 = steps_for_gradient(10, 200.0, error, 0.15)
    assert n1 == math.ceil(math.log(24 * 200 * 10 / (0.15 * error)) / 0.15) - 1
    assert n2 == math.ceil(math.log(8 * 200 * 10 / (0.15 * error)) / 0.15) - 1
    assert steps_for_loss(1, 100.0, 0.15) == 0


def star(n_worse: int) -> Graphs:
    """One page that is better than all others of its query."""
    return Graphs.from_edges([], [], seeds=[0], labels=np.eye(1 + n_worse)[0])


@pytest.mark.parametrize("n_worse", [1, 2, 5])
def test_an_error_at_the_node_of_most_pairs_attains_the_certificate_of_the_loss(
    n_worse: int,
) -> None:
    pairs, error = SquareLoss(0.1).pairs(star(n_worse)), 1e-3
    values = np.linspace(0.1, 0.2, 1 + n_worse)
    truth = values - error * np.eye(1 + n_worse)[0]
    off = (pairs.losses(truth) - pairs.losses(values))[0]
    pi = power_steps(Transitions.of(star(n_worse)), 1, WALKER)
    stated = loss_error(pairs, pi._replace(values=values, errors=np.array([error])))
    np.testing.assert_allclose(off, stated, rtol=1e-12)


@pytest.mark.parametrize("sign", ["margin", "tolerance"])
@pytest.mark.parametrize("margin", [0.0, 0.25])
def test_most_is_the_lag_of_a_worse_page_that_has_everything(margin: float, sign: Any) -> None:
    pairs = SquareLoss(margin, sign).pairs(star(1))
    largest = pairs.lags(np.array([0.0, 1.0])).max()
    assert pairs.most == (largest if sign == "margin" else largest + margin)


@pytest.mark.parametrize("error", [1e-6, 1e-2, 1e3])
def test_tolerances_are_the_largest_within_which_bounds_are_kept(error: float) -> None:
    """For errors up to 1, whose squares are not above them; an error is shared half and half."""
    pairs, beta = LOSS.pairs(random_graphs(1)), 7.0
    most, degrees = pairs.most, pairs.degrees
    of_loss = tolerances_for_loss(pairs, error)
    of_pi, of_lam = tolerances_for_gradient(pairs, beta, error, ALPHA)
    spread = 2 * degrees * most / ALPHA  # of lam, at most
    bounds = (
        (of_loss, degrees * (2 * of_loss * most + of_loss), error),
        (of_pi, beta * ((1 - ALPHA) * of_pi * spread + 2 * degrees * of_pi / ALPHA), error / 2),
    )
    for tolerances, bound, allowed in bounds:
        full = tolerances == 1
        assert (tolerances <= 1).all()
        np.testing.assert_allclose(bound[~full], allowed, rtol=1e-12)
        assert (bound[full] <= allowed).all()
    np.testing.assert_allclose(beta * of_lam, error / 2, rtol=1e-12)
    assert full.any() == (error > 1)


def test_the_bound_of_a_gradient_adds_up_the_errors_of_both_iterations() -> None:
    graphs = random_graphs(2)
    pairs, walk = LOSS.pairs(graphs), Transitions.of(graphs, np.full(10, 0.5))
    e1, e2 = np.array([0.1, 0.2, 0.3]), np.array([0.01, 0.02, 0.04])
    values = np.random.default_rng(0).random(graphs.n_nodes)
    spreads = [np.ptp(part) / 2 for part in np.split(values, graphs.nodes[1:-1])]
    pi = power_steps(walk, 1, WALKER)._replace(errors=e1)
    lam = adjoint(walk, values, Until(1), WALKER)._replace(values=values, errors=e2)
    found = gradient_error(walk, pairs, pi, lam, ALPHA)
    of_operator, of_right_side = (1 - ALPHA) * e1 * spreads, 2 * pairs.degrees * e1 / ALPHA
    assert sensitivity(walk) == 4.0
    np.testing.assert_allclose(found, 4 * np.mean(of_operator + of_right_side + e2), rtol=1e-12)


def test_losses_are_the_mean_of_all_queries_also_of_those_without_pairs() -> None:
    graphs = random_graphs()
    judged, last = graphs.labels.copy(), graphs.nodes[-2]
    judged[last:] = np.nan
    pairs = LOSS.pairs(graphs.with_labels(judged))
    values = np.random.default_rng(0).random(graphs.n_nodes)
    np.testing.assert_array_equal(pairs.losses(values)[:-1], LOSS.pairs(graphs).losses(values)[:-1])
    at = Problem.of(graphs.with_labels(judged), LOSS)
    weights = random_weights(graphs)
    assert abs(at.loss(weights, 1e-9) - exact(at, weights)) <= 1e-9
    assert abs(at.value_and_gradient(weights, 1e-9, 1e-9).loss - exact(at, weights)) <= 1e-9
    for of_queries in (pairs.losses(values), pairs.counts, pairs.degrees, pairs.loads(values)):
        assert of_queries.shape == (graphs.n_queries,)
        assert of_queries[-1] == 0


def test_alpha_is_the_probability_of_a_restart() -> None:
    at = problem(alpha=0.4)
    weights = random_weights(at.graphs)
    wanted = at.pairs.losses(dense(at.graphs, weights, 0.4).values).mean()
    assert abs(at.loss(weights, 1e-12) - wanted) <= 1e-12
    assert at.walker.alpha == 0.4 != ALPHA


class Watched:
    """A backend that notes when each iteration is to end."""

    def __init__(self) -> None:
        self.ends: list[Until] = []

    def walk(self, *given: Any) -> Any:
        self.ends += [one for one in given if isinstance(one, Until)]
        return choose().walk(*given)


def ends(accuracy: str, call: Callable[[Problem], object]) -> list[Until]:
    at, backend = problem(0, accuracy), Watched()
    call(replace(at, walker=at.walker._replace(backend=backend)))
    return backend.ends


def test_theory_takes_the_steps_of_the_lemmas_and_certificates_end_earlier() -> None:
    at = problem()
    weights, r = np.full(10, 0.5), int(at.pairs.counts.max())
    of_loss = [Until(steps_for_loss(r, 1e-5, ALPHA))]
    assert ends("theory", lambda at: at.loss(weights, 1e-5)) == of_loss
    n1, n2 = steps_for_gradient(r, 4.0, 1e-3, ALPHA)
    for error, most in ((1.0, n1), (1e-12, steps_for_loss(r, 1e-12, ALPHA))):
        of_pi, of_lam = ends("theory", lambda at, e=error: at.value_and_gradient(weights, e, 1e-3))
        assert (of_pi.steps, of_lam.steps) == (most, n2)
        assert of_pi.tolerance is of_lam.tolerance is None
    for call in (
        lambda at: at.loss(weights, 1e-5),
        lambda at: at.value_and_gradient(weights, 1.0, 1e-3),
    ):
        assert all(until.tolerance is not None for until in ends("certificate", call))
