"""Serve a model over HTTP, in JSON: recommend, similar, score, explain; see its /docs.

GET /recommend/alice?n=10 answers {"user": "alice", "items": [{"id": ..., "score": ...}, ...]}.

A newer model that is saved to the folder is picked up within a second, or at once on SIGHUP, with
no downtime. A failed load is retried, and /health shows the reason. On SIGTERM and Ctrl-C, the
server finishes open requests, within 15 seconds, and ends. Keys for --key-file are made by mfrank
new-key.
"""

from __future__ import annotations

import argparse
import math

from mfrank import serving
from mfrank.cli.flags import add_address_flags, add_flags, given
from mfrank.cli.inputs import check_holds_model, kind_weights
from mfrank.serving.signals import end_soon, handled

EXAMPLES = """\
  mfrank serve model --port 8000
  mfrank serve model --host 0.0.0.0 --max-seconds 2 --max-batch 100
  mfrank serve model --allow-host api.example.com
  mfrank serve model --key-file keys --log requests.jsonl --drain-seconds 5
  mfrank serve model --journal journal --remember-shown 1d --shown-file shown.sqlite
  mfrank serve model --items items.csv
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank serve``."""
    parser.add_argument("model", metavar="MODEL", help="the folder of a saved model")
    add_address_flags(parser, 8000)
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
        help="what an event of each kind counts in place of its value, as for mfrank update",
    )
    parser.add_argument(
        "--remember-shown",
        type=_duration,
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
        help="a table of items, .csv, .tsv or .parquet, with ids in a column such as item_id: "
        "requests choose by its columns (where=) and get them (fields=); columns hidden, "
        "available_from and available_until say what is listed; read again when it changes",
    )
    add_flags(parser.add_argument_group("limits of a request"), serving.Limits)


def run(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    with handled(starting=True):
        check_holds_model(args.model)
        limits = serving.Limits(**given(args, serving.Limits))
        application = serving.app(
            args.model,
            limits=limits,
            allow_hosts=args.allow_hosts,
            mmap=args.mmap,
            key_file=args.key_file,
            allow_origins=args.allow_origins,
            log=args.log,
            journal=args.journal,
            weights=args.weights,
            remember_shown=args.remember_shown,
            shown_file=args.shown_file,
            items=args.items,
        )
        try:
            serving.run(
                application,
                host=args.host,
                port=args.port,
                root_path=args.root_path or "",
                drain_seconds=args.drain_seconds,
            )
        except KeyboardInterrupt:
            end_soon(130)
            raise


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _duration(text: str) -> float:
    """A time such as 1d, in seconds."""
    try:
        seconds = float(text[:-1]) * _SECONDS[text[-1:]]
    except (KeyError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected a time such as 1d, 12h, 30m or 90s, got {text}")
    return seconds
