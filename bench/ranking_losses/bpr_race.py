"""BPR of mfrank and of implicit: seconds per epoch, and until implicit's final NDCG@20.

An epoch draws as many pairs as there are interactions. Both have item biases, and the options and
epochs that were best on the validation part (``tune``). The target is implicit's NDCG@20 on the
test part after its epochs. The clock has all that ``fit`` does, and stands still while an epoch is
judged.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from harness.courses import Course, Point, arrival
from harness.memory import MIB
from harness.records import line
from harness.subjects import load
from harness.tuning import with_validation
from implicit.cpu.bpr import BayesianPersonalizedRanking
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.comparison import peak_memory
from mfrank.data import Interactions

__all__ = ["race", "tune"]

Options = dict[str, Any]
Watch = Callable[[Any], object]
"""Called after each epoch with the model, which has its factors; a true result ends the fit."""

CHOSEN: dict[str, dict[str, Options]] = {
    "ml-1m": {
        "implicit": {"learning_rate": 0.01, "regularization": 0.01, "epochs": 35},
        "mfrank": {"learning_rate": 0.01, "weight_decay": 1e-5, "epochs": 12},
    },
    "gowalla": {
        "implicit": {"learning_rate": 0.013, "regularization": 0.000585, "epochs": 115},
        "mfrank": {"learning_rate": 0.01, "weight_decay": 1e-6, "epochs": 12},
    },
}
"""What ``tune`` found, at 64 factors; of implicit on gowalla what trainers_quality.py did, and of a
longer fit the best epoch on the validation part."""

GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "implicit": {"learning_rate": (0.01, 0.03, 0.1), "regularization": (0.003, 0.01, 0.03)},
    "mfrank": {"learning_rate": (0.01, 0.03), "weight_decay": (0.0, 1e-6, 1e-5)},
}

BATCH = 4096


class _Enough(Exception):
    """Ends implicit's fit from its callback."""


def fit_mfrank(data: Interactions, options: Options, n_threads: int, watch: Watch) -> None:
    """By Adam on batches of likes."""
    model = mfrank.Descent(
        mfrank.BPR(),
        factors=options["factors"],
        iterations=options["epochs"],
        batches="positives",
        batch_size=BATCH,
        negatives=1,
        optimizer=mfrank.Adam(options["learning_rate"]),
        weight_decay=options["weight_decay"],
        schedule=mfrank.Constant(),
        item_biases=True,
        init="random",
        n_threads=n_threads,
        random_state=0,
    )
    model.fit(data.user_items, callback=lambda *_: watch(model))


def fit_implicit(data: Interactions, options: Options, n_threads: int, watch: Watch) -> None:
    """By stochastic gradient descent on pairs, without locks."""
    model = BayesianPersonalizedRanking(
        factors=options["factors"],
        iterations=options["epochs"],
        learning_rate=options["learning_rate"],
        regularization=options["regularization"],
        num_threads=n_threads,
        random_state=0,
    )

    def look(*_: Any) -> None:
        if watch(model):
            raise _Enough

    matrix = data.to_scipy()
    with threadpool_limits(1, "blas"), suppress(_Enough):
        model.fit(matrix, show_progress=False, callback=look)


FITS = {"implicit": fit_implicit, "mfrank": fit_mfrank}


def course(
    name: str, train: Interactions, truth: Interactions, options: Options, args: argparse.Namespace
) -> list[Point]:
    """Fit, judged after every epoch."""
    judged = Course(train, truth, args.patience)
    judged.begin()
    FITS[name](train, options, args.threads, judged.watch)
    return judged.points


def race(data: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each contender."""
    split = load(data)
    given = {
        name: {"factors": args.bpr_factors, **CHOSEN[data][name], **args.options.get(name, {})}
        for name in FITS
    }
    rounds: dict[str, list[list[Point]]] = {name: [] for name in FITS}
    for turn in range(args.repeats):
        for name in list(FITS)[:: -1 if turn % 2 else 1]:
            rounds[name].append(course(name, split.train, split.test, given[name], args))
    targets = [points[-1].ndcg for points in rounds["implicit"]]
    rows = []
    for name, courses in rounds.items():
        arrivals = list(map(arrival, courses, targets))
        peers = map(arrival, rounds["implicit"], targets)
        rows.append(
            {
                "contender": name,
                **given[name],
                "seconds_per_epoch": median(epoch_seconds(points) for points in courses),
                "ndcg@20": median(points[-1].ndcg for points in courses),
                "target_ndcg@20": median(targets),
                "epochs_to_target": arrivals[-1].epoch,
                "seconds_to_target": float(np.median([point.seconds for point in arrivals])),
                "times_sooner": float(
                    np.median([p.seconds / o.seconds for p, o in zip(peers, arrivals, strict=True)])
                ),
                "peak_mib": peak(name, split.train, given[name], args),
            }
        )
    return rows


def epoch_seconds(points: list[Point]) -> float:
    """Median seconds of the epochs after the first, which has all that comes before it too."""
    clock = [point.seconds for point in points]
    return median(np.diff(clock)) if len(clock) > 1 else clock[0]


def peak(name: str, data: Interactions, options: Options, args: argparse.Namespace) -> float | None:
    """MiB that a fit of two epochs adds to its input in a process of its own, and the input."""
    matrix = data.user_items
    given = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    short = {**options, "epochs": 2}
    rise = peak_memory(partial(FITS[name], data, short, args.threads, _look_away))
    return None if rise is None else (rise + given) / MIB


def _look_away(model: Any) -> None:
    """Watch nothing."""


def tune(data: str, args: argparse.Namespace) -> None:
    """Print the best validation NDCG@20 and its epoch at each point of the grids."""
    train, valid = with_validation(load(data), 0)
    for name, grid in GRIDS.items():
        for values in product(*grid.values()):
            options = dict(zip(grid, values, strict=True))
            given = {"factors": args.bpr_factors, "epochs": 1000, **options}
            points = course(name, train, valid, given, args)
            best = max(points, key=lambda point: point.ndcg)
            found = {"epochs": best.epoch, "ndcg@20": best.ndcg, "of": len(points)}
            print(f"{data}, {name}: {line({**options, **found})}", flush=True)
