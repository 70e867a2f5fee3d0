"""Fits of several contenders to one objective, in turns: seconds per epoch, and how far they get.

Turns alternate, and every other round goes backwards, so that a slow minute of the machine hits
all. A row has the median over the rounds; each ratio is the median of the rounds' own ratios. The
objective is evaluated in float64 by the same code at each library's factors, while the clock of the
fit stands still. It is evaluated as seldom as the question allows: an evaluation leaves the caches
full of its own data, which makes the next epoch of a small problem a tenth longer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from contenders import Contender, contender, present
from harness.records import parser

import mfrank
from mfrank.comparison import objective_value
from mfrank.data import Interactions

YARDSTICKS = "mfrank auto", "mfrank cholesky"
"""Whose seconds all others' are divided by, where they take part."""


@dataclass
class Fit:
    """What one fit took, by epoch: seconds of each, objective, and seconds since it began."""

    seconds: list[float] = field(default_factory=list)
    objective: dict[int, float] = field(default_factory=dict)
    since_begin: dict[int, float] = field(default_factory=dict)

    @property
    def pace(self) -> float:
        """Median seconds of an epoch."""
        return median(self.seconds)

    @property
    def start(self) -> float:
        """Seconds of all that is no epoch."""
        return self.since_begin[max(self.since_begin)] - len(self.seconds) * self.pace

    def arrival(self, target: float) -> float:
        """Seconds until the objective is no more than the target; NaN where it never was."""
        there = (epoch for epoch, value in self.objective.items() if value <= target)
        return self.since_begin.get(min(there, default=0), float("nan"))


def options(doc: str | None, names: Sequence[str]) -> argparse.ArgumentParser:
    """What a race can be told."""
    made = parser(doc)
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256])
    made.add_argument("--contenders", nargs="+", choices=names, default=list(names))
    made.add_argument("--alpha", type=float, default=10.0, help="more than 1")
    made.add_argument("--regularization", type=float, default=1.0)
    made.add_argument(
        "--epochs", nargs="+", type=int, default=[5, 15], help="when to judge; the last is the end"
    )
    made.add_argument(
        "--patience",
        type=float,
        default=60.0,
        help="a fit that would take more seconds than this ends with the first of the epochs",
    )
    return made


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, with the contenders that can run here."""
    args = made.parse_args()
    args.contenders = present(args.contenders)
    args.epochs.sort()
    return args


def race(data: Interactions, factors: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each contender."""
    fits: dict[str, list[Fit]] = {name: [] for name in args.contenders}
    for turn in range(args.repeats):
        for name in args.contenders[:: -1 if turn % 2 else 1]:
            model = entry(name, factors, args)()
            fits[name].append(fit_once(model, data, args, judged=args.epochs))
    return [
        {
            "factors": factors,
            "contender": name,
            "seconds_per_epoch": median(fit.pace for fit in own),
            **{
                f"over_{yardstick.replace(' ', '_')}": ratio(own, fits[yardstick])
                for yardstick in YARDSTICKS
                if yardstick in fits
            },
            **{f"objective@{epoch}": judged(own, epoch) for epoch in args.epochs},
        }
        for name, own in fits.items()
    ]


def entry(name: str, factors: int, args: argparse.Namespace) -> Callable[[], Contender]:
    """The contender, ready to fit."""
    return partial(
        contender(name),
        objective=mfrank.WRMF(alpha=args.alpha, regularization=args.regularization),
        factors=factors,
        iterations=args.epochs[-1],
        stops=tuple(args.epochs[:-1]),
        n_threads=args.threads,
    )


def fit_once(
    model: Contender,
    data: Interactions,
    args: argparse.Namespace,
    judged: Container[int],
    until: float = float("-inf"),
) -> Fit:
    """Fit, and judge those epochs; end where patience does, or at that objective."""
    fit, matrix = Fit(), data.to_scipy()  # of the class that all libraries read
    began = perf_counter()

    def watch(epoch: int, took: float) -> None:
        nonlocal began
        stopped = perf_counter()
        fit.seconds.append(took)
        fit.since_begin[epoch] = stopped - began
        if epoch in judged:
            fit.objective[epoch] = evaluated(model, data, args)
            if fit.objective[epoch] <= until:
                raise _Enough
        if epoch >= args.epochs[0] and fit.pace * args.epochs[-1] > args.patience:
            raise _Enough
        began += perf_counter() - stopped

    with suppress(_Enough):
        model.fit(matrix, watch)
    return fit


def evaluated(model: Contender, data: Interactions, args: argparse.Namespace) -> float:
    """The objective at a contender's factors, in float64."""
    return objective_value(model.objective, _double(model), data, args.threads)


def ratio(own: list[Fit], others: list[Fit]) -> float:
    """Median of the rounds' ratios of seconds."""
    return median(mine.pace / theirs.pace for mine, theirs in zip(own, others, strict=True))


def judged(fits: list[Fit], epoch: int) -> float | None:
    """The objective after an epoch, None where no fit had the patience."""
    return next((fit.objective[epoch] for fit in fits if epoch in fit.objective), None)


class _Enough(Exception):
    """Ends a fit from its watch."""


def _double(model: Contender) -> SimpleNamespace:
    users, items = model.user_factors, model.item_factors
    return SimpleNamespace(
        user_factors=users.astype(np.float64), item_factors=items.astype(np.float64)
    )
