"""Remove users and items, and all their data, from a saved model.

The folder of the model is replaced: their factors, ids and interactions are gone from disk. The
factors of others change only at the next fit; weights between items, at once.
"""

from __future__ import annotations

import argparse

from mfrank.arrays import counted
from mfrank.cli.model_folders import model_to_change
from mfrank.cli.typed_ids import ids_in, ids_of
from mfrank.errors import InputValueError

EXAMPLES = """\
  mfrank remove --model model --user bob
  mfrank remove --model model --users deletion-requests.txt --skip-unknown
  mfrank remove --model model --item item-9 --item item-17
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank remove``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    for side in ("user", "item"):
        parser.add_argument(
            f"--{side}",
            action="append",
            default=[],
            metavar="ID",
            help=f"one {side} to remove; may be repeated",
        )
    parser.add_argument(
        "--users", metavar="FILE", help="text file of users to remove, one id per line"
    )
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="leave out unknown ids (default: they are an error)",
    )


def run(args: argparse.Namespace) -> None:
    """Load, remove and save."""
    asked = {"user": [*args.user, *(ids_in(args.users) if args.users else [])], "item": args.item}
    if not any(asked.values()):
        raise InputValueError("nothing to remove:", "pass --user, --users or --item")
    with model_to_change(args.model, args.model) as (model, destination):
        sides = {"user": model.user_ids, "item": model.item_ids}
        removed = {
            side: ids_of(
                list(dict.fromkeys(asked[side])), ids, side, skip_unknown=args.skip_unknown
            )
            for side, ids in sides.items()
        }
        told = [counted(len(ids), side) for side, ids in removed.items() if len(ids)]
        if not told:
            print(f"{args.model} has none of them, and stays as it is")
            return
        model.remove(users=removed["user"], items=removed["item"])
        destination.save(model, keep=1)
    print(f"removed {' and '.join(told)}; saved to {args.model}")
