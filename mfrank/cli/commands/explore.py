"""Explore a model, or compare two, in a browser: lists with reasons, levers, quality, a map.

Every page is a URL; ?format=json returns JSON. Nothing is loaded from other computers.
"""

from __future__ import annotations

import argparse
import sys

from mfrank import pages, serving
from mfrank.arrays import counted
from mfrank.cli.flags import add_address_flags
from mfrank.cli.inputs import read_like
from mfrank.cli.model_folders import read_model
from mfrank.cli.table_flags import add_table_flags, check_table_flags
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
    parser.add_argument("model2", metavar="MODEL2", nargs="?", help="a second model, to compare")
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="interactions; the ones that the model has not seen are held out and mark hits",
    )
    parser.add_argument(
        "--items",
        metavar="FILE",
        help=".csv or .tsv with a header: ids of items, their names and further columns",
    )
    add_address_flags(parser, 8001)
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Serve the site until stopped."""
    check_table_flags(args, "--data", args.data)
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
