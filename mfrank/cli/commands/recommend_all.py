"""Write the best items of all users to a folder of files, in bounded memory.

The same command resumes an interrupted run. Seen items (of the training data) are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from mfrank.arrays import counted, sized
from mfrank.cli.flags import add_cluster_flag, add_steering_flags, add_threads_flag, steering_of
from mfrank.cli.model_folders import check_holds_model
from mfrank.cli.printing import add_fallback_flag, somebody_watches
from mfrank.cli.typed_ids import as_ids, ids_in
from mfrank.cluster import check_cluster
from mfrank.data import Ids
from mfrank.errors import InputValueError
from mfrank.files import path_of
from mfrank.models import load
from mfrank.retrieval import AllLists, ListFormat

EXAMPLES = """\
  mfrank recommend-all --model model --folder lists
  mfrank recommend-all --model model --folder lists --n 100 --format csv --dry-run
  mfrank recommend-all --model model --folder lists --cluster tcp://10.0.0.1:8786
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank recommend-all``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument(
        "--folder", required=True, metavar="FOLDER", help="a new or empty folder, or one to resume"
    )
    parser.add_argument(
        "--n", type=int, default=10, metavar="INT", help="items per user (default: 10)"
    )
    parser.add_argument(
        "--format",
        choices=get_args(ListFormat),
        default="parquet",
        help="format of the files (default: parquet)",
    )
    parser.add_argument(
        "--include-seen",
        action="store_true",
        help="also recommend the items that users had in the fit",
    )
    add_fallback_flag(parser)
    for flag, what in (("--filter-items", "never to recommend"), ("--items", "to recommend only")):
        parser.add_argument(
            flag, metavar="FILE", help=f"text file of item ids {what}, one per line"
        )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only print the number of users and lists, and the bytes",
    )
    add_threads_flag(parser)
    add_steering_flags(parser)
    add_cluster_flag(parser, "compute and write the lists", "the files are the same")


def run(args: argparse.Namespace) -> None:
    """Recommend and write, or print the cost."""
    check_holds_model(args.model)
    check_cluster(args.cluster)
    # Mapped: the factors and the seen items of a block of users are read when it is their turn.
    model = load(args.model, mmap=True, verify=True)
    options = {
        "user_items": None,
        "filter_already_liked_items": not args.include_seen,
        "filter_items": _items("--filter-items", args.filter_items, model.item_ids),
        "recalculate_user": False,
        "items": _only(args.items, model.item_ids),
        "by_row": False,
        "on_unknown": "error",
        "fallback": args.fallback,
        "n_threads": args.n_threads,
        "steer": steering_of(args, model.item_ids),
    }
    lists, folder = AllLists(model, args.n, args.format, options), path_of(args.folder)
    if args.dry_run:
        print(_told(lists, folder))
        return
    lists.write(folder, show_progress=somebody_watches(), cluster=args.cluster)
    users, files = counted(lists.n_users, "user"), counted(len(lists.names), "file")
    print(f"{folder}: lists of {users} in {files}")


def _items(flag: str, path: str | None, known: Ids) -> Any:
    return None if path is None else as_ids(ids_in(path, flag), known)


def _only(path: str | None, known: Ids) -> Any:
    """Items of a file that alone are recommended; ValueError if there are none."""
    items = _items("--items", path, known)
    if items is not None and not len(items):
        raise InputValueError(
            f"--items: {path} has no ids, so that no item could be recommended", place=path
        )
    return items


def _told(lists: AllLists, folder: Path) -> str:
    plan = lists.plan(folder)
    return (
        f"{counted(plan.users, 'user')}, lists of up to {lists.n}: about "
        f"{counted(plan.rows, 'row')}\n"
        f"{folder}: {counted(plan.files, 'file')} of {len(lists.names):,} to write; all take about "
        f"{sized(plan.bytes_on_disk)} on the disk\n"
        f"memory: about {sized(plan.bytes_of_memory)} beside the model, which is mapped"
    )
