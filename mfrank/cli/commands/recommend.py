"""Write the best items of users as a table: user, rank, item, score.

Items that a user had in the training data are not recommended again.
"""

from __future__ import annotations

import argparse
import csv
import sys
from typing import Any

from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.cli.folders import read_model
from mfrank.cli.inputs import ids_in
from mfrank.cli.listing import listing
from mfrank.data.fields import spelled_like
from mfrank.data.labels import objects
from mfrank.data.table_files import write_table
from mfrank.retrieval.recommender import Recommender

EXAMPLES = """\
  mfrank recommend --model model --output recommendations.parquet
  mfrank recommend --model model --user alice --user bob --n 5
  mfrank recommend --model model --users users.txt --output recommendations.csv
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank recommend``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--users",
        default="all",
        metavar="FILE",
        help='text file of user ids, one per line, or "all" (default: all)',
    )
    who.add_argument("--user", action="append", metavar="ID", help="a user id; may be repeated")
    parser.add_argument("--n", type=int, default=10, help="items per user (default: 10)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help=".csv, .tsv or .txt (also with .gz), or .parquet (default: CSV on stdout)",
    )
    parser.add_argument(
        "--include-seen",
        action="store_true",
        help="also recommend the items that users had in the fit",
    )
    parser.add_argument(
        "--n-threads", type=int, default=0, metavar="INT", help="0 takes every core (default: 0)"
    )


def run(args: argparse.Namespace) -> None:
    """Recommend and write."""
    model = read_model(args.model)
    table = listing(
        model,
        _users(args, model),
        args.n,
        filter_already_liked_items=not args.include_seen,
        n_threads=args.n_threads,
    )
    if args.output is None:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))
        return
    write_table(args.output, table)
    print(f"{counted(len(table['user']), 'row')} written to {args.output}", file=sys.stderr)


def _users(args: argparse.Namespace, model: Recommender) -> NDArray[Any]:
    if args.user is None and args.users == "all":
        return model.user_ids.labels
    ids = args.user if args.user is not None else ids_in(args.users)
    return spelled_like(objects(ids), model.user_ids)
