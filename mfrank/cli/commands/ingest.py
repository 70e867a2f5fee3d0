"""Write many files of interactions to a folder, which other commands read like a file.

Files are read in portions and the folder is memory-mapped, so both may be larger than memory. The
same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mfrank.arrays import counted
from mfrank.cli.inputs import read_query
from mfrank.cli.printing import somebody_watches
from mfrank.cli.table_flags import add_table_flags, columns_of, dialect_of, events_of
from mfrank.data import EventWeights, IngestPlan, Interactions, is_database
from mfrank.files import path_of

EXAMPLES = """\
  mfrank ingest plays-*.parquet --folder plays --dry-run
  mfrank ingest plays-*.parquet --folder plays
  mfrank ingest sqlite:///shop.db --query plays --folder plays
  mfrank fit plays --model model --objective ials
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank ingest``."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of one layout, of any size")
    parser.add_argument(
        "--folder", required=True, metavar="FOLDER", help="where to write the interactions"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only print the memory and disk space that it would take",
    )
    add_table_flags(parser, at_least=False)


def run(args: argparse.Namespace) -> None:
    """Read, merge and write, or print the cost."""
    if args.query is not None or any(map(is_database, args.files)):
        if len(args.files) > 1:
            raise ValueError("a database is read by itself: one URL, and no files")
        if args.dry_run:
            raise ValueError(
                "--dry-run is of files: what rows a query has shows only when it is read; to try "
                "some of them, --query 'SELECT ... LIMIT 1000' with another --folder"
            )
        how = {"folder": args.folder, "show_progress": somebody_watches()}
        data = read_query(args, args.files[0], **how)
        print(_told(data, args.folder))
        return
    if args.dry_run:
        reading = {"ids": args.ids, "dialect": dialect_of(args)}
        events = events_of(args)
        reading |= {"events": EventWeights.of(events.pop("event"), **events)}
        print(IngestPlan.of(args.files, path_of(args.folder), columns_of(args), **reading).told())
        return
    data = Interactions.ingest(
        args.files,
        args.folder,
        **columns_of(args),
        **events_of(args),
        timestamp_unit=args.timestamp_unit,
        **asdict(dialect_of(args)),
        ids=args.ids,
        duplicates=args.duplicates,
        show_progress=somebody_watches(),
    )
    print(f"{_told(data, args.folder)} of {counted(len(args.files), 'file')}")


def _told(data: Interactions, folder: str) -> str:
    size = f"{counted(data.n_users, 'user')} x {counted(data.n_items, 'item')}"
    return f"{folder}: {size}, {counted(data.nnz, 'entry')}"
