"""Replace a saved model by the version before it, which --keep of an update, a fit or tune kept.

It is atomic, and a server takes the earlier version up within a second. The version that was
current is removed. An update that it had, of any --batch, can be repeated.
"""

from __future__ import annotations

import argparse

from mfrank.cli.model_folders import check_holds_model, read_model
from mfrank.models import roll_back

EXAMPLES = """\
  mfrank update today.csv --model model --keep 3
  mfrank evaluate --model model --against model@1 --test tomorrow.csv --alert 3
  mfrank rollback --model model
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank rollback``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")


def run(args: argparse.Namespace) -> None:
    """Roll back and print what is there now."""
    check_holds_model(args.model)
    roll_back(args.model)
    print(f"{args.model} is again {read_model(args.model)}")
