"""Stationary distributions against dense systems, their bounds, and the limits of both methods."""

from __future__ import annotations

import numpy as np
import pytest
from query_graphs import ALPHA, WALKER, dense, per_query, random_graphs, random_weights

from mfrank.backends import choose
from mfrank.pagerank import (
    Graphs,
    Transitions,
    Walker,
    nesterov_nemirovski,
    power,
    power_steps,
    steps_within,
)
from tests.support.errors import refuses

SEEDS = range(4)


def cycle(size: int) -> Transitions:
    nodes = np.arange(size)
    return Transitions.of(Graphs.from_edges(nodes, (nodes + 1) % size, seeds=[0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_transitions_are_those_of_the_definitions(seed: int) -> None:
    graphs = random_graphs(seed)
    weights = random_weights(graphs, seed)
    truth, got = dense(graphs, weights), Transitions.of(graphs, weights)
    np.testing.assert_allclose(got.restarts, truth.restarts, rtol=1e-13)
    np.testing.assert_allclose(
        got.steps, truth.matrix[graphs.sources, graphs.links.indices], rtol=1e-13
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("steps", [0, 1, 5, 20, 60])
def test_nesterov_nemirovski_is_as_printed_and_within_its_bound(seed: int, steps: int) -> None:
    graphs = random_graphs(seed)
    weights = random_weights(graphs, seed)
    truth, t = dense(graphs, weights), (1 - ALPHA) ** (steps + 1)
    got = nesterov_nemirovski(Transitions.of(graphs, weights), steps, WALKER)
    term, printed = truth.restarts, truth.restarts
    for k in range(1, steps + 1):
        term = truth.matrix.T @ term
        printed = printed + (1 - ALPHA) ** k * term
    np.testing.assert_allclose(got.values, ALPHA / (1 - t) * printed, rtol=0, atol=1e-14)
    assert (per_query(graphs, got.values - truth.values) <= 2 * t + 1e-14).all()
    np.testing.assert_allclose(got.errors, 2 * t)


@pytest.mark.parametrize("steps", [5, 20, 60])
def test_a_directed_cycle_attains_the_bound(steps: int) -> None:
    size = 400
    exact = ALPHA * (1 - ALPHA) ** np.arange(size) / (1 - (1 - ALPHA) ** size)
    walk = cycle(size)
    error = np.abs(nesterov_nemirovski(walk, steps, WALKER).values - exact).sum()
    np.testing.assert_allclose(error, 2 * (1 - ALPHA) ** (steps + 1), rtol=1e-9)
    # Power iteration from pi0 is no worse, because pi >= alpha pi0.
    same = power(walk, 2.001 * (1 - ALPHA) ** (steps + 1), WALKER)
    assert same.steps[0] == steps
    np.testing.assert_allclose(np.abs(same.values - exact).sum(), error, rtol=1e-9)
    np.testing.assert_allclose(same.errors, error, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tolerance", [1e-1, 1e-4, 1e-9])
def test_power_keeps_its_certificate(seed: int, tolerance: float) -> None:
    graphs = random_graphs(seed)
    weights = random_weights(graphs, seed)
    truth = dense(graphs, weights)
    got = power(Transitions.of(graphs, weights), tolerance, WALKER)
    error = per_query(graphs, got.values - truth.values)
    assert (error <= got.errors + 1e-14).all()
    assert (got.errors <= tolerance).all()
    assert (got.steps <= steps_within(tolerance, ALPHA)).all()
    assert got.steps.min() < steps_within(tolerance, ALPHA)  # it mixes


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_two_pages_that_lead_to_themselves_attain_the_certificate(steps: int) -> None:
    """What starts on the wrong one is a share 1 - alpha nearer after every step."""
    walk = Transitions.of(Graphs.from_edges(np.arange(2), np.arange(2), seeds=[0]))
    error = 2 * (1 - ALPHA) ** steps
    got = power(walk, 1.001 * error, WALKER, np.array([0.0, 1.0]))
    assert got.steps[0] == steps
    np.testing.assert_allclose(np.abs(got.values - [1.0, 0.0]).sum(), error, rtol=1e-12)
    np.testing.assert_allclose(got.errors, error, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("steps", [1, 3, 12])
def test_certificates_are_of_the_last_change(seed: int, steps: int) -> None:
    walk = Transitions.of(random_graphs(seed))
    before, after = (power_steps(walk, n, WALKER) for n in (steps - 1, steps))
    change = per_query(random_graphs(seed), after.values - before.values)
    bound = np.minimum((1 - ALPHA) / ALPHA * change, 2 * (1 - ALPHA) ** (steps + 1))
    np.testing.assert_allclose(after.errors, bound, rtol=1e-9)


@pytest.mark.parametrize("steps", [5, 20, 60])
def test_from_elsewhere_a_cycle_needs_one_step_more_for_the_same_bound(steps: int) -> None:
    elsewhere = np.eye(400)[200]
    got = power(cycle(400), 2.001 * (1 - ALPHA) ** steps, WALKER, elsewhere)
    assert got.steps[0] == steps
    np.testing.assert_allclose(got.errors, 2 * (1 - ALPHA) ** steps, rtol=1e-9)
    near = power(cycle(400), 1e-14, WALKER).values
    assert np.abs(got.values - near).sum() <= got.errors[0] + 1e-13


@pytest.mark.parametrize("alpha", [1e-3, 0.15, 0.6, 1 - 1e-9])
@pytest.mark.parametrize("tolerance", [9.0, 2.0, 1.9, 1.0, 0.1, 1e-6, 1e-13])
def test_steps_are_the_fewest_that_suffice_on_any_graph(alpha: float, tolerance: float) -> None:
    steps = steps_within(tolerance, alpha)
    assert steps >= 1
    assert 2 * (1 - alpha) ** (steps + 1) <= tolerance * (1 + 1e-9)
    assert steps == 1 or 2 * (1 - alpha) ** steps > tolerance


def test_steps_end_where_nobody_would_wait() -> None:
    assert steps_within(1e-6, 1e-12) == 2**30


def test_power_may_start_elsewhere_and_ends_query_by_query() -> None:
    graphs = random_graphs()
    walk = Transitions.of(graphs)
    truth = dense(graphs, np.ones(10)).values
    tolerance = np.array([1e-10, 1e-2, 1e-6])
    cold, warm = power(walk, tolerance, WALKER), power(walk, tolerance, WALKER, truth)
    assert cold.steps[0] > cold.steps[2] > cold.steps[1]
    np.testing.assert_array_equal(warm.steps, 1)
    np.testing.assert_allclose(warm.values, truth, atol=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_probabilities_sum_to_one_also_with_dangling_nodes(seed: int) -> None:
    graphs = random_graphs(seed)
    assert graphs.dangling.any()
    walk = Transitions.of(graphs, random_weights(graphs))
    for got in (nesterov_nemirovski(walk, 7, WALKER), power(walk, 1e-12, WALKER)):
        np.testing.assert_allclose(per_query(graphs, got.values), 1, rtol=1e-13)
        assert got.values.min() >= 0


def test_certain_restarts_leave_the_restart_distribution() -> None:
    graphs = random_graphs()
    walk = Transitions.of(graphs)
    got = power(walk, 1e-13, Walker(1 - 1e-9, choose()))
    np.testing.assert_allclose(got.values, walk.restarts, atol=3e-9)


def test_backends_agree() -> None:
    walk = Transitions.of(random_graphs(5))
    truth = power(walk, 1e-12, Walker(ALPHA, choose("reference")))
    got = power(walk, 1e-12, WALKER)
    np.testing.assert_allclose(got.values, truth.values, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(got.steps, truth.steps)


def test_weights_that_sum_to_zero_are_refused_with_the_remedy() -> None:
    given = {"sources": [0, 0, 1], "targets": [1, 2, 2], "seeds": [0, 1]}
    blank = Graphs.from_edges(**given, node_features=[[0.0], [0.0], [1.0]])
    with refuses(
        ValueError, place="the seeds of query 0", remedy=r"graphs\.with_constant\(\) adds a feature"
    ):
        Transitions.of(blank)
    blank = Graphs.from_edges(**given, edge_features=[[1.0], [2.0], [0.0]])
    with refuses(
        ValueError,
        place="the edges from node 1",
        remedy=r"graphs\.with_constant\(\) adds a feature",
    ):
        Transitions.of(blank)
    np.testing.assert_allclose(Transitions.of(blank.with_constant()).steps, [2 / 5, 3 / 5, 1])
    assert Transitions.of(blank.with_constant(), np.ones(4, np.float32)).weights.dtype == np.float64
    with refuses(ValueError, "weights"):
        Transitions.of(blank, [1.0])
    with refuses(ValueError, "weights"):
        Transitions.of(blank, [1.0, -1.0])
