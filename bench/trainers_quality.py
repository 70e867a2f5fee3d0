"""How well each trainer ranks, all tuned alike, from scratch or from the factors of another.

Every contender gets the same number of trials, points of one low-discrepancy sequence in its own
search box: Adam's learning rate, which falls along half a cosine, weight decay or a temperature,
and its one main option. Every second trial has cosine scores with item biases. A trial runs its
course, and its best epoch is the one with the highest NDCG@20 on the validation part (the published
one, or a tenth of each user's training items). Results from before 2026-11-24 are of trials that
stopped once it had not risen for some epochs: fifteen from random factors ("scratch"), six after a
start, including mfrank's spectral one. The best trial is fitted anew with three seeds for as many
epochs, on the training part alone, and judged on the test part: means and standard deviations.

Lists have at most 100 positives and 1,000 negatives that a batch shares. For losses over pairs of
all items of a list, or of items and places, they have 30 positives and 60 negatives of their own.
Softmax takes whole lists. On gowalla long lists have 30 positives and 2,048 negatives. There, and
from the factors of ALS, only ``LEADERS``, which led on ml-1m from scratch, take part unless others
are named. Rows are written one by one: the same command goes on where it was interrupted.

    python bench/trainers_quality.py ml-1m
    python bench/trainers_quality.py ml-1m --start spectral
    python bench/trainers_quality.py ml-1m --start RG2 --factors 256
    python bench/trainers_quality.py gowalla --start IALS --factors 64
    python bench/trainers_quality.py ml-1m-seq
    python bench/trainers_quality.py ml-1m-seq --start SOLC
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from harness import tuning
from harness.records import line, parser, save
from harness.subjects import load
from implicit.cpu.bpr import BayesianPersonalizedRanking
from ranking_losses.boxes import (
    GOWALLA,
    IMPLICIT_BPR,
    LEADERS,
    LONG,
    PEER_BOXES,
    PEERS,
    TRAINERS,
    points,
)

import mfrank
from mfrank.data import Interactions, Split

JUDGE = mfrank.NDCG @ 20
METRICS = (mfrank.NDCG @ 10, JUDGE, mfrank.Recall @ 20, mfrank.MRR @ 20, mfrank.MAP @ 20)
SCRATCH_COURSE, STARTED_COURSE = (40, 15), (16, 6)
"""Most epochs of a trial, and after how many without gain it ends: from scratch, trainers rank by
popularity for a while."""

STARTS: dict[tuple[str, str], tuple[int, dict[str, float]]] = {
    ("ml-1m", "RG2"): (3, {"alpha": 0.043, "regularization": 0.0879}),
    ("gowalla", "IALS"): (1, {"alpha0": 0.0289, "regularization": 0.0144, "nu": 0.635}),
}
"""Epochs and hyper-parameters of ALS that are best on the validation part."""

MEAN_DECAY = 0.5
"""Adam's: a user's row is updated once an epoch, so that the usual 0.9 averages over ten epochs."""

Found = tuple[float, int, dict[str, Any]]


def descent(
    name: str, options: dict[str, Any], seed: int, args: argparse.Namespace
) -> mfrank.Descent:
    """A trainer with the options of a trial, and its whole course before it."""
    rest = {key: value for key, value in options.items() if key not in ("learning_rate", "loss")}
    trainer = TRAINERS[name]
    large = args.data == "gowalla" and trainer.lists is LONG
    return mfrank.Descent(
        trainer(options["loss"]),
        factors=args.factors,
        iterations=course(args)[0],
        optimizer=mfrank.Adam(options["learning_rate"], decay_1=MEAN_DECAY),
        schedule=mfrank.CosineDecay(),
        init="spectral" if args.start == "spectral" else "random",
        random_state=seed,
        n_threads=args.threads,
        **(GOWALLA if large else trainer.lists),
        **rest,
    )


def course(args: argparse.Namespace) -> tuple[int, int]:
    """Epochs and patience of a trial."""
    epochs, patience = STARTED_COURSE if args.start else SCRATCH_COURSE
    return args.epochs or epochs, patience


def started(args: argparse.Namespace, train: Interactions, seed: int) -> Any:
    """The model that trainers go on from, or None."""
    if args.start in (None, "spectral"):
        return None
    if args.start in TRAINERS:
        scratch = kept(args.folder / f"{file_name(args, None)}.json")[args.start]
        alone = argparse.Namespace(**{**vars(args), "start": None})
        return up_to(scratch["epochs"], descent(args.start, scratch["options"], seed, alone), train)
    epochs, options = STARTS[args.data, args.start]
    objective = tuning.OBJECTIVES[args.start](**options)
    return mfrank.ALS(
        objective, args.factors, iterations=epochs, random_state=seed, n_threads=args.threads
    ).fit(train)


def search(name: str, args: argparse.Namespace, data: tuple[Interactions, Interactions]) -> Found:
    """Best validation NDCG@20, and the epochs and options that it takes."""
    train, valid = data
    if name == "implicit BPR":
        return search_implicit_bpr(args, train, valid)
    if name in PEERS:
        like = argparse.Namespace(**{**vars(args), "data": args.data.removesuffix("-seq")})
        return tuning.search(name, PEER_BOXES[like.data][name], like, train, valid)
    best: Found = (-1.0, 0, {})
    start = started(args, train, 0)
    stopping = mfrank.EarlyStopping(valid, JUDGE, course(args)[1], users=None)
    for options in points(name, args.trials, started=start is not None):
        model = descent(name, options, 0, args)
        try:
            model.fit(train, start=start, stopping=stopping)
        except FloatingPointError as error:
            print(f"  {name} {options} {error}", flush=True)
            continue
        # Without epoch 0, which is the start: its own row is that of the start.
        values = [epoch["valid"] or 0.0 for epoch in model.store.history if epoch["epoch"]]
        print(f"  {name} {options} {max(values):.4f} of {len(values)} epochs", flush=True)
        best = max(best, (max(values), values.index(max(values)) + 1, options), key=lambda x: x[0])
    return best


def search_implicit_bpr(
    args: argparse.Namespace, train: Interactions, valid: Interactions
) -> Found:
    """The same for implicit's BPR, whose epochs are one of the things searched."""
    tried: list[Found] = []
    for options in tuning.points(IMPLICIT_BPR, args.trials, seed=0):
        model = implicit_bpr(options, 0, args, train)
        value = mfrank.evaluate(model, valid, train=train, metrics=JUDGE)[JUDGE].value
        tried.append((value, round(options["iterations"]), options))
    return max(tried, key=lambda x: x[0])


