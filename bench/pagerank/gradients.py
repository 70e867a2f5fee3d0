"""The gradient of supervised PageRank's loss, by the adjoint and by the paper's matrix (4.5 - 4.7).

All take the same steps from the same weights, so that they compute the same numbers, which is
checked; "adjoint, certified" takes what an error of 1e-6 in each component asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pagerank.graphs import queries

from mfrank.arrays import single_threaded
from mfrank.pagerank import Graphs, Problem, Transitions, power_steps

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from jacobian import first_term, jacobian

__all__ = ["race", "turns"]

Floats = NDArray[np.float64]
STEPS = 100
"""N1 and N2 of the paper's experiments (7.2)."""

ACCURACY = 1e-6


def by_adjoint(problem: Problem, weights: Floats) -> Floats:
    """By one more linear system."""
    return problem.value_and_gradient_after(weights, STEPS).gradient


def by_certificate(problem: Problem, weights: Floats) -> Floats:
    """As far as the accuracy asks for."""
    return problem.value_and_gradient(weights, ACCURACY, ACCURACY).gradient


def by_matrix(problem: Problem, weights: Floats) -> Floats:
    """All columns of dpi/dphi at once, by mfrank's kernel."""
    walk = Transitions.of(problem.graphs, weights)
    values = power_steps(walk, STEPS, problem.walker).values
    columns = jacobian(walk, values, STEPS, problem.walker, normalized=False)
    return columns.T @ problem.pairs.gradients(values) / problem.graphs.n_queries


def by_scipy_matrix(problem: Problem, weights: Floats) -> Floats:
    """The same as anybody would write it with numpy and scipy."""
    walk, alpha = Transitions.of(problem.graphs, weights), problem.walker.alpha
    forward = _forward(walk)
    values = walk.restarts
    for _ in range(STEPS):
        values = alpha * walk.restarts + (1 - alpha) * (forward @ values)
    term = first_term(walk, values, alpha)
    columns = term
    for _ in range(STEPS):
        columns = term + (1 - alpha) * (forward @ columns)
    return columns.T @ problem.pairs.gradients(values) / problem.graphs.n_queries


def _forward(walk: Transitions) -> sp.csr_array:
    """P', with the restarts of nodes without edges as entries of their own."""
    graphs = walk.graphs
    stuck = np.flatnonzero(graphs.dangling)
    seeds_of = np.split(graphs.seeds, np.searchsorted(graphs.seeds, graphs.nodes[1:-1]))
    to = [seeds_of[query] for query in graphs.query_of[stuck]]
    sources = np.concatenate([graphs.sources, np.repeat(stuck, [len(part) for part in to])])
    targets = np.concatenate([graphs.links.indices, *to])
    steps = np.concatenate([walk.steps, *(walk.restarts[part] for part in to)])
    return sp.csr_array((steps, (targets, sources)), (graphs.n_nodes,) * 2)


CONTENDERS: dict[str, Callable[[Problem, Floats], Floats]] = {
    "adjoint": by_adjoint,
    "adjoint, certified": by_certificate,
    "matrix, mfrank's kernel": by_matrix,
    "matrix, scipy": by_scipy_matrix,
}


def turns(
    contenders: dict[str, Callable[[], Any]], repeats: int
) -> dict[str, list[tuple[float, Any]]]:
    """Seconds and result of each, in rounds of which every other goes backwards."""
    rounds: dict[str, list[tuple[float, Any]]] = {name: [] for name in contenders}
    for turn in range(repeats):
        for name in list(contenders)[:: -1 if turn % 2 else 1]:
            began = perf_counter()
            result = contenders[name]()
            rounds[name].append((perf_counter() - began, result))
    return rounds


def race(graphs: Graphs, names: list[str], repeats: int, threads: int) -> list[dict[str, Any]]:
    """A row for each contender."""
    problem = Problem.of(graphs, n_threads=threads)
    weights = 0.5 + np.random.default_rng(0).random(problem.n_weights)
    with single_threaded():
        truth = by_adjoint(problem, weights)
        for name in names:
            found = CONTENDERS[name](problem, weights)
            np.testing.assert_allclose(found, truth, rtol=0, atol=ACCURACY)
        contenders = {name: lambda way=CONTENDERS[name]: way(problem, weights) for name in names}
        rounds = turns(contenders, repeats)
    return [
        {
            "queries": graphs.n_queries,
            "nodes": graphs.n_nodes,
            "edges": graphs.n_edges,
            "features": problem.n_weights,
            "threads": threads,
            "contender": name,
            "seconds_per_gradient": median(seconds for seconds, _ in runs),
            "over_adjoint": median(
                theirs / own for (theirs, _), (own, _) in zip(runs, rounds["adjoint"], strict=True)
            ),
        }
        for name, runs in rounds.items()
    ]


def growth(repeats: int, threads: int) -> list[dict[str, Any]]:
    """The adjoint's seconds as edges, features and threads grow."""
    rows: list[dict[str, Any]] = []
    for n_queries in (15, 30, 60, 120):
        rows += race(queries(n_queries), ["adjoint"], repeats, threads)
    for m in ((7, 13), (13, 26), (52, 104)):
        rows += race(queries(m=m), ["adjoint"], repeats, threads)
    for count in range(1, threads + 1):
        rows += race(queries(), ["adjoint"], repeats, count)
    return rows
