"""Seconds of an epoch and of all users' lists without the C++ extension, beside it and implicit.

Where nothing can be compiled, mfrank's backend is numpy. All have the same objective (WRMF) and
take turns; lists of ten come from the same factors. ``over_extension`` is the median of the rounds'
ratios to the extension's seconds.

    python bench/without_compiler.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from contenders import contender
from harness.race import fit_once
from harness.records import line, parser, save
from harness.subjects import interactions
from topk_cost import implicit_lists

import mfrank
from mfrank.data import Interactions

CONTENDERS = "extension", "numpy", "implicit"


def epoch_seconds(who: str, data: Interactions, args: Any) -> float:
    """Median seconds of an epoch of a fit."""
    objective = mfrank.WRMF(alpha=10.0, regularization=1.0)
    given = {"factors": args.factors, "iterations": args.epochs[-1]}
    if who == "implicit":
        peer = contender("implicit cg")(objective=objective, n_threads=args.threads, **given)
        return fit_once(peer, data, args, judged=()).pace
    taken: list[float] = []
    mfrank.ALS(
        objective,
        **given,
        backend="cpu" if who == "extension" else "numpy",
        n_threads=args.threads,
        random_state=0,
    ).fit(data, callback=lambda epoch, seconds, _: taken.append(seconds))
    return float(np.median(taken))


def list_seconds(who: str, model: mfrank.ALS, data: Interactions, args: Any) -> float:
    """Seconds of lists for all users."""
    if who == "implicit":
        ask = implicit_lists(model, data, 10, args.threads)
    else:
        model.backend = "cpu" if who == "extension" else "numpy"
        ask = lambda: model.recommend(np.arange(data.n_users), N=10, by_row=True)  # noqa: E731
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__)
    made.add_argument("--data", nargs="+", default=["ml-1m", "gowalla"])
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--epochs", nargs=1, type=int, default=[3])
    made.set_defaults(patience=float("inf"))
    args = made.parse_args()

    for name in args.data:
        data = interactions(name)
        model = mfrank.ALS(factors=args.factors, iterations=2, random_state=0).fit(data)
        taken: dict[str, list[tuple[float, float]]] = {who: [] for who in CONTENDERS}
        for turn in range(args.repeats):
            for who in CONTENDERS[:: -1 if turn % 2 else 1]:
                both = epoch_seconds(who, data, args), list_seconds(who, model, data, args)
                taken[who].append(both)
        yardstick, rows = np.array(taken["extension"]), []
        for who, each in taken.items():
            epoch, lists = np.median(each, axis=0)
            slower = np.median(np.array(each) / yardstick, axis=0)
            rows.append(
                {
                    "contender": who,
                    "seconds_per_epoch": float(epoch),
                    "over_extension": float(slower[0]),
                    "seconds_of_lists": float(lists),
                    "lists_over_extension": float(slower[1]),
                }
            )
            print(name, line(rows[-1]), flush=True)
        save(args.folder, f"without-compiler-{name}-{args.factors}", rows)


if __name__ == "__main__":
    main()
