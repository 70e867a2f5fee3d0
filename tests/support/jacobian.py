"""The paper's derivative of the stationary distribution: an n_nodes x m matrix (4.5 - 4.7).

The adjoint of :mod:`mfrank.pagerank.problem` is tested and timed against this slower method.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Until
from mfrank.pagerank import Transitions, Walker

__all__ = ["first_term", "jacobian"]

Floats = NDArray[np.float64]


def first_term(transitions: Transitions, values: Floats, alpha: float) -> Floats:
    """Pi0 of (3.4), alpha dpi0/dphi + (1 - alpha) sum_i pi_i dp_i/dphi, shape (n_nodes, m).

    Includes the rows of P of nodes without edges, which are pi0.
    """
    graphs, keep = transitions.graphs, 1 - alpha
    m1, m2 = graphs.n_features
    seeds, query = graphs.seeds, graphs.query_of[graphs.seeds]
    features = graphs.node_features[seeds]
    sums = np.zeros((graphs.n_queries, m1))
    np.add.at(sums, query, features)
    of_restarts = features - transitions.restarts[seeds, None] * sums[query]
    dangling = transitions.per_query(values * graphs.dangling)
    term = np.zeros((graphs.n_nodes, m1 + m2))
    scale = (alpha + keep * dangling) / transitions.seed_sums
    term[seeds, :m1] = scale[query, None] * of_restarts

    sources = graphs.sources
    sums = np.zeros((graphs.n_nodes, m2))
    np.add.at(sums, sources, graphs.edge_features)
    of_steps = graphs.edge_features - transitions.steps[:, None] * sums[sources]
    scale = keep * values[sources] / transitions.node_sums[sources]
    np.add.at(term[:, m1:], graphs.links.indices, scale[:, None] * of_steps)
    return term


def jacobian(
    transitions: Transitions, values: Floats, steps: int, walker: Walker, *, normalized: bool = True
) -> Floats:
    """dpi/dphi after N2 = ``steps``, shape (n_nodes, m).

    The sum of (1 - alpha)^k Pi_k with Pi_0 = Pi0 and Pi_{k+1} = P' Pi_k. ``normalized`` divides it
    by 1 - (1 - alpha)^(N2 + 1) as printed in (4.7); but the columns of Pi0 sum to 0, so there is
    nothing to normalize, and the sum converges faster without it.
    """
    begin = first_term(transitions, values, walker.alpha)
    walked = walker.backend.walk(
        transitions.forward, begin, begin, 1 - walker.alpha, Until(steps), walker.n_threads
    )
    fraction = 1 - (1 - walker.alpha) ** (steps + 1)
    return walked.values / (fraction if normalized else 1.0)
