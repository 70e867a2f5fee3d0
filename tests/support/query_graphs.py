"""Random graphs of queries, and what is true of their walks and losses by dense arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mfrank.backends import choose
from mfrank.pagerank import Graphs, Problem, SquareLoss, Transitions, Walker

ACCURACIES = ["certificate", "theory"]
ALPHA = 0.15
LOSS = SquareLoss(0.05)
WALKER = Walker(ALPHA, choose())


def random_graphs(
    seed: int = 0, sizes: tuple[int, ...] = (25, 3, 12), m: tuple[int, int] = (4, 6)
) -> Graphs:
    """Sparse graphs, some nodes without edges from them, with two to four labels a query."""
    rng = np.random.default_rng(seed)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    ends, seeds = [], []
    labels = np.full(begins[-1], np.nan)
    for begin, size in zip(begins, sizes, strict=False):
        dangling = max(1, size // 8)
        sources = rng.integers(dangling, size, 3 * size)
        keys = np.unique(sources * size + rng.integers(0, size, 3 * size))
        ends.append(begin + np.array(np.divmod(keys, size)))
        seeds.append(begin + rng.choice(size, max(1, size // 4), replace=False))
        judged = begin + rng.choice(size, max(2, size // 2), replace=False)
        labels[judged] = rng.integers(0, 3, len(judged))
        labels[judged[:2]] = 0, 1
    sources, targets = np.concatenate(ends, axis=1)
    return Graphs.from_edges(
        sources,
        targets,
        seeds=np.concatenate(seeds),
        node_features=rng.random((begins[-1], m[0])),
        edge_features=rng.random((len(sources), m[1])),
        query_of=np.repeat(np.arange(len(sizes)), sizes),
        labels=labels,
    )


def random_weights(graphs: Graphs, seed: int = 0) -> np.ndarray:
    return 0.2 + np.random.default_rng(seed).random(sum(graphs.n_features))


class Dense(NamedTuple):
    """P, pi0 and pi, all queries in one."""

    matrix: np.ndarray
    restarts: np.ndarray
    values: np.ndarray


def dense(graphs: Graphs, weights: np.ndarray, alpha: float = ALPHA) -> Dense:
    """From the definitions (2.2)-(2.4), one node and one edge at a time."""
    m1, n = graphs.n_features[0], graphs.n_nodes
    restarts, matrix = np.zeros(n), np.zeros((n, n))
    for seed in graphs.seeds:
        restarts[seed] = weights[:m1] @ graphs.node_features[seed]
    for edge, (a, b) in enumerate(zip(graphs.sources, graphs.links.indices, strict=True)):
        matrix[a, b] = weights[m1:] @ graphs.edge_features[edge]
    for q in range(graphs.n_queries):
        own = slice(*graphs.nodes[q : q + 2])
        restarts[own] /= restarts[own].sum()
        for node in range(own.start, own.stop):
            if matrix[node].any():
                matrix[node] /= matrix[node].sum()
            else:
                matrix[node, own] = restarts[own]
    values = np.linalg.solve(np.eye(n) - (1 - alpha) * matrix.T, alpha * restarts)
    return Dense(matrix, restarts, values)


def problem(seed: int = 0, accuracy: Any = "certificate", **options: Any) -> Problem:
    return Problem.of(random_graphs(seed), LOSS, accuracy=accuracy, **options)


def exact(at: Problem, weights: np.ndarray) -> float:
    """The loss by dense arithmetic."""
    return float(at.pairs.losses(dense(at.graphs, weights).values).mean())


def per_query(graphs: Graphs, values: np.ndarray) -> np.ndarray:
    """1-norm of each query's part."""
    parts = np.split(np.abs(values), graphs.nodes[1:-1])
    return np.array([part.sum() for part in parts])


def transitions(graphs: Graphs, weights: np.ndarray | None = None) -> Transitions:
    return Transitions.of(graphs, weights)
