"""Seconds per epoch against implicit's, and how far each descends.

One objective for all: WRMF in implicit's convention (confidence alpha on observed cells, 1 on the
rest), the same weights, factors, threads and float32. Fits alternate, contender by contender, so
that a slow minute of the machine hits all of them; each row is the median over the repeats, and
each ratio the median of the repeats' own ratios. The objective is evaluated in float64 by one and
the same code from each library's factors after epochs 5 and 15.

    python bench/against_implicit.py --data gowalla ml-1m --factors 64 128 256
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from subjects import ImplicitALS, load, save

import mfrank
from mfrank.als import HalfSteps
from mfrank.backends import SolveOptions, choose
from mfrank.data.interactions import Interactions

CONTENDERS = {
    "mfrank auto": partial(mfrank.ALS, solver="auto"),
    "mfrank cholesky": partial(mfrank.ALS, solver="cholesky"),
    "mfrank cg": partial(mfrank.ALS, solver="cg"),
    "implicit cg": partial(ImplicitALS, use_cg=True),
    "implicit cholesky": partial(ImplicitALS, use_cg=False),
}
JUDGED = (5, 15)


def run(
    name: str, data: Interactions, objective: mfrank.WRMF, factors: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Fit one contender once: seconds per epoch (median over epochs) and objectives."""
    make: Any = CONTENDERS[name]
    values: dict[int, float] = {}
    slow = name == "implicit cholesky" and factors >= 128
    epochs = JUDGED[0] if slow and not args.patient else JUDGED[-1]
    shared = {"factors": factors, "iterations": epochs, "n_threads": args.threads}
    if name.startswith("implicit"):
        weights = {"alpha": objective.alpha, "regularization": objective.regularization}
        model = make(**weights, **shared, random_state=0)

        def judge(epoch: int, users: Any, items: Any) -> None:
            if epoch + 1 in JUDGED:
                values[epoch + 1] = value(data, objective, users, items)

        model.fit(data.user_items, callback=judge)
        seconds = model.epoch_seconds
    else:
        model = make(objective, **shared, random_state=0)

        def follow(epoch: int, seconds: float, _: object) -> None:
            if epoch + 1 in JUDGED:
                users, items = model.user_factors, model.item_factors
                values[epoch + 1] = value(data, objective, users, items)

        model.fit(data, callback=follow)
        seconds = [record["seconds"] for record in model.store.history]
    return {
        "seconds": float(np.median(seconds)),
        **{f"objective@{e}": values.get(e) for e in JUDGED},
    }


def value(data: Interactions, objective: mfrank.WRMF, users: Any, items: Any) -> float:
    """The objective at given factors, in float64."""
    steps = HalfSteps(objective, data.counts, choose(), SolveOptions())
    users, items = users.astype(np.float64), items.astype(np.float64)
    problems = (
        objective.user_problem(data.user_rows(np.float64), data.counts),
        objective.item_problem(data.item_rows(np.float64), data.counts),
    )
    grams = steps.user_gram(users), steps.item_gram(items)
    return steps.value(*problems, users, items, grams)


def main() -> None:
    """Measure, print a table, save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["gowalla", "ml-1m"])
    parser.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alpha", type=float, default=10.0)
    parser.add_argument("--regularization", type=float, default=1.0)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--patient", action="store_true", help="15 epochs of implicit's Cholesky")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()

    objective = mfrank.WRMF(alpha=args.alpha, regularization=args.regularization)
    rows = []
    for name in args.data:
        data = load(name).train
        for factors in args.factors:
            runs: dict[str, list[dict[str, Any]]] = {c: [] for c in args.contenders}
            for _ in range(args.repeats):
                for contender in args.contenders:
                    runs[contender].append(run(contender, data, objective, factors, args))
            peers = [r["seconds"] for r in runs.get("implicit cg", [])]
            for contender, measured in runs.items():
                seconds = [r["seconds"] for r in measured]
                ratios = [peer / own for peer, own in zip(peers, seconds, strict=False)]
                row = {
                    "data": name,
                    "factors": factors,
                    "contender": contender,
                    "seconds_per_epoch": float(np.median(seconds)),
                    "times_implicit_cg": float(np.median(ratios)) if ratios else None,
                    **{k: v for k, v in measured[-1].items() if k != "seconds"},
                }
                rows.append(row)
                print(line(row), flush=True)
    save(args.folder, "against-implicit", rows)


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    ratio, *objectives = (
        "-" if row[key] is None else form.format(row[key])
        for key, form in [
            ("times_implicit_cg", "{:.2f}x"),
            *((f"objective@{e}", "{:.6g}") for e in JUDGED),
        ]
    )
    return (
        f"{row['data']:8} {row['factors']:4} {row['contender']:18} "
        f"{row['seconds_per_epoch']:8.3f} s/epoch {ratio:>7}  objective {' / '.join(objectives)}"
    )


if __name__ == "__main__":
    main()
