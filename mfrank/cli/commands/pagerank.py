"""Fit a random walk on items to a file of interactions with timestamps, and save the model.

The walk learns to predict each user's last item from the items before it. After Ctrl-C, the best
weights of the complete steps are saved.
"""

from __future__ import annotations

import argparse

from mfrank.arrays import counted
from mfrank.cli.flags import add_flags, given, spec_reader, summaries
from mfrank.cli.inputs import read_left_out, read_table
from mfrank.cli.model_folders import Destination, add_keep_flag
from mfrank.cli.printing import announce, saved_when_fitted, somebody_watches
from mfrank.cli.table_flags import add_leave_out_flag, add_table_flags
from mfrank.models import SupervisedPageRank
from mfrank.pagerank import GBN, GBP, GFN

EXAMPLES = """\
  mfrank pagerank clicks.csv --model walk
  mfrank pagerank clicks.csv --model walk --method gbp:step_size=50,iterations=200 --recent 3
  mfrank pagerank clicks.csv --model walk --untuned
"""

_METHODS = {method.__name__.lower(): method for method in (GBN, GFN, GBP)}
_DEFAULT = SupervisedPageRank().method


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank pagerank``."""
    parser.add_argument("interactions", metavar="FILE", help="the interactions to fit to")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="where to save the model")
    add_keep_flag(parser)
    add_leave_out_flag(parser)
    add_table_flags(parser)
    method = parser.add_argument_group("method", summaries(_METHODS)).add_mutually_exclusive_group()
    method.add_argument(
        "--method",
        type=spec_reader(_METHODS, "method"),
        default=argparse.SUPPRESS,
        metavar="NAME:OPTION=VALUE,...",
        help=f"one of these (default: {_DEFAULT})",
    )
    method.add_argument(
        "--untuned",
        action="store_const",
        const=None,
        dest="method",
        default=argparse.SUPPRESS,
        help="learn nothing; all weights stay 1",
    )
    add_flags(parser.add_argument_group("walk"), SupervisedPageRank, leave_out=["method", "loss"])


def run(args: argparse.Namespace) -> None:
    """Fit and save."""
    destination = Destination.of(args.model)
    model = SupervisedPageRank(**given(args, SupervisedPageRank))
    data = read_table(args, args.interactions)
    left_out = read_left_out(args, data)
    announce("a walk", data)
    with saved_when_fitted(model, destination, left_out, args.keep):
        model.fit(data, show_progress=somebody_watches())
    losses = [record["objective"] for record in model.store.history]
    learned = f"{counted(len(losses), 'step')} to a loss of {losses[-1]:g}" if losses else "untuned"
    print(f"fitted a walk to {data}\n{learned}; saved to {args.model}")
