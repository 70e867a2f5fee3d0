"""Where StochasticRank ends in the example of its own paper, beside LambdaRank.

There are documents a, b and c; one query judges them 3, 2 and 1, another judges c 3 and a 2. Each
recipe has five runs from each of three starts, one of them the order a > c > b in which LambdaRank
ends, and is judged by NDCG@3 of the final weights. The paper's settings are those of its boosted
trees, carried over to three weights.

    python bench/stochastic_rank.py
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from harness.records import line, parser, save

from mfrank.data import Judged
from mfrank.descent import SGD, Langevin, Optimizer
from mfrank.evaluation import NDCG, evaluate_queries
from mfrank.losses import LambdaRank, Loss, StochasticRank
from mfrank.models import LinearRanker

EXAMPLE = Judged(np.eye(3)[[0, 1, 2, 2, 0]], [3, 2, 1, 3, 2], [1, 1, 1, 2, 2])
QUALITY = NDCG(gain="exponential") @ 3
STARTS = {"0": (0, 0, 0), "a > c > b": (3, 1, 2), "c > b > a": (1, 2, 3)}
BEST = 0.9170

# Slopes are means over the two queries; rates of the paper are for sums, so they are doubled here,
# shrinkage is halved and the inverse temperature doubled.
RATE, SHRINKAGE = 0.2, 5e-4


def recipe(name: str, seed: int) -> tuple[Loss, Optimizer, int]:
    """Loss, optimizer and steps."""
    match name:
        case "lambdarank":
            return LambdaRank(), SGD(RATE), 1000
        case "annealed":
            loss = StochasticRank(k=3, last_noise=0.1, annealing_batches=2000, random_state=seed)
            return loss, SGD(RATE), 2000
        case "annealed, langevin":
            loss = StochasticRank(k=3, last_noise=0.1, annealing_batches=2000, random_state=seed)
            return loss, Langevin(RATE, SHRINKAGE, 2e4, seed), 2000
        case "constant noise, langevin":
            rule = Langevin(1.0, SHRINKAGE, 2e4, seed)
            return StochasticRank(k=3, random_state=seed), rule, 3000
        case _:  # the paper's: scale-free, T = 1e3, 1000 steps
            loss = StochasticRank(k=3, scale_free=True, random_state=seed)
            return loss, Langevin(RATE, SHRINKAGE, 2e3, seed), 1000


def run(name: str, start: tuple[int, ...], seed: int) -> tuple[float, float]:
    """NDCG@3 of the final weights, and the best on the way."""
    loss, rule, steps = recipe(name, seed)
    ranker = LinearRanker(loss, rule, iterations=steps, scale=False, random_state=seed)
    best = 0.0

    def look(epoch: int, *_: object) -> None:
        nonlocal best
        if epoch % 10 == 9:
            best = max(best, quality(ranker))

    ranker.fit(EXAMPLE, start=start, callback=look)
    return quality(ranker), best


def quality(ranker: LinearRanker) -> float:
    """NDCG@3 of both queries."""
    return evaluate_queries(EXAMPLE, ranker.score(EXAMPLE), QUALITY)[QUALITY].value


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__, repeats=5)
    args = made.parse_args()
    names = (
        "lambdarank", "annealed", "annealed, langevin", "constant noise, langevin",
        "paper's settings",
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    for name in names:
        for label, start in STARTS.items():
            began = perf_counter()
            found = [run(name, start, seed) for seed in range(args.repeats)]
            final, visited = zip(*found, strict=True)
            row = {
                "recipe": name,
                "start": label,
                "runs": len(found),
                "final at .917": sum(value > BEST - 1e-4 for value in final),
                "final mean": float(np.mean(final)),
                "passed through .917": sum(value > BEST - 1e-4 for value in visited),
                "final": [round(value, 4) for value in final],
                "seconds": perf_counter() - began,
            }
            rows.append(row)
            print(line(row), flush=True)
    save(args.folder, "stochastic-rank", rows)


if __name__ == "__main__":
    main()
