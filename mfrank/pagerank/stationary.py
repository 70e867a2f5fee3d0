"""Stationary distributions of the walks, each with a bound on its error, for given feature weights.

pi = alpha pi0 + (1 - alpha) P' pi (Supervised PageRank, 3.2). One step of
x <- alpha pi0 + (1 - alpha) P' x contracts the 1-norm of a difference by the factor 1 - alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import CSR, lazy, single_threaded
from mfrank.backends import Backend, Chain, Moves, Until, Walked
from mfrank.errors import InputValueError
from mfrank.pagerank.graphs import Graphs

# Transition probabilities of the walks on all queries' graphs, for given feature weights.


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Probabilities of restarts and of edges, with the sums that normalize them.

    A walk restarts at seed i with probability F_i / F_U, where F_i = <phi1, V_i> and F_U is their
    sum over the query's seeds (2.2). It takes edge e with probability G_e / G_a, where G_e =
    <phi2, E_e> and G_a is their sum over the edges from the source a (2.3). From a node without
    edges, it restarts.

    Attributes
    ----------
    graphs : Graphs
    weights : float64, shape (m1 + m2,)
        phi: of the node features, then of the edge features.
    restarts : float64, shape (n_nodes,)
        pi0, with a sum of 1 over each query.
    seed_sums : float64, shape (n_queries,)
        F_U.
    node_sums : float64, shape (n_nodes,)
        G_a, 0 where there are no edges.
    steps : float64, shape (n_edges,)
        Probability of each edge.
    """

    graphs: Graphs
    weights: Floats
    restarts: Floats
    seed_sums: Floats
    node_sums: Floats
    steps: Floats

    @classmethod
    def of(cls, graphs: Graphs, weights: ArrayLike | None = None) -> Transitions:
        """Compute the probabilities for ``weights`` >= 0, shape (m1 + m2,); default all 1.

        Raises
        ------
        ValueError, TypeError
            Weights are invalid or of another shape, or the weights of a query's seeds or of the
            edges from a node sum to 0.
        """
        phi = _checked(graphs, weights)
        m1 = graphs.n_features[0]
        with single_threaded():
            of_seeds = graphs.node_features[graphs.seeds] @ phi[:m1]
            of_edges = graphs.edge_features @ phi[m1:]
        query_of_seed = graphs.query_of[graphs.seeds]
        seed_sums = _sums(query_of_seed, of_seeds, graphs.n_queries)
        _refuse(seed_sums <= 0, "node_features", "the seeds of query", "V")
        sums = _sums(graphs.sources, of_edges, graphs.n_nodes)
        _refuse((sums <= 0) & ~graphs.dangling, "edge_features", "the edges from node", "E")
        restarts = np.zeros(graphs.n_nodes)
        restarts[graphs.seeds] = of_seeds / seed_sums[query_of_seed]
        return cls(graphs, phi, restarts, seed_sums, sums, of_edges / sums[graphs.sources])

    @lazy
    def forward(self) -> Chain:
        """P', which moves probability along the edges."""
        rows, edges = self.graphs.backlinks
        moved = CSR(rows.indptr, rows.indices, self.steps[edges], rows.n_columns)
        return Chain(moved, self.graphs.nodes, self.restarts[:, None], self._dangling)

    @lazy
    def backward(self) -> Chain:
        """P, which averages over the next node of a walk."""
        links = self.graphs.links
        rows = CSR(links.indptr, links.indices, self.steps, links.n_columns)
        return Chain(rows, self.graphs.nodes, self._dangling[:, None], self.restarts)

    def per_query(self, values: Floats) -> Floats:
        """Sum of ``values`` over the nodes of each query, shape (n_queries,)."""
        return np.add.reduceat(values, self.graphs.nodes[:-1])

    @lazy
    def _dangling(self) -> Floats:
        return self.graphs.dangling.astype(np.float64)


def _sums(places: NDArray[Any], values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, values, size), dtype=np.float64)


def _checked(graphs: Graphs, weights: ArrayLike | None) -> Floats:
    size = sum(graphs.n_features)
    phi = np.ones(size) if weights is None else np.array(weights, dtype=np.float64)
    if phi.shape != (size,):
        raise InputValueError(
            f"`weights` must have shape ({size},), of node and then of edge features, got "
            f"{phi.shape}"
        )
    if not (np.isfinite(phi).all() and phi.min() >= 0):
        raise InputValueError(
            "`weights` must be finite and >= 0, because they define probabilities"
        )
    return phi


def _refuse(bad: NDArray[np.bool_], name: str, what: str, symbol: str) -> None:
    if bad.any():
        raise InputValueError(
            f"{what} {np.argmax(bad)} weigh 0 in total ({int(bad.sum())} such cases): their "
            f"{name} [{symbol}] are 0 wherever the weights are not",
            "graphs.with_constant() adds a feature that is 1 everywhere",
            place=f"{what} {np.argmax(bad)}",
        )


class Walker(NamedTuple):
    """Settings of the iterations.

    Attributes
    ----------
    alpha : float
        Probability of a restart, in (0, 1); 0.15 is the classical value (Page et al. 1999).
    backend : Backend
    n_threads : int
        0 takes every core this process may use.
    """

    alpha: float
    backend: Backend
    n_threads: int = 0


