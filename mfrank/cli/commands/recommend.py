"""Write the best items of users as a table: user, rank, item, score.

Seen items (of the training data) are left out.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.cli.flags import add_steering_flags, add_threads_flag, steering_of
from mfrank.cli.model_folders import read_model
from mfrank.cli.printing import add_fallback_flag, add_list_flags, check_output, write_lists
from mfrank.cli.typed_ids import as_ids, ids_in, ids_of
from mfrank.errors import InputValueError
from mfrank.retrieval import Answer, Recommender

EXAMPLES = """\
  mfrank recommend --model model --output recommendations.parquet
  mfrank recommend --model model --user alice --user bob --n 5
  mfrank recommend --model model --users users.txt --skip-unknown --output recommendations.csv
  mfrank recommend --model model --item bread --item cheese
  mfrank recommend --model model --user alice --boost tea=0.5 --diversity 0.3
  mfrank recommend --model model --user alice --json -
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank recommend``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--users",
        default="all",
        metavar="FILE",
        help='text file of user ids, one per line; "all" is every user of the model (default: all)',
    )
    who.add_argument("--user", action="append", metavar="ID", help="one user id; may be repeated")
    who.add_argument(
        "--item",
        action="append",
        metavar="ID",
        help="an item that somebody new has, in place of a user: each in an --item of its own, "
        "oldest first",
    )
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="leave out unknown users, or give them the --fallback, and unknown --item (default: "
        "they are an error)",
    )
    add_list_flags(parser, "items per user")
    parser.add_argument(
        "--include-seen",
        action="store_true",
        help="also recommend the items that users had in the fit",
    )
    add_fallback_flag(parser)
    add_threads_flag(parser)
    add_steering_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Recommend and write."""
    check_output(args)
    if args.item is not None and args.include_seen:
        raise InputValueError(
            "--include-seen is for users of the model", "leave it out with --item"
        )
    if args.skip_unknown and args.item is None and args.user is None and args.users == "all":
        raise InputValueError(
            "--skip-unknown has no effect, as all users of the model are known:", "leave it out"
        )
    model = read_model(args.model)
    options: dict[str, Any] = {
        "fallback": args.fallback,
        "n_threads": args.n_threads,
        "steer": steering_of(args, model.item_ids),
    }
    if args.item is not None:
        items = ids_of(args.item, model.item_ids, "item", skip_unknown=args.skip_unknown)
        answer = model.recommend_from_items(items.tolist(), args.n, **options)
        users = np.array(["somebody new"])
        answer = Answer(answer.ids[None], answer.scores[None]).like(answer)
    else:
        users = _users(args, model)
        answer = model.recommend(
            users,
            N=args.n,
            filter_already_liked_items=not args.include_seen,
            on_unknown="skip" if args.skip_unknown and args.fallback != "none" else "error",
            **options,
        )
    write_lists(("user", users), "item", answer, args)


def _users(args: argparse.Namespace, model: Recommender) -> NDArray[Any]:
    if args.user is None and args.users == "all":
        return model.user_ids.labels
    texts = args.user if args.user is not None else ids_in(args.users)
    if args.skip_unknown and args.fallback != "none":
        ids = as_ids(texts, model.user_ids)
        if n_unknown := int((model.user_ids.rows(ids, missing=-1) < 0).sum()):
            print(
                f"mfrank: popular items for {counted(n_unknown, 'unknown user')}", file=sys.stderr
            )
        return ids
    return ids_of(texts, model.user_ids, "user", skip_unknown=args.skip_unknown)
