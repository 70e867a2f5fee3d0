"""Explain a user's score of an item as a table: user, item, rank, because, contribution.

Rows are the user's own items and their contributions to the score. For a random walk (mfrank
pagerank), rows are paths from the user's items to the item, and their probabilities.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.als import Explanation
from mfrank.cli.inputs import read_like
from mfrank.cli.model_folders import read_model
from mfrank.cli.printing import add_list_flags, check_output, write, write_json
from mfrank.cli.table_flags import add_table_flags, check_table_flags
from mfrank.cli.typed_ids import as_ids
from mfrank.data import objects
from mfrank.errors import InputValueError
from mfrank.retrieval import Recommender, Table

EXAMPLES = """\
  mfrank explain --model model alice item-9
  mfrank explain --model model alice item-9 --train ratings.csv --n 3
"""

Reasons = Sequence[tuple[Any, float]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank explain``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument("userid", metavar="USER", help="a user id")
    parser.add_argument("itemid", metavar="ITEM", help="an item id")
    parser.add_argument(
        "--train",
        metavar="FILE",
        help="interactions of the user (default: those of the fit)",
    )
    add_list_flags(parser, "maximum number of reasons")
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Explain and write."""
    check_output(args)
    check_table_flags(args, "--train", args.train)
    model = read_model(args.model)
    user = as_ids([args.userid], model.user_ids).tolist()[0]
    item = as_ids([args.itemid], model.item_ids).tolist()[0]
    content: dict[str, Any] = {"user": user, "item": item}
    given = _items_of(user, args, model) if args.train else None
    explained = model.explain(user, given, item, args.n)
    if isinstance(explained, Explanation):
        score, reasons, baseline = explained.score, explained.contributions, explained.baseline
        others = score - baseline - _sum(reasons)
        rest = f"{others:.6g} of the user's other items + {baseline:.6g} of the baseline"
        told = [{"id": each, "contribution": part} for each, part in reasons]
        content |= {"score": score, "baseline": baseline, "contributions": told, "others": others}
    else:
        score, paths = explained
        reasons = [(" > ".join(map(str, path.items)), path.mass) for path in paths]
        others = score - _sum(reasons)
        rest = f"{others:.6g} of other paths"
        told = [{"items": list(path.items), "mass": path.mass} for path in paths]
        content |= {"score": score, "paths": told, "others": others}
    if args.json is not None:
        write_json(content, args.json)
        return
    print(
        f"mfrank: score {score:.6g} = {_sum(reasons):.6g} of these rows + {rest}", file=sys.stderr
    )
    write(_table(user, item, reasons), args.output)


def _sum(reasons: Reasons) -> float:
    return sum(contribution for _, contribution in reasons)


def _items_of(user: Any, args: argparse.Namespace, model: Recommender) -> sp.csr_array:
    """The user's row of the file's interactions."""
    data, _ = read_like(args, args.train, model)
    row: sp.csr_array = data.user_items[model.user_ids.rows([user])]
    if not row.nnz:
        raise InputValueError(
            f"{args.train} has no interaction of {user!r} with a known item", place=args.train
        )
    return row


def _table(user: Any, item: Any, reasons: Reasons) -> Table:
    return {
        "user": objects([user] * len(reasons)),
        "item": objects([item] * len(reasons)),
        "rank": np.arange(1, len(reasons) + 1),
        "because": objects([reason for reason, _ in reasons]),
        "contribution": np.array([amount for _, amount in reasons]),
    }
