"""Ranked lists as tables, one row per place of a list, or as JSON, and how commands write them."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import Any, get_args

from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.cli.folders import check_writable
from mfrank.cli.json_output import add_json_flag, check_json, write_json
from mfrank.data.table_writer import check_table_file, write_table
from mfrank.retrieval.answers import Answer, Fallback
from mfrank.retrieval.list_tables import Table, list_table
from mfrank.retrieval.recommender import Recommender

__all__ = [
    "Table",
    "add_fallback_flag",
    "add_list_flags",
    "check_output",
    "listing",
    "write",
    "write_lists",
]


def listing(model: Recommender, users: NDArray[Any], n: int = 10, **options: Any) -> Table:
    """Columns user, rank (from 1), item and score of the users' best ``n`` items.

    ``options`` are passed to :meth:`mfrank.Recommender.recommend`. Shorter lists have fewer rows.
    """
    items, scores = model.recommend(users, N=n, **options)
    return list_table(("user", users), ("item", items), scores)


def add_list_flags(parser: argparse.ArgumentParser, of_each: str) -> None:
    """Add the flags for the length of lists and the files they are written to."""
    parser.add_argument("--n", type=int, default=10, metavar="INT", help=f"{of_each} (default: 10)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--output",
        metavar="FILE",
        help=".csv, .tsv or .txt (also with .gz), or .parquet (default: CSV on stdout)",
    )
    add_json_flag(where, "the result", "the CSV")


def add_fallback_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag for users with nothing to go by."""
    parser.add_argument(
        "--fallback",
        choices=get_args(Fallback),
        default="none",
        help="what users with nothing to go by get, and what follows in lists that the model does "
        "not fill: popularity is the items that most users have (default: none, an empty place)",
    )


def check_output(args: argparse.Namespace) -> None:
    """Raise if the lists could not be written to this file, before they are made."""
    check_json(args.json)
    if args.output is not None:
        check_table_file(args.output)
        check_writable(args.output)


def write_lists(
    asked: tuple[str, NDArray[Any]], listed: str, answer: Answer, args: argparse.Namespace
) -> None:
    """Write the list of each id that was asked: columns asked, rank (from 1), listed and score.

    As JSON it is ``[{asked: id, "items": [{"id": ..., "score": ...}, ...]}, ...]``.
    """
    name, ids = asked
    if args.json is None:
        write(list_table(asked, (listed, answer.ids), answer.scores), args.output)
        return
    lists = zip(ids.tolist(), answer.to_dicts(), strict=True)
    write_json([{name: one, "items": items} for one, items in lists], args.json)


def write(table: Table, output: str | None) -> None:
    """Write the table to a file in the format of its suffix, or as CSV to stdout."""
    if output is None:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))
        return
    write_table(output, table)
    rows = counted(len(next(iter(table.values()))), "row")
    print(f"{rows} written to {output}", file=sys.stderr)
