"""Fit mfrank's objectives and implicit's models to the same data and compare them.

Reports time, peak memory, objective and ranking quality, on one split with the same evaluation.
With --tune, each model's hyperparameters are first searched for the same time, without the test
part. Without implicit (pip install mfrank[compare]), only mfrank takes part.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from mfrank.arrays import share
from mfrank.cli.flags import OBJECTIVES, add_needs_flag, objective, parameters
from mfrank.cli.inputs import read_events, read_like, read_table
from mfrank.cli.model_folders import check_writable
from mfrank.cli.printing import add_json_flag, check_json, somebody_watches, tell, tell_unknown
from mfrank.cli.table_flags import add_table_flags, add_target_flag, sums_of
from mfrank.comparison import DEFAULT_METRICS, DEFAULT_OBJECTIVES, compare, usual_models
from mfrank.data import Interactions, Split, by_ratio, by_time, leave_k_out, leave_last
from mfrank.errors import InputValueError
from mfrank.models import SupervisedPageRank
from mfrank.tuning import Predict

EXAMPLES = """\
  mfrank compare ratings.csv
  mfrank compare ratings.csv --split leave-last --factors 128 --json table.json --csv table.csv
  mfrank compare clicks.csv --split leave-last --walk
  mfrank compare plays.csv --split time --tune 10 --metric ndcg@20
  mfrank compare shop.csv --target purchase --weights view=1,purchase=5 --split time
  mfrank compare train.csv --test test.csv --objective wrmf:alpha=10 --objective rg2:alpha=0.1
