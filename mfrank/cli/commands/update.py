"""Update a saved model with new interactions, including new users and items.

An update is much faster than a fit: it makes only users and items with new interactions anew, and
most others keep their factors. So fit again from time to time. The folder of the model is replaced
at the end; a server picks the new model up. Concurrent updates wait for each other. With --batch,
a repeated update changes nothing.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

from mfrank.arrays import counted
from mfrank.cli.inputs import (
    add_keep_flag,
    add_leave_out_flag,
    add_table_flags,
    model_to_change,
    read_left_out,
    read_spelled_like,
    refuse_sums,
)
from mfrank.errors import InputValueError
from mfrank.models import ALS, Blend
from mfrank.retrieval import Recommender

EXAMPLES = """\
  mfrank update today.csv --model model
  mfrank update today.csv --model model --batch 2026-11-25
  mfrank update today.csv --model model --output newer
  mfrank update today.csv --model model --batch 2026-11-25 --keep 3
  mfrank update today.csv --model model --item-features new-items.csv
  mfrank update today.csv --model model --train before.csv --decay 0.9
"""


_OF_ALS = ("alternations", "decay", "user-features", "item-features")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank update``."""
    parser.add_argument("interactions", metavar="FILE", help="the new interactions")
    parser.add_argument(
        "--model", required=True, metavar="FOLDER", help="a saved model, but of mfrank pagerank"
    )
    parser.add_argument(
        "--output", metavar="FOLDER", help="where to save the result (default: the same folder)"
    )
    parser.add_argument(
        "--batch",
        metavar="NAME",
        help="name of these interactions; a model that has a batch of this name does not change",
    )
    parser.add_argument(
        "--train",
        metavar="FILE",
        help="all old interactions (default: those of the model)",
    )
    parser.add_argument(
        "--alternations",
        type=int,
        metavar="INT",
        help="for models of mfrank fit: number of times that items and users are solved in turn "
        "(default: 3)",
    )
    parser.add_argument(
        "--decay",
        type=float,
        metavar="FLOAT",
        help="for models of mfrank fit under objectives that use values: multiply all old values "
        "by this, at most 1 (default: 1.0)",
    )
    for side in ("user", "item"):
        parser.add_argument(
            f"--{side}-features",
            metavar="FILE",
            help=f"table of features of new {side}s, with the columns of the fit",
        )
    add_keep_flag(parser)
    add_leave_out_flag(parser)
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Load, update and save."""
    output = args.output or args.model
    with model_to_change(args.model, output) as model:
        if type(model).partial_fit is Recommender.partial_fit:
            raise InputValueError(
                f"{args.model} is of {type(model).__name__}, which cannot be updated",
                "fit it to all interactions",
                place=args.model,
            )
        of_als = _OF_ALS if isinstance(model, Blend) else ("train", *_OF_ALS)
        used = [f"--{name}" for name in of_als if _given(args, name) is not None]
        if used and not isinstance(model, ALS):
            raise InputValueError(
                f"{args.model} is of {type(model).__name__}, and {used[0]} is for models of mfrank "
                "fit",
                place=args.model,
            )
        told = _update(model, args)
        if told or output != args.model:
            model.save(output, keep=args.keep)
            print(f"{told}saved to {output}")


def _given(args: argparse.Namespace, name: str) -> Any:
    return getattr(args, name.replace("-", "_"))


def _update(model: Any, args: argparse.Namespace) -> str:
    """Update the model; report on it, with nothing if it had the batch."""
    refuse_sums(args, "an update has only the new events of a sum, and their ages: fit anew")
    before, began = model.store, perf_counter()
    data = read_spelled_like(args, args.interactions, model)
    options: dict[str, Any] = {"batch": args.batch, "leave_out": read_left_out(args, data)}
    if args.train is not None:
        options["user_items"] = read_spelled_like(args, args.train, model)
    if isinstance(model, ALS):
        options |= {
            name.replace("-", "_"): value
            for name in _OF_ALS
            if (value := _given(args, name)) is not None
        }
    model.partial_fit(data, **options)
    if model.store is before:
        return ""
    users = counted(model.store.n_users - before.n_users, "new user")
    items = counted(model.store.n_items - before.n_items, "new item")
    last = dict(model.store.history[-1]) if model.store.history else {}
    rows = counted(int(last["rows"] or 0), "row") + " solved" if "rows" in last else "done"
    seconds = last.get("seconds", perf_counter() - began)
    return f"updated with {data}: {users}, {items}\n{rows} in {seconds:.2f} s; "
