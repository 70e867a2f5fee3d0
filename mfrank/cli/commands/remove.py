"""Remove users and items from a saved model, with everything that its files hold about them.

The folder of the model is replaced: its files hold no factors, ids or interactions of them any
more. What the factors of others have learned from them stays until the next fit.
"""

from __future__ import annotations

import argparse
from typing import Any

from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.cli.folders import check_takes_model, read_model
from mfrank.cli.inputs import as_ids, ids_in, known_only
from mfrank.data.ids import Ids
from mfrank.data.unknown_ids import UnknownIdError

EXAMPLES = """\
  mfrank remove --model model --user bob
  mfrank remove --model model --users deletion-requests.txt --skip-unknown
  mfrank remove --model model --item item-9 item-17
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank remove``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument("--user", nargs="+", default=[], metavar="ID", help="users to remove")
    parser.add_argument(
        "--users", metavar="FILE", help="a text file of users to remove, one a line"
    )
    parser.add_argument("--item", nargs="+", default=[], metavar="ID", help="items to remove")
    parser.add_argument(
        "--skip-unknown", action="store_true", help="ignore ids that the model does not have"
    )


def run(args: argparse.Namespace) -> None:
    """Load, remove and save."""
    texts = {"user": [*args.user, *(ids_in(args.users) if args.users else [])], "item": args.item}
    if not (texts["user"] or texts["item"]):
        raise ValueError("nothing to remove: pass --user, --users or --item")
    model = read_model(args.model)
    check_takes_model(args.model)
    sides = {"user": model.user_ids, "item": model.item_ids}
    removed = {side: _found(texts[side], ids, side, args) for side, ids in sides.items()}
    told = [counted(len(ids), side) for side, ids in removed.items() if len(ids)]
    if not told:
        print(f"{args.model} has none of them, and stays as it is")
        return
    model.remove(users=removed["user"], items=removed["item"])
    model.save(args.model)
    print(f"removed {' and '.join(told)}; saved to {args.model}")


def _found(texts: list[str], known: Ids, noun: str, args: argparse.Namespace) -> NDArray[Any]:
    ids = as_ids(list(dict.fromkeys(texts)), known)
    if args.skip_unknown:
        return known_only(ids, known, noun)
    try:
        known.rows(ids)
    except UnknownIdError as error:
        raise ValueError(f"{noun}: {error}; leave them out with --skip-unknown") from None
    return ids
