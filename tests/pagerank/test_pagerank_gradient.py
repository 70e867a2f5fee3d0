"""The loss and its gradient: finite differences, the paper's matrix, bounds, and invariances."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from jacobian import first_term, jacobian
from query_graphs import ALPHA, WALKER, dense, random_graphs, random_weights

from mfrank.backends import Until
from mfrank.pagerank import (
    Graphs,
    Pairs,
    SquareLoss,
    Transitions,
    adjoint,
    adjoint_within,
    gradient,
    gradient_error,
    nesterov_nemirovski,
    power,
    sensitivity,
)
from tests.support.errors import refuses

SEEDS = range(4)
LOSS = SquareLoss(0.01)


def value(graphs: Graphs, weights: np.ndarray, pairs: Pairs) -> float:
    return float(pairs.losses(dense(graphs, weights).values).mean())


def differences(graphs: Graphs, weights: np.ndarray, pairs: Pairs) -> np.ndarray:
    steps = 1e-6 * np.eye(len(weights))
    ahead, behind = ([value(graphs, weights + s * h, pairs) for h in steps] for s in (1, -1))
    return (np.array(ahead) - np.array(behind)) / 2e-6


def exact_gradient(graphs: Graphs, weights: np.ndarray, pairs: Pairs) -> np.ndarray:
    """With exact systems, from the paper's Pi0."""
    truth = dense(graphs, weights)
    lam = np.linalg.solve(
        np.eye(graphs.n_nodes) - (1 - ALPHA) * truth.matrix, pairs.gradients(truth.values)
    )
    term = first_term(Transitions.of(graphs, weights), truth.values, ALPHA)
    return term.T @ lam / graphs.n_queries


