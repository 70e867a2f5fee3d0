"""The problem that all learners of pagerank_quality.py are given, and how it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from pagerank import contenders as contenders
from pagerank import subjects as subjects
from pagerank.contenders import NDCG

from mfrank.arrays import lazy
from mfrank.backends import choose
from mfrank.evaluation import Evaluation
from mfrank.pagerank import GBN, Draw, Graphs, Problem, SquareLoss, Walker, next_click_queries

Floats = NDArray[np.float64]

ALPHAS = (0.15, 0.5, 0.7, 0.85)
MARGINS, RADII = (0.0, 0.02, 0.1), (0.99, 3.0)
QUERIES, CANDIDATES = 1000, 50
GBN_STEPS = 20


@dataclass(frozen=True)
class Setting:
    """What is the same for all learners."""

    alpha: float
    margin: float
    radius: float


class Contest:
    """A data set, its stages, and the problem that is learned on them."""

    def __init__(self, data: str, threads: int) -> None:
        self.data, self.threads = data, threads
        self.stages = subjects.stages(data)

    def walker(self, alpha: float) -> Walker:
        """How walks are iterated."""
        return Walker(alpha, choose(), self.threads)

    def queries(self, stage: str, alpha: float) -> Graphs:
        """Labelled queries of a stage."""
        at = self.stages[stage]
        draw = Draw(QUERIES, CANDIDATES, np.random.default_rng(0))
        walker = self.walker(alpha)
        return next_click_queries(at.graph, at.recent, at.past, at.wanted, draw, walker)

    def problem(self, graphs: Graphs, alpha: float, margin: float) -> Problem:
        """The loss of labeled queries."""
        return Problem.of(graphs, SquareLoss(margin), alpha=alpha, n_threads=self.threads)

    def judged(self, stage: str, weights: Floats, alpha: float) -> Evaluation:
        """How well a walk ranks."""
        at = self.stages[stage]
        return contenders.judged(contenders.walk(at, weights, self.walker(alpha)), at)

    @lazy
    def ones(self) -> Floats:
        """Untuned weights."""
        return np.ones(sum(self.stages["learn"].graph.n_features))

    @lazy
    def counts(self) -> Floats:
        """Edges by the times they were taken, their first feature, and hardly anything else."""
        of_nodes = self.stages["learn"].graph.n_features[0]
        weights = self.ones.copy()
        weights[of_nodes:] = 1e-6
        weights[of_nodes] = 1
        return weights

    def setting(self) -> Setting:
        """Alpha by the untuned walk, margin and radius by GBN."""

        def ranks(weights: Floats, alpha: float) -> float:
            value = self.judged("valid", weights, alpha)[NDCG].value
            print(f"  alpha {alpha:g} valid NDCG@20 {value:.4f}", flush=True)
            return value

        alpha = max(ALPHAS, key=lambda alpha: ranks(self.ones, alpha))
        graphs = self.queries("learn", alpha)

        def learns(choice: tuple[float, float]) -> float:
            margin, radius = choice
            print(f"  margin {margin:g} radius {radius:g}", end="", flush=True)
            method = GBN(radius=radius, iterations=GBN_STEPS)
            found = contenders.learned(method, self.problem(graphs, alpha, margin))
            return ranks(found.weights, alpha)

        margin, radius = max(product(MARGINS, RADII), key=learns)
        return Setting(alpha, margin, radius)
