"""Update a saved model with new interactions, including new users and items.

An update is much faster than a fit: it makes only users and items with new interactions anew, and
most others keep their factors. So fit again from time to time. The folder of the model is replaced
at the end; a server picks the new model up. Concurrent updates wait for each other. With --batch,
a repeated update changes nothing.

With --journal in place of FILE, the new interactions are the events of mfrank serve --journal that
the model has not had: none counts twice and none is lost, also if an update is killed.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from time import perf_counter
from typing import Any

from mfrank.arrays import counted
from mfrank.cli.inputs import read_journal, read_left_out, read_spelled_like
from mfrank.cli.model_folders import add_keep_flag, model_to_change
from mfrank.cli.table_flags import add_leave_out_flag, add_table_flags, refuse_sums
from mfrank.errors import InputValueError
from mfrank.models import ALS, Blend
from mfrank.retrieval import Recommender
from mfrank.serving import EventJournal

EXAMPLES = """\
  mfrank update today.csv --model model
  mfrank update today.csv --model model --batch 2026-11-25
  mfrank update today.csv --model model --output newer
  mfrank update today.csv --model model --batch 2026-11-25 --keep 3
  mfrank update today.csv --model model --item-features new-items.csv
  mfrank update today.csv --model model --train before.csv --decay 0.9
  mfrank update --journal journal --model model --keep 3
"""


_OF_ALS = ("alternations", "decay", "user-features", "item-features")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank update``."""
    parser.add_argument(
        "interactions", metavar="FILE", nargs="?", help="the new interactions, or --journal"
    )
    parser.add_argument(
        "--journal",
        metavar="FOLDER",
        help="the events of mfrank serve --journal FOLDER that the model has not had",
    )
    parser.add_argument(
        "--model", required=True, metavar="FOLDER", help="a saved model, but of mfrank pagerank"
    )
    parser.add_argument(
        "--output", metavar="FOLDER", help="where to save the result (default: the same folder)"
    )
    parser.add_argument(
        "--batch",
        metavar="NAME",
        help="name of these interactions; a model that has a batch of this name does not change",
    )
    parser.add_argument(
        "--train",
        metavar="FILE",
        help="all old interactions (default: those of the model)",
    )
    parser.add_argument(
        "--alternations",
        type=int,
        metavar="INT",
        help="for models of mfrank fit: number of times that items and users are solved in turn "
        "(default: 3)",
    )
    parser.add_argument(
        "--decay",
        type=float,
        metavar="FLOAT",
        help="for models of mfrank fit under objectives that use values: multiply all old values "
        "by this, at most 1 (default: 1.0)",
    )
    for side in ("user", "item"):
        parser.add_argument(
            f"--{side}-features",
            metavar="FILE",
            help=f"table of features of new {side}s, with the columns of the fit",
        )
    add_keep_flag(parser)
    add_leave_out_flag(parser)
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Load, update and save."""
    output = args.output or args.model
    journal = _journal(args)
    with model_to_change(args.model, output) as (model, destination):
        if type(model).partial_fit is Recommender.partial_fit:
            raise InputValueError(
                f"{args.model} is of {type(model).__name__}, which cannot be updated",
                "fit it to all interactions",
                place=args.model,
            )
        of_als = _OF_ALS if isinstance(model, Blend) else ("train", *_OF_ALS)
        used = [f"--{name}" for name in of_als if _given(args, name) is not None]
        if used and not isinstance(model, ALS):
            raise InputValueError(
                f"{args.model} is of {type(model).__name__}, and {used[0]} is for models of mfrank "
                "fit",
                place=args.model,
            )
        told = _update(model, args, journal)
        if told or output != args.model:
            destination.save(model, args.keep)
            print(f"{told}saved to {output}")


def _given(args: argparse.Namespace, name: str) -> Any:
    return getattr(args, name.replace("-", "_"))


def _journal(args: argparse.Namespace) -> EventJournal | None:
    """The journal to read, if one is named; of it and a file there must be one."""
    if (args.journal is None) == (args.interactions is None):
        raise ValueError("update takes either FILE or --journal FOLDER")
    if args.journal is None:
        return None
    for flag, given in (
        ("--batch", args.batch),
        ("--leave-out-events", args.leave_out_events),
        ("--leave-out", args.leave_out),
    ):
        if given is not None:
            raise ValueError(f"{flag} goes with FILE, not with --journal")
    return EventJournal(args.journal, create=False)


def _update(model: Any, args: argparse.Namespace, journal: EventJournal | None) -> str:
    """Update the model; report on it, with nothing if it had the batch."""
    refuse_sums(args, "an update has only the new events of a sum, and their ages: fit anew")
    before, began = model.store, perf_counter()
    options: dict[str, Any] = {}
    if args.train is not None:
        options["user_items"] = read_spelled_like(args, args.train, model)
    if isinstance(model, ALS):
        options |= {
            name.replace("-", "_"): value
            for name in _OF_ALS
            if (value := _given(args, name)) is not None
        }
    if journal is None:
        data: Any = read_spelled_like(args, args.interactions, model)
        left_out = read_left_out(args, data)
        model.partial_fit(data, batch=args.batch, leave_out=left_out, **options)
    else:
        if journal.last and not journal.position(model):
            print(
                f"mfrank: {args.journal}: the model has had no event of this journal, and learns "
                "from all",
                file=sys.stderr,
            )
        read = partial(read_journal, args, fitted=model)
        n_events = journal.update(model, read=read, **options)
        data = f"{counted(n_events, 'event')} of {args.journal}"
        if not n_events:
            print(f"{args.journal}: the model has had all events")
    if model.store is before:
        return ""
    users = counted(model.store.n_users - before.n_users, "new user")
    items = counted(model.store.n_items - before.n_items, "new item")
    last = dict(model.store.history[-1]) if model.store.history else {}
    rows = counted(int(last["rows"] or 0), "row") + " solved" if "rows" in last else "done"
    seconds = last.get("seconds", perf_counter() - began)
    return f"updated with {data}: {users}, {items}\n{rows} in {seconds:.2f} s; "
