"""StochasticRank's own example, where LambdaRank ends in a worse order.

Documents a, b, c; one query judges them 3, 2, 1, another c 3 and a 2. The best NDCG@3 of any scores
is .917 (a > b > c); at .903 (a > c > b) no small move of the scores helps.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mfrank.data import Judged
from mfrank.descent import SGD, Langevin, Optimizer
from mfrank.evaluation import NDCG, evaluate_queries
from mfrank.losses import LambdaRank, Loss, StochasticRank
from mfrank.models import LinearRanker

EXAMPLE = Judged(np.eye(3)[[0, 1, 2, 2, 0]], [3, 2, 1, 3, 2], [1, 1, 1, 2, 2])
QUALITY = NDCG(gain="exponential") @ 3
STARTS = [0, 0, 0], [3, 1, 2], [1, 2, 3]


def quality(scores: object) -> float:
    return evaluate_queries(EXAMPLE, scores, QUALITY)[QUALITY].value  # type: ignore[arg-type]


def final(loss: Loss, rule: Optimizer, steps: int, start: list[int]) -> float:
    ranker = LinearRanker(loss, rule, iterations=steps, scale=False, random_state=0)
    return quality(ranker.fit(EXAMPLE, start=start).score(EXAMPLE))


def test_the_best_order_is_a_b_c_and_the_next_best_a_c_b() -> None:
    found = {
        order: quality(EXAMPLE.features @ -np.argsort(order))
        for order in itertools.permutations(range(3))
    }
    best, second, *_ = sorted(found, key=lambda order: -found[order])
    assert (best, second) == ((0, 1, 2), (0, 2, 1))
    assert found[best] == pytest.approx(0.9170, abs=5e-5)
    assert found[second] == pytest.approx(0.9031, abs=5e-5)


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_stochastic_rank_with_annealed_noise_ends_in_the_best_order(start: list[int]) -> None:
    steps = 2000
    for seed in (0, 1):
        loss = StochasticRank(k=3, last_noise=0.1, annealing_batches=steps, random_state=seed)
        shaken = Langevin(0.2, shrinkage=5e-4, temperature=2e4, random_state=seed)
        assert final(loss, shaken, steps, start) == pytest.approx(0.9170, abs=5e-5)


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_lambda_rank_ends_in_the_next_best_order(start: list[int]) -> None:
    assert final(LambdaRank(), SGD(0.2), 1000, start) == pytest.approx(0.9031, abs=5e-5)
