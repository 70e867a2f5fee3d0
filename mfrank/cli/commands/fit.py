"""Fit a model to a file of interactions by ALS and save it as a folder.

After Ctrl-C, or if a checkpoint cannot be written, the last complete epoch is saved; with
--checkpoint, the same command then resumes after that epoch. --track-objective prints the objective
of each epoch.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from mfrank.arrays import counted, share
from mfrank.cli.flags import add_cluster_flag, add_flags, add_objective_flags, given, objective_of
from mfrank.cli.inputs import read_left_out, read_table
from mfrank.cli.model_folders import Destination, add_keep_flag
from mfrank.cli.printing import announce, print_objective, saved_when_fitted, somebody_watches, told
from mfrank.cli.table_flags import add_leave_out_flag, add_table_flags
from mfrank.cluster import check_cluster
from mfrank.data import Interactions, by_ratio
from mfrank.evaluation import EarlyStopping
from mfrank.models import ALS, FitPlan, told_of_cluster, values_told

EXAMPLES = """\
  mfrank fit ratings.csv --model model
  mfrank fit plays.tsv --user listener --item artist --model model --objective ials --factors 128
  mfrank fit ratings.parquet --at-least 4 --model model --objective rg2 --alpha 0.1
  mfrank fit ratings.csv --model model --hold-out 0.1
  mfrank fit ratings.csv --model model --checkpoint state
  mfrank fit ratings.csv --model model --factors 512 --dry-run
  mfrank fit ratings.csv --model model --item-features items.csv
  mfrank fit ratings.csv --model model --cluster tcp://10.0.0.1:8786
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank fit``."""
    parser.add_argument("interactions", metavar="FILE", help="the interactions to fit to")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="where to save the model")
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="where to save the state after each epoch; with --hold-out, of the last fit",
    )
    add_keep_flag(parser)
    add_leave_out_flag(parser)
    add_table_flags(parser)
    add_objective_flags(parser, ALS().objective)
    fit = parser.add_argument_group("fit")
    add_flags(fit, ALS, leave_out=["objective"])
    fit.add_argument(
        "--hold-out",
        type=float,
        metavar="FRACTION",
        help="choose the number of epochs: first fit without this fraction of each user's "
        "interactions until their ranking no longer improves, then fit to all interactions for "
        "the best number of epochs",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only print the memory, disk space and time that the fit would take",
    )
    for side in ("user", "item"):
        fit.add_argument(
            f"--{side}-features",
            metavar="FILE",
            help=f"table of features of {side}s: .csv, .tsv or .parquet, with a column of their "
            "ids and columns of numbers, texts or values between |",
        )
    add_cluster_flag(parser, "run half-steps", "the model is the same")


def run(args: argparse.Namespace) -> None:
    """Fit and save."""
    destination = Destination.of(args.model)
    check_cluster(args.cluster)
    held_out = None if args.hold_out is None else share("--hold-out", args.hold_out)
    model = ALS(**given(args, ALS) | {"objective": objective_of(args)})
    data = read_table(args, args.interactions)
    left_out = read_left_out(args, data)
    announce(model.objective, data)
    how = {
        "checkpoint": args.checkpoint,
        "cluster": args.cluster,
        "user_features": args.user_features,
        "item_features": args.item_features,
    }
    if args.dry_run:
        plan = FitPlan.of(model, data, **how, has_best=held_out is not None)
        print(plan.told(int(model.iterations)))
        if args.cluster is not None:
            print(told_of_cluster(model, data, args.cluster))
        return
    if held_out is not None:
        epochs = _best_epoch(model, data, held_out, **how | {"checkpoint": None})
        model.set_params(iterations=epochs)
    watched = (
        {"callback": print_objective}
        if model.track_objective
        else {"show_progress": somebody_watches()}
    )
    told_before = nullcontext() if held_out is None else values_told()
    with saved_when_fitted(model, destination, left_out, args.keep), told_before:
        model.fit(data, **how, **watched)
    print(told(model, model.objective, data, args.model))


def _best_epoch(model: ALS, data: Interactions, held_out: float, **how: Any) -> int:
    """Number of epochs after which a fit without the held-out fraction ranks it best."""
    kept = 1 - held_out
    split = by_ratio(data, train=kept, valid=1 - kept, test=0.0, random_state=model.random_state)
    stopping = EarlyStopping(split.valid)
    model.fit(split.train, stopping=stopping, show_progress=somebody_watches(), **how)
    values = [float(epoch["valid"] or 0) for epoch in model.store.history]
    best = values.index(max(values)) + 1
    epochs = counted(best, "epoch")
    print(f"held-out interactions are ranked best after {epochs}: {_listed(stopping, values)}")
    return best


def _listed(stopping: EarlyStopping, values: list[float]) -> str:
    return f"{stopping.metric} " + " ".join(f"{value:.4f}" for value in values)
