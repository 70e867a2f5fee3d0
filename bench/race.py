"""Fits of several contenders to one objective, in turns: seconds per epoch, and how far they get.

Turns alternate, and every other round goes backwards, so that a slow minute of the machine hits
all. A row has the median over the rounds; each ratio is the median of the rounds' own ratios. The
objective is evaluated in float64 by the same code at each library's factors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from contenders import Contender, present
from records import parser

import mfrank
from mfrank.comparison.contenders import objective_value
from mfrank.data.interactions import Interactions

Maker = Callable[..., Contender]
Fit = dict[str, Any]

YARDSTICKS = "mfrank auto", "mfrank cholesky"
"""Whose seconds all others' are divided by, where they take part."""


def options(doc: str | None, names: Sequence[str]) -> argparse.ArgumentParser:
    """What a race can be told."""
    made = parser(doc)
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256])
    made.add_argument("--contenders", nargs="+", choices=names, default=list(names))
    made.add_argument("--alpha", type=float, default=10.0)
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


def race(data: Interactions, factors: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each contender that can run here."""
    entered = {name: entry(make, factors, args) for name, make in present(args.contenders).items()}
    fits: dict[str, list[Fit]] = {name: [] for name in entered}
    for turn in range(args.repeats):
        for name in list(entered)[:: -1 if turn % 2 else 1]:
            fits[name].append(fit_once(entered[name](), data, args))
    return [
        {
            "factors": factors,
            "contender": name,
            "seconds_per_epoch": float(np.median([fit["seconds"] for fit in own])),
            **{
                f"over_{yardstick.replace(' ', '_')}": ratio(own, fits[yardstick])
                for yardstick in YARDSTICKS
                if yardstick in fits
            },
            **{f"objective@{epoch}": own[-1].get(epoch) for epoch in args.epochs},
        }
        for name, own in fits.items()
    ]


def entry(make: Maker, factors: int, args: argparse.Namespace) -> Callable[[], Contender]:
    """The contender, ready to fit."""
    return partial(
        make,
        objective=mfrank.WRMF(alpha=args.alpha, regularization=args.regularization),
        factors=factors,
        iterations=args.epochs[-1],
        stops=tuple(args.epochs[:-1]),
        n_threads=args.threads,
    )


def fit_once(contender: Contender, data: Interactions, args: argparse.Namespace) -> Fit:
    """Median seconds of an epoch and, by its number, the objective after the epochs to judge."""
    fit: Fit = {}
    seconds: list[float] = []

    def watch(epoch: int, took: float) -> None:
        seconds.append(took)
        if epoch not in args.epochs:
            return
        fit[epoch] = objective_value(contender.objective, _double(contender), data, args.threads)
        if np.median(seconds) * args.epochs[-1] > args.patience:
            raise _OutOfPatience

    with suppress(_OutOfPatience):
        contender.fit(data.user_items, watch)
    return {**fit, "seconds": float(np.median(seconds))}


def ratio(own: list[Fit], others: list[Fit]) -> float:
    """Median of the rounds' ratios of seconds."""
    pairs = zip(own, others, strict=True)
    return float(np.median([mine["seconds"] / theirs["seconds"] for mine, theirs in pairs]))


class _OutOfPatience(Exception):
    """Ends a fit from its watch."""


def _double(model: Contender) -> SimpleNamespace:
    users, items = model.user_factors, model.item_factors
    return SimpleNamespace(
        user_factors=users.astype(np.float64), item_factors=items.astype(np.float64)
    )
