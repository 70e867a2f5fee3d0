"""What a fit gains from its spectral start, against random factors of several kinds.

The same objective, data and epochs for all; only the first item factors differ:

    spectral      what mfrank does (mfrank/als/starts.py), its seconds in ``start_seconds``
    normal 0.1    normal numbers, row norms near 0.1 (Rendle et al. 2022)
    normal 1      the same, row norms near 1
    common 0.1    0.1/sqrt(K) times normal numbers of mean 1 and deviation 0.1
    counts        normal 0.1, each row times the root of its item's count

All are then balanced (mfrank/als/starts.py), as a new fit's are. Prints the objective and test
NDCG@20 after some epochs; ``start_seconds`` beside ``epoch_seconds`` tells what a start costs in
epochs.

    python bench/starts.py gowalla --factors 64 --objective wrmf:alpha=10,regularization=1
    python bench/starts.py ml-1m --factors 256 --objective rg2:alpha=0.08,regularization=0.07
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import load
from harness.tuning import judge

import mfrank
from mfrank.als import HalfSteps, balance, first_factors, random_factors
from mfrank.backends import SolveOptions, choose
from mfrank.cli.flags import objective
from mfrank.data import Interactions
from mfrank.evaluation import NDCG

EPOCHS = (1, 2, 3, 5, 10, 15)


def item_factors(kind: str, data: Interactions, width: int, threads: int) -> Any:
    """First item factors of that kind, not balanced."""
    if kind == "spectral":
        return first_factors(data, width, np.float32, 0, None, choose(), threads)[1]
    drawn = random_factors((data.n_items, width), np.random.default_rng(0), np.float32)
    match kind:
        case "normal 0.1":
            return drawn
        case "normal 1":
            return 10 * drawn
        case "counts":
            return drawn * np.sqrt(data.counts.items).astype(np.float32)[:, None]
        case _:
            return 0.1 * drawn + np.float32(0.1 / np.sqrt(width))


def balanced(items: Any, data: Interactions, args: Any) -> tuple[Any, Any]:
    """Users solved for the items, and both sides balanced, as at the begin of a new fit."""
    options = SolveOptions(n_threads=args.threads)
    steps = HalfSteps(args.objective, data.counts, choose(), options)
    by_users = args.objective.user_problem(data.user_rows(np.float32), data.counts)
    by_items = args.objective.item_problem(data.item_rows(np.float32), data.counts)
    users = np.zeros((data.n_users, args.factors), np.float32)
    steps.solve_users(by_users, items, users)
    balance(by_users, by_items, users, items, choose(), args.threads)
    return users, items


def course(kind: str, args: Any, split: Any) -> dict[str, Any]:
    """One fit from there, looked at after each of the epochs."""
    data = split.train
    began = perf_counter()
    items = item_factors(kind, data, args.factors, args.threads)
    seconds = perf_counter() - began
    users, items = balanced(items, data, args)
    start = mfrank.FactorStore(users, items, data.user_ids, data.item_ids, counts=data.counts)
    row: dict[str, Any] = {"start": kind, "start_seconds": seconds}
    took = []
    model = mfrank.ALS(
        args.objective,
        factors=args.factors,
        iterations=EPOCHS[-1],
        n_threads=args.threads,
        track_objective=True,
    )

    def look(epoch: int, took_seconds: float, objective: float | None) -> None:
        took.append(took_seconds)
        if epoch + 1 in EPOCHS:
            row[f"objective@{epoch + 1}"] = objective
            row[f"ndcg@20@{epoch + 1}"] = judge(model, split.test, data)[NDCG @ 20].value

    model.fit(data, start=start, callback=look)
    return {**row, "epoch_seconds": float(np.median(took))}


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("data", choices=("gowalla", "ml-1m"))
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--objective", type=objective, required=True)
    args = made.parse_args()

    split = load(args.data)
    rows = []
    for kind in ("spectral", "normal 0.1", "normal 1", "common 0.1", "counts"):
        rows.append(course(kind, args, split))
        print(line(rows[-1]), flush=True)
    name = type(args.objective).__name__.lower()
    save(args.folder, f"starts-{args.data}-{name}-{args.factors}", rows)


if __name__ == "__main__":
    main()
