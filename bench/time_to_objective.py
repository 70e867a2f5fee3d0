"""Seconds until each library reaches the same objective, start and set-up included.

The goal is an objective within .1 % of where ``implicit cg``, the default of the most used peer, is
after 15 epochs. The others go on until they reach it or have no epochs left; turns alternate.
``times_as_long`` is a peer's seconds over mfrank's in the same turn. ``curve`` has the points of
the last turn, seconds and objective, for ``bench/objective_figure.py``. cmfrec does not report its
epochs, so each of its points is a fit of its own.

    python bench/time_to_objective.py --data gowalla ml-1m globo ml-20m-shape --factors 64 128 256
"""

from __future__ import annotations

import argparse
from math import isnan
from statistics import median
from time import perf_counter
from typing import Any

from contenders import Contender, tells_of_epochs
from harness.race import Fit, entry, evaluated, fit_once, options, parse
from harness.records import line, save
from harness.subjects import interactions

from mfrank.data import Interactions

OURS, PACEMAKER = "mfrank auto", "implicit cg"
CONTENDERS = OURS, PACEMAKER, "irspack cg", "cmfrec cg"
NEAR = 1.001


def main() -> None:
    """Measure, print and save."""
    made = options(__doc__, CONTENDERS)
    made.add_argument("--data", nargs="+", default=["gowalla", "ml-1m", "globo", "ml-20m-shape"])
    made.add_argument("--most", type=int, default=45, help="epochs that a peer may take")
    made.set_defaults(epochs=[15], repeats=2, patience=600.0)
    args = parse(made)

    for name in args.data:
        data, rows = interactions(name), []
        for factors in args.factors:
            for row in turns(data, factors, args):
                rows.append({"data": name, **row})
                print(line({k: v for k, v in rows[-1].items() if k != "curve"}), flush=True)
            save(args.folder, f"time-to-objective-{name}", rows)


def turns(data: Interactions, factors: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each contender: medians over the turns."""
    fits: dict[str, list[Fit]] = {name: [] for name in args.contenders}
    seconds: dict[str, list[float]] = {name: [] for name in args.contenders}
    goal = float("-inf")
    for turn in range(args.repeats):
        # The first turn begins with the one that sets the goal, which is the same in every turn.
        order = sorted(args.contenders, key=lambda name: name != PACEMAKER)
        for name in order[:: -1 if turn % 2 else 1]:
            fit = one_fit(name, factors, data, args, goal)
            if name == PACEMAKER:
                goal = NEAR * fit.objective[args.epochs[-1]]
            fits[name].append(fit)
            seconds[name].append(fit.arrival(goal))
    return [
        {
            "factors": factors,
            "contender": name,
            "seconds_to_objective": number(median(seconds[name])),
            "times_as_long": number(
                median(a / b for a, b in zip(seconds[name], seconds[OURS], strict=True))
            ),
            "start": None if not tells_of_epochs(name) else median(fit.start for fit in own),
            "epochs": next((e for e, value in own[-1].objective.items() if value <= goal), None),
            "objective": min(own[-1].objective.values()),
            "curve": [[own[-1].since_begin[e], v] for e, v in own[-1].objective.items()],
        }
        for name, own in fits.items()
    ]


def one_fit(
    name: str, factors: int, data: Interactions, args: argparse.Namespace, goal: float
) -> Fit:
    """A fit that ends where its objective is at the goal."""
    epochs = args.epochs[-1]
    if not tells_of_epochs(name):
        return separate_fits(name, factors, data, args, goal)
    most = epochs if name in (PACEMAKER, OURS) else args.most
    until = float("-inf") if name in (PACEMAKER, OURS) else goal
    every = range(1, most + 1)
    return fit_once(made(name, factors, most, args), data, args, every, until)


def separate_fits(
    name: str, factors: int, data: Interactions, args: argparse.Namespace, goal: float
) -> Fit:
    """Two fits, each from the beginning."""
    fit, matrix = Fit(), data.to_scipy()
    for epochs in (args.epochs[-1] // 3, args.epochs[-1]):
        model = made(name, factors, epochs, args)
        began = perf_counter()
        model.fit(matrix)
        fit.since_begin[epochs] = perf_counter() - began
        fit.objective[epochs] = evaluated(model, data, args)
        if fit.objective[epochs] <= goal:
            break
    return fit


def made(name: str, factors: int, epochs: int, args: argparse.Namespace) -> Contender:
    """The contender, with that many epochs."""
    return entry(name, factors, argparse.Namespace(**{**vars(args), "epochs": [epochs]}))()


def number(value: float) -> float | None:
    """The value; None where the objective was not reached."""
    return None if isnan(value) else value


if __name__ == "__main__":
    main()