"""

_SPLITS: dict[str, Callable[[float, int], tuple[Callable[..., Split], dict[str, Any]]]] = {
    "ratio": lambda fraction, seed: (
        by_ratio,
        {"train": 1 - fraction, "test": fraction, "random_state": seed},
    ),
    "leave-last": lambda fraction, seed: (leave_last, {"random_state": seed}),
    "leave-out": lambda fraction, seed: (leave_k_out, {"random_state": seed}),
    "time": lambda fraction, seed: (by_time, {"test": fraction}),
}
"""Functions of a fraction and a seed: how to split, and its options."""
_PREDICTS: dict[str, Predict] = {"ratio": "any", "leave-last": "next", "leave-out": "any"}
"""What a search holds out, so that it chooses by what the test asks."""
_COUNTS = ("factors", "iterations", "n_threads", "repeats", "random_state")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank compare``."""
    parser.add_argument(
        "interactions", metavar="FILE", help="all interactions; with --test, the training part"
    )
    parser.add_argument(
        "--test", metavar="FILE", help="the test part (default: split from the first file)"
    )
    add_target_flag(
        parser,
        "with --weights: fit to events of all kinds, hold out those of this kind, such as "
        "purchase, and exclude only them from the rankings",
    )
    parser.add_argument(
        "--split",
        choices=_SPLITS,
        help="test part: ratio is a random fraction of each user's interactions, leave-last and "
        "leave-out are the last and a random interaction of each user, time is the latest "
        "interactions of all users (default: ratio)",
    )
    parser.add_argument(
        "--test-fraction",
        type=float,
        metavar="FLOAT",
        help="fraction of the interactions in the test part, for ratio and time (default: 0.2)",
    )
    parser.add_argument(
        "--objective",
        action="append",
        type=objective,
        metavar="NAME[:OPTION=VALUE,...]",
        help=f"objective of mfrank, may be repeated: {', '.join(OBJECTIVES)}; implicit's ALS uses "
        "the alpha and regularization of wrmf (default: "
        f"{' '.join(type(chosen).__name__.lower() for chosen in DEFAULT_OBJECTIVES)})",
    )
    parser.add_argument(
        "--walk",
        action="store_true",
        help="also fit a supervised PageRank, which needs timestamps (see mfrank pagerank)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME@K",
        help="metric to evaluate, may be repeated "
        f"(default: {' '.join(map(str, DEFAULT_METRICS)).lower()})",
    )
    parser.add_argument(
        "--tune",
        type=float,
        metavar="MINUTES",
        help="first search the hyperparameters of each model for MINUTES, by the first metric, on "
        "interactions held out of the training part; the models are then the result of mfrank "
        "tune, EASE, ItemKNN, popularity and, of the packages that are installed, implicit's ALS, "
        "BPR and LMF, irspack's RP3beta and SANSA; or the ones of --objective",
    )
    add_needs_flag(parser, "with --tune, of the result of mfrank tune: ")
    for name in _COUNTS:
        default = signature(compare).parameters[name].default
        shown = "" if default is None else f" (default: {default})"
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=int,
            default=default,
            metavar="INT",
            help=parameters(compare)[name].text.rstrip(".") + shown,
        )
    add_json_flag(parser, "the results")
    parser.add_argument("--csv", metavar="FILE", help="also write the results to this file")
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Compare, print and save."""
    check_json(args.json)
    check_writable(args.csv)
    if args.test is not None and (args.split, args.test_fraction) != (None, None):
        raise InputValueError(
            "--split and --test-fraction are for one file", "leave them out with --test"
        )
    if (
        args.tune is not None
        and args.iterations != signature(compare).parameters["iterations"].default
    ):
        raise InputValueError(
            "`iterations` has no effect, as each search finds them:", "leave it out"
        )
    usual = partial(
        usual_models,
        args.objective,
        tuned=args.tune is not None,
        factors=args.factors,
        iterations=args.iterations,
        n_threads=args.n_threads,
        random_state=args.random_state,
    )
    usual()  # refuses options before anything is read
    train, test, left_out = _parts(args)
    models = usual(timed=train.timestamps is not None)
    if args.walk:
        models["mfrank SupervisedPageRank"] = SupervisedPageRank(
            n_threads=args.n_threads, random_state=args.random_state
        )
    comparison = compare(
        train,
        test,
        left_out=left_out,
        models=models,
        tune=args.tune,
        needs=args.needs,
        predict=None if args.tune is None or args.test else _PREDICTS.get(args.split or "ratio"),
        factors=None if args.tune is None else args.factors,  # the models have theirs
        random_state=args.random_state,
        n_threads=args.n_threads,
        repeats=args.repeats,
        metrics=args.metric or DEFAULT_METRICS,
        show_progress=somebody_watches(),
    )
    tell(comparison, comparison.to_dict(), args.json)
    if args.csv:
        comparison.to_csv(args.csv)


def _parts(args: argparse.Namespace) -> tuple[Interactions, Interactions, Interactions | None]:
    """Training and test part, from two files or by splitting one, and what rankings exclude."""
    events, owned = None, None
    if args.target is None:
        data = read_table(args, args.interactions)
    else:
        if args.tune is not None:
            raise ValueError("--target does not go with --tune; mfrank tune --target searches")
        if args.weights is None:
            raise ValueError("--target needs --weights: what an event of each kind counts")
        events = read_events(args, args.interactions)
        data, owned = events.weighted(args.weights, **sums_of(args)), events[args.target]
    if args.test:
        test, unknown = read_like(args, args.test, data)
        tell_unknown(unknown)
        return data, test, owned
    asked, split = args.test_fraction, args.split or "ratio"
    fraction = 0.2 if asked is None else share("--test-fraction", asked)
    if asked is not None and split.startswith("leave"):
        print(f"mfrank: --test-fraction has no effect on --split {split}", file=sys.stderr)
    by, options = _SPLITS[split](fraction, args.random_state)
    if events is None:
        parts = by(data, **options)
        return parts.train, parts.test, None
    divided = events.split(args.target, by, **options)
    return (
        divided.train.weighted(args.weights, **sums_of(args)),
        divided.test,
        divided.train[args.target],
    )
