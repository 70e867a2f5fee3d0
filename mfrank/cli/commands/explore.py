"""Look at one model, or compare two, in a browser: lists and why, levers, whom it serves, a map.

Every page is a URL, and answers in JSON with ?format=json. Nothing is loaded from another computer.
"""

from __future__ import annotations

import argparse
import sys

from mfrank import pages, serving
from mfrank.arrays import counted
from mfrank.cli.flags import add_address_flags
from mfrank.cli.inputs import add_table_flags, read_like, read_model
from mfrank.data import Interactions
from mfrank.files import path_of
from mfrank.retrieval import Recommender

EXAMPLES = """\
  mfrank explore model
  mfrank explore model other-model --data ratings.csv --items items.csv
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank explore``."""
    parser.add_argument("model", metavar="MODEL", help="the folder of a saved model")
    parser.add_argument(
        "model2", metavar="MODEL2", nargs="?", help="a second one to compare it with"
    )
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="interactions: what the model has not seen of them is held out, and tells hits",
    )
    parser.add_argument(
        "--items",
        metavar="FILE",
        help=".csv or .tsv with a header: ids of items, their names, and more of them",
    )
    add_address_flags(parser, 8001)
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Serve the site until stopped."""
    folders = [args.model] if args.model2 is None else [args.model, args.model2]
    models = {name: read_model(each) for name, each in zip(_names(folders), folders, strict=True)}
    first = next(iter(models.values()))
    data = None if args.data is None else _data(args, first)
    site = pages.app(models, data, args.items, allow_hosts=args.allow_hosts)
    serving.run(site, host=args.host, port=args.port)


def _names(folders: list[str]) -> list[str]:
    """The folders' own names; all of their paths if these are the same."""
    short = [path_of(folder).resolve().name for folder in folders]
    return (
        short
        if len(set(short)) == len(folders)
        else [f"{n}. {f}" for n, f in enumerate(folders, 1)]
    )


def _data(args: argparse.Namespace, model: Recommender) -> Interactions:
    matched, unknown = read_like(args, args.data, model)
    if unknown:
        left_out = counted(unknown, "interaction")
        print(f"mfrank: {left_out} of users or items that are unknown left out", file=sys.stderr)
    return matched
