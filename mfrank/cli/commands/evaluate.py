"""Rank all items for the users of a test file and score the rankings.

Seen items (of the training data) are excluded.
"""

from __future__ import annotations

import argparse
import sys

from mfrank.arrays import counted
from mfrank.cli.flags import add_cluster_flag, add_steering_flags, add_threads_flag, steering_of
from mfrank.cli.inputs import add_table_flags, add_target_flag, read_like, read_model
from mfrank.cli.printing import add_json_flag, check_json, tell
from mfrank.cluster import check_cluster
from mfrank.data import without_password
from mfrank.errors import InputValueError
from mfrank.evaluation import DEFAULT_METRICS, evaluate

EXAMPLES = """\
  mfrank evaluate --model model --test test.csv
  mfrank evaluate --model model --test test.csv --metric ndcg@10 --metric recall@20 --json scores.json
  mfrank evaluate --model model --test june.csv --target purchase
  mfrank evaluate --model model --test test.csv --metric ndcg@10 --metric coverage@10 --diversity 0.3
"""  # noqa: E501 (a command line)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank evaluate``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument("--test", required=True, metavar="FILE", help="held-out interactions")
    add_target_flag(parser, "held out, and in --train, are only events of this kind")
    ranked = parser.add_mutually_exclusive_group()
    ranked.add_argument(
        "--train",
        metavar="FILE",
        help="interactions to exclude from the ranking (default: those of the fit)",
    )
    ranked.add_argument(
        "--include-seen", action="store_true", help="also rank the items that users had in the fit"
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME@K",
        help="metric such as ndcg@10; may be repeated "
        f"(default: {' '.join(map(str, DEFAULT_METRICS)).lower()})",
    )
    add_json_flag(parser, "the scores")
    add_threads_flag(parser)
    add_steering_flags(parser)
    add_table_flags(parser)
    add_cluster_flag(parser, "evaluate users", "the numbers are the same")


def run(args: argparse.Namespace) -> None:
    """Evaluate and print."""
    check_json(args.json)
    check_cluster(args.cluster)
    if args.target is not None and args.weights is not None:
        raise ValueError("--weights is for all kinds of events, and --target reads one")
    model = read_model(args.model)
    if model.seen is None and not (args.train or args.include_seen):
        raise InputValueError(
            "the model was saved without the interactions of its fit:",
            "pass their file with --train, or rank every item with --include-seen",
            place=args.model,
        )
    test, unknown = read_like(args, args.test, model)
    if unknown:
        left_out = counted(unknown, "test interaction")
        print(f"mfrank: {left_out} left out: users or items unknown", file=sys.stderr)
    scores = evaluate(
        model,
        test,
        train=read_like(args, args.train, model)[0] if args.train else None,
        filter_already_liked_items=not args.include_seen,
        metrics=args.metric or DEFAULT_METRICS,
        n_threads=args.n_threads,
        steer=steering_of(args, model.item_ids),
        cluster=args.cluster,
    )
    if not scores.n_users:
        name = without_password(args.test)
        seen = "" if args.include_seen else "; items of the fit are not, without --include-seen"
        raise InputValueError(
            f"nothing to evaluate: no user of {name} has a relevant item that is ranked{seen}",
            place=name,
        )
    tell(scores, scores.to_dict(), args.json)
