"""Serve a model over HTTP, in JSON: recommend, similar, score, explain; see its /docs.

GET /recommend/alice?n=10 answers {"user": "alice", "items": [{"id": ..., "score": ...}, ...]}.

A newer model that is saved to the folder is picked up within a second, or at once on SIGHUP, with
no downtime. A failed load is retried, and /health shows the reason. On SIGTERM and Ctrl-C, the
server finishes open requests, within 15 seconds, and ends. Keys for --key-file are made by mfrank
new-key.
"""

from __future__ import annotations

import argparse
import os
import re
from functools import partial
from importlib import import_module
from typing import Any

from mfrank import serving
from mfrank.arrays import shown
from mfrank.cli.flags import add_address_flags, add_flags, duration, given
from mfrank.cli.model_folders import check_holds_model
from mfrank.cli.table_flags import kind_weights
from mfrank.errors import InputValueError
from mfrank.serving.signals import end_soon, handled

EXAMPLES = """\
  mfrank serve model --port 8000
  mfrank serve model --host 0.0.0.0 --max-seconds 2 --max-batch 100
  mfrank serve model --allow-host api.example.com
  mfrank serve model --key-file keys --log requests.jsonl --drain-seconds 5
  mfrank serve model --journal journal --remember-shown 1d --shown-file shown.sqlite
  mfrank serve model --items items.csv
  mfrank serve a=model b=model-b --split a=0.9,b=0.1 --salt autumn
  mfrank serve model --workers 4
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank serve``."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="+",
        help="the folder of a saved model; or NAME=FOLDER of several, which answer different users",
    )
    add_address_flags(parser, 8000)
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="INT",
        help="processes that answer at this address and share the model by --mmap; one that is "
        "killed is begun anew; each has its own limits, also of keys (default: 1)",
    )
    parser.add_argument(
        "--mmap",
        action="store_true",
        help="memory-map the model, so that services on one machine share it",
    )
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="ask every request for a key of this file; changes are read within a second",
    )
    parser.add_argument(
        "--allow-origin",
        dest="allow_origins",
        action="append",
        default=[],
        metavar="NAME",
        help="an origin of web pages that may read answers, such as https://shop.example.com; may "
        "be repeated",
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="append a JSON line for each request, without ids of users; - is the standard output",
    )
    parser.add_argument(
        "--root-path",
        metavar="NAME",
        help="prefix, such as /recommender, that a proxy in front removes from paths",
    )
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=0.0,
        metavar="FLOAT",
        help="seconds after SIGTERM in which /ready answers 503 and requests are still answered "
        "(default: 0)",
    )
    parser.add_argument(
        "--journal",
        metavar="FOLDER",
        help="take events by POST /events into this folder, from which mfrank update --journal "
        "learns; they change the lists of their users at once",
    )
    parser.add_argument(
        "--weights",
        type=kind_weights,
        metavar="KIND=NUMBER,...",
        help="what an event of each kind counts in place of its value, as for mfrank update "
        "(default: what it counted in the fit)",
    )
    parser.add_argument(
        "--remember-shown",
        type=duration,
        metavar="TIME",
        help="leave out of lists what was shown to their users in this time, such as 1d, 12h, 30m "
        "or 90s",
    )
    parser.add_argument(
        "--shown-file",
        metavar="FILE",
        help="SQLite file for this, which several services may share (default: memory)",
    )
    parser.add_argument(
        "--items",
        metavar="FILE",
        help="a table of items, .csv, .tsv or .parquet, by path or URL, with ids in a column such "
        "as item_id: requests choose by its columns (where=) and get them (fields=); columns "
        "hidden, available_from and available_until say what is listed; read again when it "
        "changes",
    )
    parser.add_argument(
        "--items-query",
        metavar="TEXT",
        help="where --items is the URL of a database, such as postgresql+psycopg://user@host/shop: "
        "a SELECT or the name of a table, read again every minute",
    )
    parser.add_argument(
        "--split",
        type=_split,
        metavar="NAME=SHARE,...",
        help="the share of the users that each of several models answers, such as a=0.9,b=0.1",
    )
    parser.add_argument(
        "--salt",
        metavar="NAME",
        help="a name of the experiment: another one divides the users independently",
    )
    parser.add_argument(
        "--log-lists",
        type=duration,
        metavar="TIME",
        help="keep in the journal for this time, such as 30d, which lists were shown to whom, for "
        "mfrank report",
    )
    parser.add_argument(
        "--explore",
        type=float,
        metavar="SHARE",
        help="open each place of a list with this probability to the items that follow it; by what "
        "becomes of them mfrank report judges other models",
    )
    parser.add_argument(
        "--explore-depth",
        type=int,
        default=100,
        metavar="INT",
        help="how many items after the list --explore draws from (default: 100)",
    )
    add_flags(parser.add_argument_group("limits of a request"), serving.Limits)


def run(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    with handled(starting=True):
        model = _models(args.model)
        for folder in model.values() if isinstance(model, dict) else [model]:
            check_holds_model(folder)
        limits = serving.Limits(**given(args, serving.Limits))
        make = partial(
            _application,
            getattr(args, "imported", []),
            model,
            limits=limits,
            allow_hosts=args.allow_hosts,
            mmap=args.mmap or args.workers > 1,
            key_file=args.key_file,
            allow_origins=args.allow_origins,
            log=args.log,
            journal=args.journal,
            weights=args.weights,
            remember_shown=args.remember_shown,
            shown_file=args.shown_file,
            items=args.items,
            items_query=args.items_query,
            split=args.split,
            salt=args.salt,
            log_lists=args.log_lists,
            explore=args.explore,
            explore_depth=args.explore_depth,
        )
        try:
            serving.run(
                make if args.workers > 1 else make(),
                host=args.host,
                port=args.port,
                root_path=args.root_path or "",
                drain_seconds=args.drain_seconds,
                workers=args.workers,
            )
        except KeyboardInterrupt:
            end_soon(130)
            raise


def _application(imported: list[str], model: Any, **options: Any) -> Any:
    """The application, in a process that has not yet imported the modules of ``--import``."""
    for name in imported:
        import_module(name)
    return serving.app(model, **options)


_NAMED = re.compile(r"([A-Za-z0-9._-]{1,64})=(.+)", re.DOTALL)


def _models(given: list[str]) -> str | dict[str, str]:
    """A folder, or the folders of several models by their names."""
    found = [None if os.path.exists(each) else _NAMED.fullmatch(each) for each in given]
    if len(given) == 1 and found[0] is None:
        return given[0]
    models: dict[str, str] = {}
    for text, named in zip(given, found, strict=True):
        if named is None:
            raise InputValueError(
                f"`model`: each of several needs a name, got {shown(text)}", "write NAME=FOLDER"
            )
        if named[1] in models:
            raise InputValueError(f"`model`: the name {named[1]} is given twice", "use another")
        models[named[1]] = named[2]
    return models


def _split(text: str) -> dict[str, float]:
    """Shares such as a=0.9,b=0.1."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            number = float(share)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"expected shares such as a=0.9,b=0.1, got {text}"
            ) from None
        if name in shares:
            raise argparse.ArgumentTypeError(f"{name} is given twice in {text}")
        shares[name] = number
    return shares
