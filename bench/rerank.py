"""What a second stage of CatBoost's trees adds to RG2, from nothing but the factor store.

A share of each user's training items of ml-1m's published split is held out: RG2 fitted on the rest
gives the candidates, the held-out items say which are relevant, and trees are grown on them under
each loss. Then RG2 is fitted on all of the training part and serves as the first stage of the same
trees. All are judged on the test part, full ranking. Prints the mean and deviation over the seeds
for each model, and those of its gain over RG2 alone with the same seed.

    python bench/rerank.py
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import load
from harness.tuning import judge

import mfrank
from mfrank.data import Split
from mfrank.evaluation import NDCG, Recall
from mfrank.models import Reranker

LOSSES = ("StochasticRank:metric=NDCG;top=20", "YetiRank", "QueryRMSE")
OBJECTIVE = mfrank.RG2(alpha=0.043, regularization=0.0879)
"""And 3 epochs of it: what ``quality.py ml-1m --factors 256 --trials 16`` found."""

_METRICS = {"ndcg@20": NDCG @ 20, "recall@20": Recall @ 20}


def judged(model: Any, split: Split) -> dict[str, float]:
    """Test metrics of a model."""
    result = judge(model, split.test, split.train)
    return {name: float(result[metric].value) for name, metric in _METRICS.items()}


def contest(seed: int, split: Split, args: Any) -> Iterator[dict[str, Any]]:
    """One seed: a row for each model."""
    halves = mfrank.by_ratio(
        split.train, train=1 - args.held_out, valid=args.held_out, test=0.0, random_state=seed
    )

    def rg2() -> mfrank.ALS:
        return mfrank.ALS(
            OBJECTIVE, factors=256, iterations=3, random_state=seed, n_threads=args.threads
        )

    began = perf_counter()
    whole = rg2().fit(split.train)
    seconds = perf_counter() - began
    yield {"model": "RG2", **judged(whole, split), "fit_seconds": seconds}
    part = rg2().fit(halves.train)
    for loss in LOSSES:
        began = perf_counter()
        reranker = Reranker(
            part,
            candidates=args.candidates,
            loss=loss,
            iterations=args.iterations,
            random_state=seed,
            n_threads=args.threads,
        ).fit(halves.train, halves.valid)
        took = {
            "fit_seconds": perf_counter() - began,
            "found": reranker.found.items_found / reranker.found.items,
        }
        name = f"RG2 -> {loss.partition(':')[0]}"
        yield {"model": name, **judged(reranker.over(whole), split), **took}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and deviation over the seeds, a row for each model."""
    base = {row["seed"]: row for row in rows if row["model"] == "RG2"}
    made = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        told: dict[str, Any] = {"model": model}
        for metric in _METRICS:
            values = np.array([row[metric] for row in own])
            gains = np.array([row[metric] - base[row["seed"]][metric] for row in own])
            told |= {metric: float(values.mean()), f"{metric}_deviation": float(values.std(ddof=1))}
            if model != "RG2":
                told[f"{metric}_gain"] = float(gains.mean())
                told[f"{metric}_gain_deviation"] = float(gains.std(ddof=1))
        made.append({**told, "fit_seconds": float(np.median([row["fit_seconds"] for row in own]))})
    return made


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("--candidates", type=int, default=50)
    made.add_argument("--iterations", type=int, default=50, help="trees")
    made.add_argument("--held-out", type=float, default=0.1, help="share of each user's items")
    args = made.parse_args()

    split = load("ml-1m")
    rows = []
    for seed in range(args.repeats):
        for row in contest(seed, split, args):
            rows.append({"seed": seed, **row})
            print(line(rows[-1]), flush=True)
    means = summary(rows)
    for row in means:
        print(line(row))
    save(args.folder, "rerank-ml-1m", means, runs=rows)


if __name__ == "__main__":
    main()
