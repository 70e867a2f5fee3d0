"""The gradient of the loss by the feature weights, from one more linear system: the adjoint.

With c = dl/dpi and lam = c + (1 - alpha) P lam, c' dpi/dphi = lam' Pi0, where Pi0 is (3.4). The
columns of Pi0 sum to 0, so lam matters only up to a constant, and the iteration contracts its
spread, (max - min) / 2. The paper iterates all m columns of dpi/dphi instead
(``tests/support/jacobian.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded
from mfrank.backends.walks import Until
from mfrank.pagerank.loss import Pairs
from mfrank.pagerank.stationary import Stationary, Walker, steps_within
from mfrank.pagerank.transitions import Transitions

__all__ = ["Adjoint", "adjoint", "adjoint_within", "gradient", "gradient_error", "sensitivity"]

Floats = NDArray[np.float64]


class Adjoint(NamedTuple):
    """Solutions of lam = c + (1 - alpha) P lam of all queries.

    Attributes
    ----------
    values : float64, shape (n_nodes,)
    errors : float64, shape (n_queries,)
        Bound on the spread of each query's error, without rounding errors.
    steps : int64, shape (n_queries,)
        Iterations of each query.
    """

    values: Floats
    errors: Floats
    steps: NDArray[np.int64]


def adjoint(transitions: Transitions, gradients: Floats, until: Until, walker: Walker) -> Adjoint:
    """Iterate lam <- c + (1 - alpha) P lam from lam = c; N2 steps sum N2 + 1 terms of the series.

    The spread of the error is at most (1 - alpha) / alpha times the spread of the last change.
    """
    walked = walker.backend.walk(
        transitions.backward,
        gradients[:, None],
        gradients[:, None],
        1 - walker.alpha,
        until._replace(norm="spread"),
        walker.n_threads,
    )
    begins = transitions.graphs.nodes
    left = (1 - walker.alpha) ** (walked.steps + 1) / walker.alpha * _spreads(gradients, begins)
    by_change = (1 - walker.alpha) / walker.alpha * walked.changes
    return Adjoint(walked.values[:, 0], np.minimum(left, by_change), walked.steps)


def adjoint_within(
    transitions: Transitions, gradients: Floats, tolerance: Floats, walker: Walker
) -> Adjoint:
    """Iterate until the spread of each query's error is at most ``tolerance``, by certificate."""
    spreads = _spreads(gradients, transitions.graphs.nodes)
    part = np.divide(
        walker.alpha * tolerance, spreads, out=np.ones_like(spreads), where=spreads > 0
    )
    change = walker.alpha / (1 - walker.alpha) * tolerance
    until = Until(steps_within(2 * float(part.min()), walker.alpha), change)
    return adjoint(transitions, gradients, until, walker)


def gradient(transitions: Transitions, values: Floats, lam: Floats, alpha: float) -> Floats:
    """Gradient of the mean loss over queries, lam' Pi0 / |Q|, shape (m1 + m2,).

    A walk restarts from nodes without edges, so their rows of P depend on phi1 too: their
    probability pi_D adds to that of the restarts ((2.4) and (A.11) of the paper omit it).
    """
    graphs, keep = transitions.graphs, 1 - alpha
    seeds, query = graphs.seeds, graphs.query_of[graphs.seeds]
    dangling = transitions.per_query(values * graphs.dangling)
    means = transitions.per_query(lam * transitions.restarts)
    pull = ((alpha + keep * dangling) / transitions.seed_sums)[query] * (lam[seeds] - means[query])

    ahead = lam[graphs.links.indices]
    mean_ahead = np.bincount(graphs.sources, transitions.steps * ahead, graphs.n_nodes)
    per_weight = np.divide(
        keep * values, transitions.node_sums, out=np.zeros(graphs.n_nodes), where=~graphs.dangling
    )
    along = per_weight[graphs.sources] * (ahead - mean_ahead[graphs.sources])
    with single_threaded():
        of_nodes = graphs.node_features[seeds].T @ pull
        of_edges = graphs.edge_features.T @ along
    return np.concatenate([of_nodes, of_edges]) / graphs.n_queries


def sensitivity(transitions: Transitions) -> float:
    """Bound on the 1-norm of every column of Pi0, beta1 = 2 / min phi.

    Because features are >= 0, the norm for weight j is at most 2 (alpha + (1 - alpha) pi_D) / phi_j
    for node features and 2 (1 - alpha) (1 - pi_D) / phi_j for edge features. The paper's (A.11)
    sums over all nodes.

    Raises
    ------
    ValueError
        A weight is 0.
    """
    least = float(transitions.weights.min())
    if least <= 0:
        raise ValueError(
            "weights must be > 0 for a gradient of known accuracy, as the learners ensure"
        )
    return 2 / least


def gradient_error(
    transitions: Transitions, pairs: Pairs, pi: Stationary, lam: Adjoint, alpha: float
) -> float:
    """Bound on every component's error from the errors of both iterations, without rounding errors.

    Let e1 = |pi~ - pi|, and e2 the spread of lam~'s error. Pi0 is off by beta (1 - alpha) e1, and c
    by 2 deg e1, which adds 2 deg e1 / alpha to e2.
    """
    spreads = _spreads(lam.values, transitions.graphs.nodes)
    of_lam = lam.errors + 2 * pairs.degrees * pi.errors / alpha
    per_query = (1 - alpha) * pi.errors * spreads + of_lam
    return sensitivity(transitions) * float(per_query.mean())


def _spreads(values: Floats, nodes: NDArray[np.int64]) -> Floats:
    begins = nodes[:-1]
    return (np.maximum.reduceat(values, begins) - np.minimum.reduceat(values, begins)) / 2
