"""Rank all items for the users of a test file and score the rankings.

Items that a user had in the fit are not ranked.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mfrank.cli.inputs import add_table_flags, read_like
from mfrank.data.drafts import replacing
from mfrank.evaluation.evaluate import DEFAULT_METRICS, evaluate
from mfrank.models import load
from mfrank.retrieval.seen import unpack
from mfrank.store.factors import FactorStore

EXAMPLES = """\
  mfrank evaluate --model model --test test.csv
  mfrank evaluate --model model --test test.csv --metric ndcg@10 --metric recall@20 --json scores.json
"""  # noqa: E501 (a command line)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank evaluate``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument(
        "--test", required=True, metavar="FILE", help="interactions that the model is to find"
    )
    parser.add_argument(
        "--train",
        metavar="FILE",
        help="interactions not to rank (default: those of the fit)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME@K",
        help="such as ndcg@10; may be repeated "
        f"(default: {' '.join(map(str, DEFAULT_METRICS)).lower()})",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the scores there")
    parser.add_argument(
        "--n-threads", type=int, default=0, metavar="INT", help="0 takes every core (default: 0)"
    )
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluate and print."""
    store, seen = unpack(FactorStore.load(args.model))
    ids = store.user_ids, store.item_ids
    test, unknown = read_like(args, args.test, *ids)
    if unknown:
        print(
            f"mfrank: {unknown:,} test interactions left out: users or items unknown to the model",
            file=sys.stderr,
        )
    train = read_like(args, args.train, *ids)[0].user_items if args.train else seen
    scores = evaluate(
        load(args.model),
        test,
        train=train,
        metrics=args.metric or DEFAULT_METRICS,
        n_threads=args.n_threads,
    )
    if not scores.n_users:
        raise ValueError(f"nothing to evaluate: {args.test} has only what users had in the fit")
    print(scores)
    if args.json:
        with replacing(Path(args.json)) as draft:
            draft.write_text(json.dumps(scores.to_dict(), indent=2) + "\n", encoding="utf-8")
