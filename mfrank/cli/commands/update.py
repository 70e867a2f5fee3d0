"""Update a saved model with new interactions, new users and items included.

This takes a small part of the time of a fit: users and items with new interactions are solved again
from old and new ones, and most others keep their factors. So fit anew from time to time. The folder
of the model is replaced when everything is done; a server that reads it goes on with the new model.
"""

from __future__ import annotations

import argparse

from mfrank.arrays.counted import counted
from mfrank.cli.folders import check_takes_model, read_model
from mfrank.cli.inputs import add_table_flags, read_spelled_like
from mfrank.models.growing import Growing

EXAMPLES = """\
  mfrank update today.csv --model model
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
        "--train",
        metavar="FILE",
        help="all old interactions; needed for objectives that use values, such as wrmf, because a "
        "saved model does not have the values",
    )
    parser.add_argument(
        "--alternations",
        type=int,
        default=3,
        metavar="INT",
        help="how many times the items and the users are solved in turn (default: 3)",
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
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Load, update and save."""
    output = args.output or args.model
    model = read_model(args.model)
    if not isinstance(model, Growing):
        raise ValueError(
            f"{args.model} is of {type(model).__name__}; only models of mfrank fit can be updated"
        )
    check_takes_model(output)
    known = model.user_ids, model.item_ids
    data = read_spelled_like(args, args.interactions, *known)
    model.partial_fit(
        data,
        user_items=None if args.train is None else read_spelled_like(args, args.train, *known),
        alternations=args.alternations,
        decay=args.decay,
        user_features=args.user_features,
        item_features=args.item_features,
    )
    model.save(output)
    users = counted(len(model.user_ids) - len(known[0]), "new user")
    items = counted(len(model.item_ids) - len(known[1]), "new item")
    last = model.store.history[-1]
    rows = counted(int(last["rows"] or 0), "row")
    print(
        f"updated with {data}: {users}, {items}\n"
        f"{rows} solved in {last['seconds']:.2f} s; saved to {output}"
    )
