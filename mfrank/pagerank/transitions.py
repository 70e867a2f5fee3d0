"""Transition probabilities of the walks on all queries' graphs, at some weights of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.blas import single_threaded
from mfrank.chains import Chain
from mfrank.csr import CSR
from mfrank.lazy import lazy
from mfrank.pagerank.graphs import Graphs

__all__ = ["Transitions"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Where walks begin and go on, with the sums that the weights are divided by.

    Walks restart at seed i with probability F_i / F_U, F_i = <phi1, V_i> and F_U their sum over the
    query's seeds (2.2); they take edge e with probability G_e / G_a, G_e = <phi2, E_e> and G_a the
    sum over the edges from its source a (2.3). From a node without edges they restart.

    Attributes
    ----------
    graphs : Graphs
    weights : float64, shape (m1 + m2,)
        phi, of node features and then of edge features.
    restarts : float64, shape (n_nodes,)
        pi0, sums to 1 in every query.
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
        """Probabilities at ``weights`` >= 0, shape (m1 + m2,); by default all are 1.

        Raises
        ------
        ValueError, TypeError
            Weights that do not fit; the seeds of a query, or the edges from a node, weigh 0.
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
        """P, which takes the mean over where a walk goes next."""
        links = self.graphs.links
        rows = CSR(links.indptr, links.indices, self.steps, links.n_columns)
        return Chain(rows, self.graphs.nodes, self._dangling[:, None], self.restarts)

    def per_query(self, values: Floats) -> Floats:
        """Sums over the nodes of each query, shape (n_queries,)."""
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
        raise ValueError("weights must be finite and >= 0: probabilities come out of them")
    return phi


def _refuse(bad: NDArray[np.bool_], name: str, what: str, symbol: str) -> None:
    if bad.any():
        raise ValueError(
            f"{what} {np.argmax(bad)} weigh 0 altogether ({int(bad.sum())} such cases), their "
            f"{name} [{symbol}] are 0 wherever weights are not; graphs.with_constant() adds a "
            "feature that is 1 everywhere"
        )
