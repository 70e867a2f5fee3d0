"""Stationary vectors of one graph, by each library, to one certified accuracy.

A power iteration ends where its last step changed the vector by no more than alpha / (1 - alpha) of
the tolerance in the 1-norm: the errors then sum to no more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.backends import choose
from mfrank.pagerank import RandomWalk, steps_within

__all__ = ["ALPHA", "Found", "peers"]

Floats = NDArray[np.float64]
ALPHA = 0.15
_MOST = 10_000


class Found(NamedTuple):
    """A vector, the seconds to prepare the graph and to compute it, and steps where told."""

    values: Floats
    prepare: float
    compute: float
    steps: int | None = None


@dataclass(frozen=True)
class Mfrank:
    """All nodes equally likely, as the others take it."""

    tolerance: float
    threads: int

    def __call__(self, links: sp.csr_array) -> Found:
        """One vector."""
        began = perf_counter()
        walk = RandomWalk.of(links)
        prepared = perf_counter()
        n = walk.n_nodes
        restart = CSR(np.array([0, n]), np.arange(n, dtype=np.int32), np.full(n, 1 / n), n)
        most = steps_within(self.tolerance, ALPHA)
        settled = choose("cpu").stationary(
            walk.moves, restart, ALPHA, self.tolerance, most, self.threads
        )
        done = perf_counter()
        return Found(settled.values[0], prepared - began, done - prepared, int(settled.steps[0]))


def scipy_power(links: sp.csr_array, tolerance: float) -> Found:
    """Power iteration as anybody would write it."""
    began = perf_counter()
    totals = links.sum(axis=1)
    inverse = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    forward = (sp.diags_array(inverse) @ links).T.tocsr()
    dangling, restart = totals == 0, np.full(len(totals), 1 / len(totals))
    prepared = perf_counter()
    values, steps, change = restart, 0, np.inf
    while change > tolerance * ALPHA / (1 - ALPHA):
        lost = values[dangling].sum()
        moved = ALPHA * restart + (1 - ALPHA) * (forward @ values + lost * restart)
        change, values, steps = np.abs(moved - values).sum(), moved, steps + 1
    return Found(values, prepared - began, perf_counter() - prepared, steps)


def scikit_network(links: sp.csr_array, tolerance: float) -> Found:
    """PageRank.fit, which prepares the graph anew each time.

    It lets nodes without edges from them lose what they have, so where there are some its vector
    is another one.
    """
    from sknetwork.ranking import PageRank

    matrix = sp.csr_matrix(links)
    change = tolerance * ALPHA / (1 - ALPHA)
    ranker = PageRank(1 - ALPHA, solver="piteration", n_iter=_MOST, tol=change)
    began = perf_counter()
    values = ranker.fit_predict(matrix)
    return Found(np.asarray(values), 0.0, perf_counter() - began)


def networkx(graph: Any, tolerance: float) -> Found:
    """networkx.pagerank of a DiGraph that is there already."""
    import networkx as nx

    n = graph.number_of_nodes()
    change = tolerance * ALPHA / (1 - ALPHA) / n
    began = perf_counter()
    ranks = nx.pagerank(graph, alpha=1 - ALPHA, tol=change, max_iter=_MOST)
    took = perf_counter() - began
    return Found(np.array([ranks[node] for node in range(n)]), 0.0, took)


def peers(links: sp.csr_array, tolerance: float, threads: int) -> dict[str, Callable[[], Found]]:
    """Those that are installed, by name; of others a line is printed."""
    own = Mfrank(tolerance, threads)
    found: dict[str, Callable[[], Found]] = {
        "mfrank": lambda: own(links),
        "scipy power": lambda: scipy_power(links, tolerance),
    }
    if find_spec("sknetwork") is None:
        print("scikit-network: skipped, it is not installed (pip install scikit-network)")
    else:
        found["scikit-network"] = lambda: scikit_network(links, tolerance)
    if find_spec("networkx") is None:
        print("networkx: skipped, it is not installed (pip install networkx)")
    else:
        import networkx as nx

        graph = nx.from_scipy_sparse_array(links, create_using=nx.DiGraph)
        found["networkx"] = lambda: networkx(graph, tolerance)
    return found