def test_pairs_are_all_differently_labeled_pages_of_a_query() -> None:
    graphs = random_graphs()
    pairs = SquareLoss().pairs(graphs)
    wanted = {
        (i, j)
        for i in range(graphs.n_nodes)
        for j in range(graphs.n_nodes)
        if graphs.labels[i] < graphs.labels[j] and graphs.query_of[i] == graphs.query_of[j]
    }
    assert set(zip(pairs.worse.tolist(), pairs.better.tolist(), strict=True)) == wanted
    assert len(pairs.worse) == len(wanted) == pairs.counts.sum()
    touched = [sum(n in pair for pair in wanted) for n in range(graphs.n_nodes)]
    ends = graphs.nodes
    np.testing.assert_array_equal(pairs.degrees, [max(touched[a:b]) for a, b in pairwise(ends)])
    values = np.random.default_rng(4).random(graphs.n_nodes)
    lags = {(i, j): max(values[i] - values[j], 0.0) for i, j in wanted}
    loads = [sum(lag for pair, lag in lags.items() if n in pair) for n in range(graphs.n_nodes)]
    np.testing.assert_allclose(
        pairs.loads(values), [max(loads[a:b]) for a, b in pairwise(ends)], rtol=1e-12
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_loss_is_as_printed_under_either_sign(sign: int) -> None:
    graphs = random_graphs()
    values = np.random.default_rng(2).random(graphs.n_nodes)
    margins = {(0.0, 1.0): 0.1, (0.0, 2.0): 0.4}
    loss = SquareLoss(margins, "margin" if sign == 1 else "tolerance")
    pairs = loss.pairs(graphs)
    printed = np.zeros(graphs.n_queries)
    for worse, better in zip(pairs.worse, pairs.better, strict=True):
        b = margins.get((graphs.labels[worse], graphs.labels[better]), 0.0)
        ahead = values[better] - values[worse]
        of_pair = max(-ahead + b, 0) if sign == 1 else -min(ahead + b, 0)  # (3.5), (3.1)
        printed[graphs.query_of[worse]] += of_pair**2
    np.testing.assert_allclose(pairs.losses(values), printed)
    step = 1e-6 * np.random.default_rng(3).standard_normal(graphs.n_nodes)
    change = (pairs.losses(values + step) - pairs.losses(values - step)).sum() / 2
    np.testing.assert_allclose(pairs.gradients(values) @ step, change, rtol=1e-5)
    assert pairs.lags(values).max() <= pairs.most


def test_what_is_no_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="margin of margin must be a finite number >= 0"):
        SquareLoss(-1.0)
    with refuses(ValueError, "sign"):
        SquareLoss(sign="plus")  # type: ignore[arg-type]
    graphs = random_graphs().with_labels(np.zeros(40))
    with refuses(ValueError, remedy="at least two different ones"):
        SquareLoss().pairs(graphs)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_is_that_of_finite_differences(seed: int) -> None:
    graphs = random_graphs(seed)
    weights, pairs = random_weights(graphs, seed), LOSS.pairs(graphs)
    walk = Transitions.of(graphs, weights)
    values = power(walk, 1e-14, WALKER).values
    lam = adjoint_within(walk, pairs.gradients(values), np.full(3, 1e-13), WALKER)
    got = gradient(walk, values, lam.values, ALPHA)
    truth = differences(graphs, weights, pairs)
    np.testing.assert_allclose(got, truth, rtol=0, atol=1e-7 * np.abs(truth).max())
    np.testing.assert_allclose(got, exact_gradient(graphs, weights, pairs), atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n1", [3, 9, 300])
@pytest.mark.parametrize("n2", [0, 7, 300])
def test_adjoint_is_the_matrix_method_without_its_normaliser(seed: int, n1: int, n2: int) -> None:
    graphs = random_graphs(seed)
    walk, pairs = Transitions.of(graphs, random_weights(graphs)), LOSS.pairs(graphs)
    values = nesterov_nemirovski(walk, n1, WALKER).values
    gradients = pairs.gradients(values)
    lam = adjoint(walk, gradients, Until(n2), WALKER).values
    matrix = jacobian(walk, values, n2, WALKER, normalized=False)
    wanted = matrix.T @ gradients / graphs.n_queries
    np.testing.assert_allclose(gradient(walk, values, lam, ALPHA), wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_matrix_method_is_as_printed(seed: int) -> None:
    graphs = random_graphs(seed)
    weights = random_weights(graphs)
    walk, truth = Transitions.of(graphs, weights), dense(graphs, weights)
    term = first_term(walk, truth.values, ALPHA)
    printed = term
    for k in range(1, 9):
        term = truth.matrix.T @ term
        printed = printed + (1 - ALPHA) ** k * term
    printed = printed / (1 - (1 - ALPHA) ** 9)
    np.testing.assert_allclose(jacobian(walk, truth.values, 8, WALKER), printed, rtol=0, atol=1e-15)
    exact = jacobian(walk, truth.values, 400, WALKER)
    steps = 1e-6 * np.eye(len(weights))
    for j, step in enumerate(steps):
        moved = dense(graphs, weights + step).values - dense(graphs, weights - step).values
        np.testing.assert_allclose(exact[:, j], moved / 2e-6, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_of_the_first_term(seed: int) -> None:
    graphs = random_graphs(seed)
    weights = random_weights(graphs, seed)
    walk, truth = Transitions.of(graphs, weights), dense(graphs, weights)
    term = first_term(walk, truth.values, ALPHA)
    for part in np.split(term, graphs.nodes[1:-1]):
        np.testing.assert_allclose(part.sum(axis=0), 0, atol=1e-15)
        assert np.abs(part).sum(axis=0).max() <= sensitivity(walk)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("steps", [3, 10, 30])
def test_error_of_the_adjoint_is_within_its_bounds(seed: int, steps: int) -> None:
    graphs = random_graphs(seed)
    weights, pairs = random_weights(graphs, seed), LOSS.pairs(graphs)
    walk, truth = Transitions.of(graphs, weights), dense(graphs, weights)
    gradients = pairs.gradients(truth.values)
    lam = adjoint(walk, gradients, Until(steps), WALKER)
    exact = np.linalg.solve(np.eye(graphs.n_nodes) - (1 - ALPHA) * truth.matrix, gradients)
    for q, (begin, end) in enumerate(pairwise(graphs.nodes)):
        off, c = (lam.values - exact)[begin:end], gradients[begin:end]
        assert np.ptp(off) / 2 <= lam.errors[q] + 1e-14
        assert lam.errors[q] <= (1 - ALPHA) ** (steps + 1) / ALPHA * np.ptp(c) / 2 + 1e-15
    off = gradient(walk, truth.values, lam.values, ALPHA) - exact_gradient(graphs, weights, pairs)
    parts = np.split(np.abs(first_term(walk, truth.values, ALPHA)), graphs.nodes[1:-1])
    columns = np.array([part.sum(axis=0) for part in parts])
    assert (np.abs(off) <= lam.errors @ columns / graphs.n_queries + 1e-14).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("steps", [0, 1, 3, 12])
def test_certificates_of_the_adjoint_are_of_the_last_change(seed: int, steps: int) -> None:
    """Before the first change, of what is left of the series."""
    graphs = random_graphs(seed)
    gradients = LOSS.pairs(graphs).gradients(dense(graphs, np.ones(10)).values)
    walk, series = Transitions.of(graphs), (1 - ALPHA) / ALPHA
    now = adjoint(walk, gradients, Until(steps), WALKER)
    before = adjoint(walk, gradients, Until(steps - 1), WALKER).values if steps else 0.0
    changes = np.split(now.values - before, graphs.nodes[1:-1])
    bounds = [series * np.ptp(change) / 2 for change in changes]
    np.testing.assert_allclose(now.errors, bounds, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-7])
def test_the_adjoint_ends_as_soon_as_its_error_is_certified(seed: int, tolerance: float) -> None:
    graphs = random_graphs(seed)
    gradients = LOSS.pairs(graphs).gradients(dense(graphs, np.ones(10)).values)
    walk = Transitions.of(graphs)
    lam = adjoint_within(walk, gradients, np.full(3, tolerance), WALKER)
    assert (lam.errors <= tolerance).all()
    for query, steps in enumerate(lam.steps):
        if steps > 1:
            earlier = adjoint(walk, gradients, Until(int(steps) - 1), WALKER)
            assert earlier.errors[query] > tolerance


@pytest.mark.parametrize("tolerance", [0.05, 1e-5, 1e-40])
def test_the_adjoint_needs_most_steps_on_pages_that_lead_to_themselves(tolerance: float) -> None:
    """What differs between them shrinks by 1 - alpha, and never sooner than the series does."""
    walk = Transitions.of(Graphs.from_edges(np.arange(2), np.arange(2), seeds=[0]))
    lam = adjoint_within(walk, np.array([0.0, 2.0]), np.array([tolerance]), WALKER)
    most = math.ceil(math.log(tolerance * ALPHA) / math.log(1 - ALPHA)) - 1
    assert lam.steps[0] <= most
    if tolerance > 1e-16:  # a change is not yet lost in rounding
        assert lam.steps[0] == most
        assert lam.errors[0] <= tolerance


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-7])
def test_certificate_of_the_gradient(seed: int, tolerance: float) -> None:
    graphs = random_graphs(seed)
    weights, pairs = random_weights(graphs, seed), LOSS.pairs(graphs)
    walk = Transitions.of(graphs, weights)
    pi = power(walk, tolerance, WALKER)
    lam = adjoint_within(walk, pairs.gradients(pi.values), np.full(3, tolerance), WALKER)
    assert (lam.errors <= tolerance).all()
    got = gradient(walk, pi.values, lam.values, ALPHA)
    off = np.abs(got - exact_gradient(graphs, weights, pairs)).max()
    assert 0 < off <= gradient_error(walk, pairs, pi, lam, ALPHA)


def test_loss_depends_on_the_directions_of_the_weights_only() -> None:
    graphs = random_graphs()
    weights, pairs, m1 = random_weights(graphs), LOSS.pairs(graphs), graphs.n_features[0]
    stretched = np.concatenate([3 * weights[:m1], 0.1 * weights[m1:]])
    np.testing.assert_allclose(
        value(graphs, stretched, pairs), value(graphs, weights, pairs), rtol=1e-12
    )
    slope = exact_gradient(graphs, weights, pairs)
    for part in (slice(m1), slice(m1, None)):
        assert abs(slope[part] @ weights[part]) <= 1e-14 * np.abs(slope).max()


def test_gradient_needs_positive_weights() -> None:
    graphs = random_graphs()
    weights = random_weights(graphs)
    weights[0] = 0
    with refuses(ValueError, "weights"):
        sensitivity(Transitions.of(graphs, weights))