class StationaryOfQueries(NamedTuple):
    """Stationary distributions of all queries.

    Attributes
    ----------
    values : float64, shape (n_nodes,)
    errors : float64, shape (n_queries,)
        Bound on the 1-norm of each query's error, without rounding errors.
    steps : int64, shape (n_queries,)
        Iterations of each query.
    """

    values: Floats
    errors: Floats
    steps: NDArray[np.int64]


def nesterov_nemirovski(
    transitions: Transitions, steps: int, walker: Walker
) -> StationaryOfQueries:
    """The method of Nesterov and Nemirovski (4.1, 4.2), N = ``steps``.

    pi_N = alpha / (1 - t) sum_{k <= N} (1 - alpha)^k (P')^k pi0 with t = (1 - alpha)^(N + 1). N
    steps of s <- alpha pi0 + (1 - alpha) P' s from s = alpha pi0 compute alpha times the sum. The
    error is at most 2t, which a directed cycle attains.
    """
    begin = walker.alpha * transitions.restarts[:, None]
    walked = walker.backend.walk(
        transitions.forward, begin, begin, 1 - walker.alpha, Until(steps), walker.n_threads
    )
    left = (1 - walker.alpha) ** (steps + 1)
    errors = np.full(transitions.graphs.n_queries, 2 * left)
    return StationaryOfQueries(walked.values[:, 0] / (1 - left), errors, walked.steps)


def power(
    transitions: Transitions,
    tolerance: float | Floats,
    walker: Walker,
    start: Floats | None = None,
) -> StationaryOfQueries:
    """Power iteration until the errors are at most ``tolerance``, by certificate.

    For a step from x to x', |x - pi| <= |x' - x| / alpha, so |x' - pi| <= (1 - alpha) / alpha
    |x' - x|. No query takes more steps than the worst case needs: from pi0, |x_N - pi| <=
    2 (1 - alpha)^(N + 1), the bound of :func:`nesterov_nemirovski`; from another start, one more.

    Parameters
    ----------
    tolerance : float, or float64 of shape (n_queries,)
        > 0, bound on the 1-norm of each query's error.
    start : float64, shape (n_nodes,), optional
        Distributions to start from; default pi0.
    """
    alpha, late = walker.alpha, 0 if start is None else 1
    allowed = np.broadcast_to(np.asarray(tolerance, np.float64), transitions.graphs.n_queries)
    most = steps_within(float(allowed.min()), alpha) + late
    until = Until(most, alpha / (1 - alpha) * allowed)
    x = transitions.restarts if start is None else start
    values, changes, steps = _iterated(transitions, x, until, walker)
    worst = 2 * (1 - alpha) ** (steps + 1 - late)
    return StationaryOfQueries(values, np.minimum((1 - alpha) / alpha * changes, worst), steps)


def power_steps(transitions: Transitions, steps: int, walker: Walker) -> StationaryOfQueries:
    """Power iteration from pi0 with exactly ``steps`` steps."""
    values, changes, taken = _iterated(transitions, transitions.restarts, Until(steps), walker)
    worst = 2 * (1 - walker.alpha) ** (taken + 1)
    by_change = (1 - walker.alpha) / walker.alpha * changes
    return StationaryOfQueries(values, np.minimum(by_change, worst), taken)


def stationary_rows(moves: Moves, restarts: CSR, tolerance: float, walker: Walker) -> Floats:
    """Stationary distributions of walks on one graph, shape (k, n), one per row of ``restarts``.

    The sweeps of :meth:`mfrank.backends.Backend.stationary` usually converge in half the steps of
    power iteration, but only power iteration has a bound for any graph. Rows that do not converge
    within that bound, for example because the tolerance is below the rounding error, are therefore
    computed by power iteration.
    """
    most = steps_within(tolerance, walker.alpha)
    values, errors, _ = walker.backend.stationary(
        moves, restarts, walker.alpha, tolerance, most, walker.n_threads
    )
    for row in np.flatnonzero(~(errors <= tolerance)):
        nodes, chances = restarts.row(int(row))
        begin = np.zeros((len(moves.order), 1))
        begin[moves.place[nodes], 0] = chances
        walked = walker.backend.walk(
            moves.chain(begin),
            walker.alpha * begin,
            begin,
            1 - walker.alpha,
            Until(most, np.array([walker.alpha / (1 - walker.alpha) * tolerance])),
            walker.n_threads,
        )
        values[row, moves.order] = walked.values[:, 0]
    return values


def _iterated(transitions: Transitions, x: Floats, until: Until, walker: Walker) -> Walked:
    """Values (n_nodes,), changes and steps of power iteration."""
    walked = walker.backend.walk(
        transitions.forward,
        walker.alpha * transitions.restarts[:, None],
        x[:, None],
        1 - walker.alpha,
        until,
        walker.n_threads,
    )
    return walked._replace(values=walked.values[:, 0])


def steps_within(tolerance: float, alpha: float) -> int:
    """Smallest N >= 1 with 2 (1 - alpha)^(N + 1) <= tolerance: enough steps on any graph."""
    steps = math.ceil(math.log(min(tolerance, 2.0) / 2) / math.log1p(-alpha)) - 1
    return min(max(steps, 1), 2**30)  # at alpha = 1e-8, longer than anyone would wait
