"""Seconds of training until implicit's final NDCG@20 is reached, by implicit and by mfrank.

Both use the hyper-parameters that bench/quality.py found on the validation part, read from its
results (or given: ``--options``). The target is the test NDCG@20 of implicit's last epoch. The
clock counts everything that ``fit`` does, checks and transposing included, and stands still during
the evaluation after each epoch. Fits alternate; seconds and their ratio are medians.

    python bench/time_to_quality.py gowalla --factors 64 --implicit-factors 256
    python bench/time_to_quality.py ml-1m --options '{"IALS": {"alpha0": 0.3}, "implicit": {}}'
"""

from __future__ import annotations

import argparse
import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
from contenders import contender
from harness.courses import Point, arrival
from harness.records import line, parser, save
from harness.subjects import load
from harness.tuning import judge

import mfrank
from mfrank.comparison import objective_name
from mfrank.data import Split
from mfrank.evaluation import NDCG

OBJECTIVES = "IALS", "RG2", "RGX", "WRMF"
PEER = "implicit"


def tuned(args: argparse.Namespace, model: str, factors: int) -> dict[str, Any]:
    """Hyper-parameters as given, or as bench/quality.py found them."""
    if model in args.options:
        return dict(args.options[model])
    file = args.folder / f"quality-{args.data}-{factors}.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    found = next((row["options"] for row in rows if row["model"] == model), None)
    if found is None:
        sys.exit(f"{file} has no {model}: run bench/quality.py first, or give --options")
    return dict(found)


def entry(args: argparse.Namespace, model: str) -> dict[str, Any]:
    """What a model is made with."""
    factors = args.factors if model != PEER else args.implicit_factors or args.factors
    make = mfrank.WRMF if model == PEER else getattr(mfrank, model)
    return {
        "objective": make(**tuned(args, model, factors)),
        "factors": factors,
        "iterations": args.iterations,
        "n_threads": args.threads,
        "random_state": args.seed,
    }


def course(model: str, options: dict[str, Any], split: Split) -> list[Point]:
    """Fit, and judge on the test part after each epoch with the clock stopped."""
    points: list[Point] = []
    fitted = contender("implicit cg" if model == PEER else "mfrank auto")(**options)
    began = perf_counter()

    def watch(epoch: int, took: float) -> None:
        nonlocal began
        stopped = perf_counter()
        ndcg = judge(fitted, split.test, split.train)[NDCG @ 20].value
        points.append(Point(epoch, stopped - began, ndcg))
        began += perf_counter() - stopped

    fitted.fit(split.train.to_scipy(), watch)
    return points


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("data", choices=("gowalla", "ml-1m"))
    made.add_argument("--objective", choices=OBJECTIVES, default="IALS", help="mfrank's")
    made.add_argument("--factors", type=int, default=256)
    made.add_argument("--implicit-factors", type=int, help="default: the same")
    made.add_argument("--iterations", type=int, default=15)
    made.add_argument("--options", type=json.loads, default={}, help="JSON: model -> its own")
    made.add_argument("--seed", type=int, default=0)
    args = made.parse_args()

    split = load(args.data)
    entries = {model: entry(args, model) for model in (PEER, args.objective)}
    rounds: dict[str, list[Point]] = {model: [] for model in entries}
    targets = []
    for _ in range(args.repeats):
        courses = {model: course(model, options, split) for model, options in entries.items()}
        targets.append(courses[PEER][-1].ndcg)
        for model, points in courses.items():
            rounds[model].append(arrival(points, targets[-1]))
    rows = []
    for model, arrivals in rounds.items():
        pairs = zip(rounds[PEER], arrivals, strict=True)
        row = {
            "data": args.data,
            "model": model,
            "factors": entries[model]["factors"],
            "objective": objective_name(entries[model]["objective"]),
            "target_ndcg@20": float(np.median(targets)),
            "epoch": arrivals[-1].epoch,
            "ndcg@20": arrivals[-1].ndcg,
            "seconds": float(np.median([point.seconds for point in arrivals])),
            "times_sooner": float(np.median([peer.seconds / own.seconds for peer, own in pairs])),
        }
        rows.append(row)
        print(line(row), flush=True)
    save(args.folder, f"time-to-quality-{args.data}-{args.factors}", rows)


if __name__ == "__main__":
    main()
