"""Transition probabilities of the walks on all queries' graphs, for given feature weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.lazy import lazy
from mfrank.arrays.threads import single_threaded
from mfrank.backends.walks import Chain
from mfrank.pagerank.graphs import Graphs

__all__ = ["Transitions"]

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
        raise ValueError(
            f"weights must have shape ({size},), of node and then of edge features, got {phi.shape}"
        )
    if not (np.isfinite(phi).all() and phi.min() >= 0):
        raise ValueError("weights must be finite and >= 0, because they define probabilities")
    return phi


def _refuse(bad: NDArray[np.bool_], name: str, what: str, symbol: str) -> None:
    if bad.any():
        raise ValueError(
            f"{what} {np.argmax(bad)} weigh 0 in total ({int(bad.sum())} such cases): their "
            f"{name} [{symbol}] are 0 wherever the weights are not; graphs.with_constant() adds a "
            "feature that is 1 everywhere"
        )
