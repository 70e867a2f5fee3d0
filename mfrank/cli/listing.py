"""Ranked lists as tables, one row per place of a list, and how commands write them."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import Any

from numpy.typing import NDArray

from mfrank.arrays.counted import counted
from mfrank.cli.folders import check_writable
from mfrank.data.table_files import check_table_file, write_table
from mfrank.retrieval.list_tables import Table, list_table
from mfrank.retrieval.recommender import Recommender

__all__ = ["Table", "add_list_flags", "check_output", "listing", "similar_items", "write"]


def listing(model: Recommender, users: NDArray[Any], n: int = 10, **options: Any) -> Table:
    """Columns user, rank (from 1), item and score of the users' best ``n`` items.

    ``options`` are passed to :meth:`mfrank.Recommender.recommend`. Shorter lists have fewer rows.
    """
    items, scores = model.recommend(users, N=n, **options)
    return list_table(("user", users), ("item", items), scores)


def similar_items(model: Recommender, items: NDArray[Any], n: int, **options: Any) -> Table:
    """Columns item, rank, similar and score of the ``n`` items nearest to each, without itself.

    ``options`` are passed to :meth:`mfrank.Recommender.similar_items`.
    """
    own = [[item] for item in items]
    similar, scores = model.similar_items(items, N=n, filter_items=own, **options)
    return list_table(("item", items), ("similar", similar), scores)


def add_list_flags(parser: argparse.ArgumentParser, of_each: str) -> None:
    """Add the flags for the length of lists and the file they are written to."""
    parser.add_argument("--n", type=int, default=10, metavar="INT", help=f"{of_each} (default: 10)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help=".csv, .tsv or .txt (also with .gz), or .parquet (default: CSV on stdout)",
    )


def check_output(output: str | None) -> None:
    """Raise if the lists could not be written to this file, before they are made."""
    if output is not None:
        check_table_file(output)
        check_writable(output)


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
