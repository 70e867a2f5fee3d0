"""Who takes part in pagerank_quality.py, each with the trials that it is tuned by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import tuning
from implicit.nearest_neighbours import BM25Recommender, CosineRecommender
from numpy.typing import NDArray
from pagerank.subjects import Stage

import mfrank
from mfrank.arrays import CSR
from mfrank.evaluation import Evaluation
from mfrank.pagerank import GBN, GBP, GFN, ItemWalk, LearnerStep, Problem, Walker
from mfrank.retrieval import Candidates, best_lists

Floats = NDArray[np.float64]
Lists = Callable[..., tuple[NDArray[Any], NDArray[Any]]]
"""recommend(users, user_items, N=) -> (ids, scores) of a stage's sequences."""

NDCG, MRR = mfrank.NDCG @ 20, mfrank.MRR @ 20
PAPER_STEPS = (50.0, 100.0, 200.0, 500.0)
"""Step sizes of GBP in the paper's Table 1, each a row, with its stop rule."""

GBP_STEPS = (20.0, 200.0, 2_000.0, 20_000.0)
"""Those that GBP is tuned by besides; then it goes on as long as it comes down."""

GFN_SMOOTHNESS = (1e-5, 1e-4, 1e-3, 1e-2)
GFN_STEPS, GBN_STEPS, GBP_MOST = 1000, 60, 100

EARLY = 1e-10
"""GBN's epsilon of a row that ends sooner, where the gradient mapping is 1e-5, not 1e-6."""

NEIGHBOURS = (("cosine", 50), ("cosine", 500), ("bm25", 50), ("bm25", 500))
IALS: tuning.Box = {"alpha0": (0.003, 0.6), "regularization": (0.002, 0.06), "nu": (0.5, 1.0)}
IALS_TRIALS = 8

_RANKS_WITHIN = 1e-5


@dataclass(frozen=True)
class Learned:
    """Weights, and the steps and seconds that they took."""

    weights: Floats
    steps: int
    seconds: float


def learned(method: GBN | GBP | GFN, problem: Problem) -> Learned:
    """What a method answers with."""
    answer: LearnerStep | None = None
    steps, seconds = 0, 0.0
    for tuned in method.learn(problem):
        answer = tuned if tuned.is_best or answer is None else answer
        steps, seconds = tuned.step, seconds + tuned.seconds
    if answer is None:
        raise RuntimeError(f"{method} took no step")
    return Learned(answer.weights, steps, seconds)


def judged(model: Any, stage: Stage) -> Evaluation:
    """How well the last pages of a stage's sequences are found, all pages ranked."""
    return mfrank.evaluate(model, stage.wanted, train=stage.past, metrics=(NDCG, MRR))


def walk(stage: Stage, weights: Floats, walker: Walker) -> Lists:
    """The walk of these weights on the stage's graph."""
    walked = ItemWalk.of(stage.graph, weights, stage.known.n_items, has_recency=True)
    starts = walked.starts(stage.recent)

    def recommend(users: Any, user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]:
        seen = Candidates((CSR.from_scipy(sp.csr_array(user_items), None),))
        rows = starts[users]
        return best_lists(
            lambda block: walked.rank(rows[block], _RANKS_WITHIN, walker), *rows.shape, seen, N
        )

    return recommend


def methods(name: str, radius: float) -> list[GBN | GBP | GFN]:
    """Trials of a learner."""
    match name.split():
        case ["GBN"]:
            return [GBN(radius=radius, iterations=GBN_STEPS)]
        case ["GBN", epsilon]:
            return [GBN(float(epsilon), radius=radius, iterations=GBN_STEPS)]
        case ["GFN"]:
            options: dict[str, Any] = {"radius": radius, "iterations": GFN_STEPS, "random_state": 0}
            return [GFN(smoothness=smoothness, **options) for smoothness in GFN_SMOOTHNESS]
        case ["GBP"]:
            options = {"radius": radius, "iterations": GBP_MOST, "tolerance": 0.0}
            return [GBP(step_size=step, **options) for step in GBP_STEPS]
        case ["GBP", step]:
            return [GBP(step_size=float(step), radius=radius)]
    raise ValueError(f"{name} is no learner")


def neighbors(stage: Stage, kind: str, K: int, threads: int) -> Lists:
    """Item-kNN by implicit."""
    model = {"cosine": CosineRecommender, "bm25": BM25Recommender}[kind](K=K, num_threads=threads)
    model.fit(stage.known.to_scipy(), show_progress=False)
    return model.recommend  # type: ignore[no-any-return]


def factors(stage: Stage, options: dict[str, float], threads: int) -> Lists:
    """ALS, the sequences folded in."""
    model = mfrank.ALS(
        mfrank.IALS(**options), factors=128, iterations=8, random_state=0, n_threads=threads
    ).fit(stage.known)

    def recommend(users: Any, user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]:
        rows = sp.csr_array(user_items)
        return model.recommend(users, rows, N=N, recalculate_user=True)

    return recommend
