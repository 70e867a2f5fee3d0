"""Update a saved model with new interactions, including new users and items.

An update is much faster than a fit: it solves only users and items with new interactions, and most
others keep their factors. So fit again from time to time. The folder of the model is replaced at
the end; a server picks the new model up. Concurrent updates wait for each other. With --batch, a
repeated update changes nothing.
"""

from __future__ import annotations

import argparse

from mfrank.arrays import counted
from mfrank.cli.inputs import (
    add_leave_out_flag,
    add_table_flags,
    model_to_change,
    read_left_out,
    read_spelled_like,
)
from mfrank.errors import InputValueError
from mfrank.models import ALS

EXAMPLES = """\
  mfrank update today.csv --model model
  mfrank update today.csv --model model --batch 2026-11-25
  mfrank update today.csv --model model --output newer
  mfrank update today.csv --model model --item-features new-items.csv
  mfrank update today.csv --model model --train before.csv --decay 0.9
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank update``."""
    parser.add_argument("interactions", metavar="FILE", help="the new interactions")
    parser.add_argument(
        "--model", required=True, metavar="FOLDER", help="a saved model of mfrank fit"
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
        help="all old interactions; required for objectives that use values, such as wrmf, because "
        "a saved model has no values",
    )
    parser.add_argument(
        "--alternations",
        type=int,
        default=3,
        metavar="INT",
        help="number of times that items and users are solved in turn (default: 3)",
    )
    parser.add_argument(
        "--decay",
        type=float,
        default=1.0,
        metavar="FLOAT",
        help="multiply all old values by this, at most 1, for objectives that use values "
        "(default: 1.0)",
    )
    for side in ("user", "item"):
        parser.add_argument(
            f"--{side}-features",
            metavar="FILE",
            help=f"table of features of new {side}s, with the columns of the fit",
        )
    add_leave_out_flag(parser)
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Load, update and save."""
    output = args.output or args.model
    with model_to_change(args.model, output) as model:
        if not isinstance(model, ALS):
            raise InputValueError(
                f"{args.model} is of {type(model).__name__}",
                "only models of mfrank fit can be updated",
                place=args.model,
            )
        told = _update(model, args)
        if told or output != args.model:
            model.save(output)
            print(f"{told}saved to {output}")


def _update(model: ALS, args: argparse.Namespace) -> str:
    """Update the model; report on it, with nothing if it had the batch."""
    before = model.store
    data = read_spelled_like(args, args.interactions, model)
    model.partial_fit(
        data,
        user_items=None if args.train is None else read_spelled_like(args, args.train, model),
        alternations=args.alternations,
        decay=args.decay,
        batch=args.batch,
        leave_out=read_left_out(args, data),
        user_features=args.user_features,
        item_features=args.item_features,
    )
    if model.store is before:
        return ""
    users = counted(model.store.n_users - before.n_users, "new user")
    items = counted(model.store.n_items - before.n_items, "new item")
    last = model.store.history[-1]
    rows = counted(int(last["rows"] or 0), "row")
    return f"updated with {data}: {users}, {items}\n{rows} solved in {last['seconds']:.2f} s; "
