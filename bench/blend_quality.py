"""How well an ALS and a ranking trainer rank together, and each alone.

The trainer has the options and epochs that were best for it in
``trainers_quality.py DATA --start START --factors OTHER``, or in the same command without the
start; the ALS has those of that start. The weight of their blend (:func:`mfrank.blend`) doubles
until three doublings bring no higher NDCG@20 on the validation part. Then all are fitted to the
training part with three seeds and judged on the test part: means and standard deviations.

    python bench/blend_quality.py gowalla --start IALS --factors 512 --other-factors 256
    python bench/blend_quality.py ml-1m --start RG2 --factors 256 --other-factors 64 --scratch
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from harness import tuning
from harness.records import line, parser, save
from harness.subjects import load
from trainers_quality import JUDGE, STARTS, descent, file_name, judged, kept, started, up_to

import mfrank
from mfrank.data import Interactions

SMALLEST_WEIGHT, DOUBLINGS = 0.05, 3

Pair = tuple[mfrank.ALS, mfrank.Descent]


def both(args: argparse.Namespace, train: Interactions, seed: int) -> Pair:
    """The ALS, and the trainer from scratch or from factors of an ALS as wide as it is."""
    begin = None if args.scratch else args.start
    narrow = argparse.Namespace(**{**vars(args), "factors": args.other_factors, "start": begin})
    found = kept(args.folder / f"{file_name(narrow, begin)}.json")[args.trainer]
    trainer = descent(args.trainer, found["options"], seed, narrow)
    up_to(found["epochs"], trainer, train, started(narrow, train, seed))
    return started(args, train, seed), trainer


def best_weight(pair: Pair, train: Interactions, valid: Interactions) -> tuple[float, float]:
    """The best weight, and NDCG@20 with it."""
    tried: list[tuple[float, float]] = []
    while not tried or max(tried) in tried[-DOUBLINGS:]:
        weight = SMALLEST_WEIGHT * 2 ** len(tried)
        together = mfrank.Recommender.of(mfrank.blend(pair[0].store, pair[1].store, weight))
        value = mfrank.evaluate(together, valid, train=train, metrics=JUDGE)[JUDGE].value
        print(f"  weight {weight:g}: valid NDCG@20 {value:.4f}", flush=True)
        tried.append((value, weight))
    value, weight = max(tried)
    return weight, value


def row(name: str, factors: int, each: list[dict[str, float]], **more: Any) -> dict[str, Any]:
    """Means and deviations over the seeds."""
    values = {metric: np.array([one[metric] for one in each]) for metric in each[0]}
    made = {
        "model": name,
        "factors": factors,
        **more,
        **{metric: float(seeds.mean()) for metric, seeds in values.items()},
        "recall@20_deviation": float(values["recall@20"].std(ddof=1)),
        "ndcg@20_deviation": float(values["ndcg@20"].std(ddof=1)),
    }
    print(line(made), flush=True)
    return made


def main() -> None:
    """Find the weight, refit, judge, print, save."""
    made = parser(__doc__)
    made.add_argument("data", choices=sorted({data for data, _ in STARTS}))
    made.add_argument("--start", required=True, help="RG2 on ml-1m, IALS on gowalla")
    made.add_argument("--factors", type=int, default=512, help="of the ALS")
    made.add_argument("--other-factors", type=int, default=256, help="of the trainer")
    made.add_argument("--trainer", default="SampledSoftmax")
    made.add_argument("--epochs", type=int, help="as trainers_quality.py was given")
    made.add_argument("--scratch", action="store_true", help="the trainer has no start")
    args = made.parse_args()

    split = load(args.data)
    train, valid = tuning.with_validation(split, 0)
    weight, value = best_weight(both(args, train, 0), train, valid)
    alone: list[dict[str, float]] = []
    other: list[dict[str, float]] = []
    blended: list[dict[str, float]] = []
    for seed in range(args.repeats):
        als, trainer = both(args, split.train, seed)
        together = mfrank.Recommender.of(mfrank.blend(als.store, trainer.store, weight))
        for models, model in ((alone, als), (other, trainer), (blended, together)):
            models.append(judged(model, split, args))
    name = f"{args.trainer} from {'scratch' if args.scratch else args.start}"
    rows = [
        row(args.start, args.factors, alone),
        row(name, args.other_factors, other),
        row("both", args.factors + args.other_factors, blended, weight=weight, valid=value),
    ]
    widths = f"{args.factors}-{args.other_factors}"
    begin = "-scratch" if args.scratch else ""
    save(args.folder, f"blend-{args.data}-{args.start}-{widths}{begin}".lower(), rows)


if __name__ == "__main__":
    main()