def implicit_bpr(
    options: dict[str, Any], seed: int, args: argparse.Namespace, train: Interactions
) -> Any:
    """BPR by implicit, fitted."""
    model = BayesianPersonalizedRanking(
        factors=args.factors,
        learning_rate=options["learning_rate"],
        regularization=options["regularization"],
        iterations=round(options["iterations"]),
        num_threads=args.threads,
        random_state=seed,
    )
    model.fit(train.to_scipy(), show_progress=False)
    return model


def refitted(name: str, found: Found, seed: int, args: argparse.Namespace, split: Split) -> Any:
    """The best trial with another seed, fitted to the training part alone."""
    _, epochs, options = found
    if name == "implicit BPR":
        return implicit_bpr(options, seed, args, split.train)
    if name in PEERS:
        like = argparse.Namespace(**{**vars(args), "seed": seed})
        return tuning.make(name, options, epochs, like).fit(split.train.to_scipy())
    start = started(args, split.train, seed)
    return up_to(epochs, descent(name, options, seed, args), split.train, start)


def up_to(
    epochs: int, model: mfrank.Descent, train: Interactions, start: Any = None
) -> mfrank.Descent:
    """The model after some epochs of its course."""
    return model.fit(train, start=start, callback=lambda epoch, *_: epoch + 1 == epochs)


def judged(model: Any, split: Split, args: argparse.Namespace) -> dict[str, float]:
    """All metrics on the test part; where one item is left out, validation items are no rivals."""
    known = split.train.user_items
    if args.data.endswith("-seq") and split.valid is not None:
        known = known + split.valid.user_items
    result = mfrank.evaluate(model, split.test, train=known, metrics=METRICS)
    return {str(metric).lower(): result[metric].value for metric in METRICS}


def row(name: str, args: argparse.Namespace, split: Split, data: Any) -> dict[str, Any]:
    """Search, refit, judge; of the start alone only what it ranks like."""
    value: float | None
    epochs: int | None
    options: dict[str, Any]
    if name == args.start:
        value, epochs, options = None, None, {}
        models = [started(args, split.train, seed) for seed in range(args.repeats)]
    else:
        value, epochs, options = found = search(name, args, data)
        models = [refitted(name, found, seed, args, split) for seed in range(args.repeats)]
    each = [judged(model, split, args) for model in models]
    values = {metric: np.array([one[metric] for one in each]) for metric in each[0]}
    made = {
        "trainer": name,
        "start": args.start or "scratch",
        "factors": args.factors,
        "options": options,
        "epochs": epochs,
        "seconds": seconds(models),
        "valid_ndcg@20": value,
        **{metric: float(seeds.mean()) for metric, seeds in values.items()},
        **{
            f"{metric}_deviation": float(seeds.std(ddof=1))
            for metric, seeds in values.items()
            if metric in ("ndcg@20", "recall@20")
        },
    }
    print(line(made), flush=True)
    return made


def seconds(models: list[Any]) -> float | None:
    """Median seconds of all epochs of a fit; None for models of other libraries."""
    stores = [model.store for model in models if isinstance(model, mfrank.Recommender)]
    fits = [sum(epoch["seconds"] or 0.0 for epoch in store.history) for store in stores]
    return float(np.median(fits)) if fits else None


def file_name(args: argparse.Namespace, start: str | None) -> str:
    """Of the results."""
    return f"trainers-quality-{args.data}-{start or 'scratch'}-{args.factors}".lower()


def kept(file: Path) -> dict[str, dict[str, Any]]:
    """Rows of an earlier run by trainer."""
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    return {row["trainer"]: row for row in rows}


def main() -> None:
    """Tune, refit, judge, print, save."""
    made = parser(__doc__)
    made.add_argument("data", choices=("ml-1m", "gowalla", "ml-1m-seq"))
    made.add_argument(
        "--start", help="spectral, RG2 on ml-1m, IALS on gowalla, or a trainer done before"
    )
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--trials", type=int, default=4)
    made.add_argument("--epochs", type=int, help="most of a trial; default: 40, after a start 16")
    made.add_argument("--trainers", nargs="+", choices=TRAINERS, help="default: see above")
    args = made.parse_args()
    args.seed = 0

    split = load(args.data)
    data = tuning.with_validation(split, args.seed)
    first = PEERS if args.start is None else () if args.start == "spectral" else (args.start,)
    shortened = args.data == "gowalla" or args.start in tuning.OBJECTIVES
    names = args.trainers or (LEADERS if shortened else tuple(TRAINERS))
    rows = kept(args.folder / f"{file_name(args, args.start)}.json")
    for name in dict.fromkeys((*first, *names)):
        if name not in rows:
            rows[name] = row(name, args, split, data)
            save(args.folder, file_name(args, args.start), list(rows.values()))


if __name__ == "__main__":
    main()
