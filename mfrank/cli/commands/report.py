"""Report what users did with the lists of each model of a service, from its journal.

An event is a click on the last list before it that showed its item to its user. Rates are of users,
who are assigned to models: intervals and p-values take a user's lists together.
"""

from __future__ import annotations

import argparse

from mfrank import serving
from mfrank.cli.flags import duration
from mfrank.cli.model_folders import check_holds_model, read_model
from mfrank.cli.printing import add_json_flag, check_json, tell

EXAMPLES = """\
  mfrank serve a=model b=new-model --split a=0.5,b=0.5 --salt autumn --journal j --log-lists 30d
  mfrank report --journal j --since 2026-11-01 --within 12h --kind click --json report.json
  mfrank report --journal j --of third-model
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank report``."""
    parser.add_argument(
        "--journal",
        required=True,
        metavar="FOLDER",
        help="of mfrank serve --journal FOLDER --log-lists TIME",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="date of the first list that counts, such as 2026-11-01 (default: all)",
    )
    parser.add_argument(
        "--within",
        type=duration,
        default="1d",  # argparse reads it, too
        metavar="TIME",
        help="how long after a list an event is a click on it, such as 12h (default: 1d)",
    )
    parser.add_argument(
        "--kind",
        dest="kinds",
        action="append",
        metavar="KIND",
        help="a kind of events that are clicks; may be repeated (default: all)",
    )
    parser.add_argument(
        "--of",
        metavar="MODEL",
        help="estimate the clicks of this model by what mfrank serve --explore has drawn; it must "
        "have learned nothing since",
    )
    add_json_flag(parser, "the report")


def run(args: argparse.Namespace) -> None:
    """Print the report."""
    check_json(args.json)
    if args.of is not None:
        check_holds_model(args.of)
    found = serving.report(
        args.journal,
        since=args.since,
        within=args.within,
        kinds=args.kinds,
        of=None if args.of is None else read_model(args.of),
    )
    tell(found, found.to_dict(), args.json)
