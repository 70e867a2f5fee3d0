"""Write the nearest items of some items as a table: item, rank, similar, score.

The score is the cosine of the items' factors. For a random walk (mfrank pagerank), it is the
probability of the similar item in a walk that restarts at the item.
"""

from __future__ import annotations

import argparse

from mfrank.cli.flags import add_threads_flag
from mfrank.cli.model_folders import read_model
from mfrank.cli.printing import add_list_flags, check_output, write_lists
from mfrank.cli.typed_ids import as_ids

EXAMPLES = """\
  mfrank similar-items --model model item-9
  mfrank similar-items --model model item-9 item-17 --n 5 --output similar.csv
  mfrank similar-items --model model item-9 --json -
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank similar-items``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument("items", nargs="+", metavar="ITEM", help="an item id")
    add_list_flags(parser, "similar items of each")
    add_threads_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Find and write."""
    check_output(args)
    model = read_model(args.model)
    items = as_ids(args.items, model.item_ids)
    itself = [[item] for item in items]
    answer = model.similar_items(items, N=args.n, filter_items=itself, n_threads=args.n_threads)
    write_lists(("item", items), "similar", answer, args)
