"""Write the best items of users as a table: user, rank, item, score.

Seen items (of the training data) are left out.
"""

from __future__ import annotations

import argparse
from typing import Any

from numpy.typing import NDArray

from mfrank.cli.flags import add_steering_flags, add_threads_flag, steering_of
from mfrank.cli.inputs import as_ids, ids_in, ids_of, read_model
from mfrank.cli.printing import add_fallback_flag, add_list_flags, check_output, write_lists
from mfrank.retrieval import Recommender

EXAMPLES = """\
  mfrank recommend --model model --output recommendations.parquet
  mfrank recommend --model model --user alice --user bob --n 5
  mfrank recommend --model model --users users.txt --skip-unknown --output recommendations.csv
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
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="leave out unknown users, or give them the --fallback (default: they are an error)",
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
    model = read_model(args.model)
    users = _users(args, model)
    answer = model.recommend(
        users,
        N=args.n,
        filter_already_liked_items=not args.include_seen,
        on_unknown="skip" if args.skip_unknown and args.fallback != "none" else "error",
        fallback=args.fallback,
        n_threads=args.n_threads,
        steer=steering_of(args, model.item_ids),
    )
    write_lists(("user", users), "item", answer, args)


def _users(args: argparse.Namespace, model: Recommender) -> NDArray[Any]:
    if args.user is None and args.users == "all":
        return model.user_ids.labels
    texts = args.user if args.user is not None else ids_in(args.users)
    if args.skip_unknown and args.fallback != "none":
        return as_ids(texts, model.user_ids)
    return ids_of(texts, model.user_ids, "user", skip_unknown=args.skip_unknown)
