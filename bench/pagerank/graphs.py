"""Graphs that pagerank_cost.py and pagerank_figure.py are run on."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from harness.subjects import data_folder

from mfrank.pagerank import Graphs

__all__ = ["QUADRANTS", "clicks", "queries", "web"]

QUADRANTS = 0.57, 0.19, 0.19, 0.05
"""Of R-MAT (Chakrabarti et al. 2004), those of the Graph 500 benchmark."""


def web(n_edges: int, per_node: int = 16) -> sp.csr_array:
    """A graph with the degrees of the web's, R-MAT, about ``n_edges`` of weight 1.

    A node without edges from it gets one, to any other: libraries differ about such nodes.
    """
    rng = np.random.default_rng(0)
    levels = max(1, round(np.log2(n_edges / per_node)))
    quadrant = rng.choice(4, (levels, n_edges), p=QUADRANTS).astype(np.int8)
    place = 2 ** np.arange(levels)
    sources, targets = place @ (quadrant >> 1), place @ (quadrant & 1)
    shuffled = rng.permutation(2**levels)  # so that a node's number says nothing of its degree
    links = sp.csr_array(
        (np.ones(n_edges), (shuffled[sources], shuffled[targets])), (2**levels, 2**levels)
    )
    stuck = np.flatnonzero(np.diff(links.indptr) == 0)
    ends = stuck, rng.integers(0, 2**levels, len(stuck))
    links = links + sp.csr_array((np.ones(len(stuck)), ends), links.shape)
    links.data[:] = 1
    return links


def clicks() -> sp.csr_array:
    """Which article of globo was read after which, weighted by how often."""
    with np.load(data_folder("globo") / "interactions.npz") as arrays:
        session, item, when = (arrays[name] for name in ("session", "item", "timestamp"))
    order = np.lexsort((when, session))
    session, item = session[order], item[order]
    moved = (session[1:] == session[:-1]) & (item[1:] != item[:-1])
    ends = item[:-1][moved], item[1:][moved]
    n = int(item.max()) + 1
    links = sp.csr_array((np.ones(len(ends[0])), ends), (n, n))
    links.sum_duplicates()
    return links


def queries(
    n_queries: int = 60, n_nodes: int = 400, per_node: int = 8, m: tuple[int, int] = (26, 52)
) -> Graphs:
    """Graphs of queries, as many features as the paper's, a tenth of the pages judged in grades."""
    rng = np.random.default_rng(0)
    begins = np.arange(n_queries) * n_nodes
    sources, targets = [], []
    for begin in begins:
        # Some pages are come to often, and from the last ones there is nowhere to go.
        at = np.minimum(n_nodes * rng.random(n_nodes * per_node) ** 2, n_nodes - 1).astype(int)
        key = np.unique(rng.integers(0, 9 * n_nodes // 10, at.size) * n_nodes + at)
        sources.append(begin + key // n_nodes)
        targets.append(begin + key % n_nodes)
    labels = np.full(n_queries * n_nodes, np.nan)
    judged = rng.random(labels.size) < 0.1
    labels[judged] = rng.integers(0, 4, int(judged.sum()))
    ends = np.concatenate(sources), np.concatenate(targets)
    return Graphs.from_edges(
        *ends,
        seeds=np.concatenate([begin + np.arange(n_nodes // 20) for begin in begins]),
        node_features=rng.random((labels.size, m[0])),
        edge_features=rng.random((len(ends[0]), m[1])),
        query_of=np.repeat(np.arange(n_queries), n_nodes),
        labels=labels,
    )
