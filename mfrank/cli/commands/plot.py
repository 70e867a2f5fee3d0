"""Draw a picture of saved models or of a search, by matplotlib (pip install mfrank[plot]).

convergence: the epochs of saved models. leaderboard and cost: the trials of mfrank tune --json.
activity and exposure: saved models, ranked for the users of a test file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from mfrank.cli.inputs import read_like
from mfrank.cli.model_folders import check_writable, read_model
from mfrank.cli.printing import tell_unknown
from mfrank.cli.table_flags import add_table_flags, check_table_flags
from mfrank.data import Interactions
from mfrank.errors import InputValueError, unreadable
from mfrank.evaluation import Evaluation, evaluate
from mfrank.files import path_of
from mfrank.plots import activity, check_matplotlib, convergence, cost, exposure, leaderboard, save

EXAMPLES = """\
  mfrank plot convergence model other-model --by epochs --output convergence.png
  mfrank plot leaderboard trials.json --output leaderboard.svg
  mfrank plot cost trials.json --by seconds --output cost.png
  mfrank plot activity model other-model --test test.csv --metric recall@20 --output activity.png
  mfrank plot exposure model --test test.csv --output exposure.pdf
"""

_METRIC = "ndcg@10"
_RANKED = ("activity", "exposure")  # the pictures of lists
_BY = {"convergence": ("seconds", "epochs"), "cost": ("factors", "seconds")}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank plot``."""
    parser.add_argument("picture", choices=_DRAWN, help="what to draw")
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="folders of saved models; for leaderboard and cost, the file of mfrank tune --json",
    )
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="the picture: .png, .svg or .pdf"
    )
    parser.add_argument(
        "--by",
        choices=sorted({one for several in _BY.values() for one in several}),
        help="what to draw against: seconds or epochs for convergence (default: seconds), factors "
        "or seconds for cost (default: factors)",
    )
    parser.add_argument(
        "--test", metavar="FILE", help="held-out interactions, for activity and exposure"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME@K",
        help=f"metric of activity and length of the lists of exposure (default: {_METRIC})",
    )
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Draw and save."""
    check_matplotlib()
    check_writable(args.output)
    if args.by is not None and args.by not in _BY.get(args.picture, ()):
        offer = " or ".join(_BY.get(args.picture, ()))
        raise ValueError(
            f"--by of {args.picture} must be {offer}; got {args.by}"
            if offer
            else f"{args.picture} takes no --by"
        )
    if args.picture not in _RANKED and (args.test is not None or args.metric is not None):
        raise ValueError(f"{args.picture} ranks nothing: it takes no --test and no --metric")
    check_table_flags(args, "--test", args.test)
    print(f"drawn to {save(_DRAWN[args.picture](args), args.output)}")


def _convergence(args: argparse.Namespace) -> Any:
    models = {name: read_model(path) for name, path in _named(args).items()}
    return convergence(models, by=args.by or "seconds")


def _leaderboard(args: argparse.Namespace) -> Any:
    return leaderboard(_trials(args))


def _cost(args: argparse.Namespace) -> Any:
    return cost(_trials(args), args.by or "factors")


def _activity(args: argparse.Namespace) -> Any:
    evaluations, train = _evaluations(args)
    return activity(evaluations, train, args.metric or _METRIC)


def _exposure(args: argparse.Namespace) -> Any:
    return exposure(*_evaluations(args))


_DRAWN: dict[str, Callable[[argparse.Namespace], Any]] = {
    "convergence": _convergence,
    "leaderboard": _leaderboard,
    "cost": _cost,
    "activity": _activity,
    "exposure": _exposure,
}


def _named(args: argparse.Namespace) -> dict[str, str]:
    """Folders by what tells them apart: their names, or their paths if two have the same name."""
    names = [path_of(source).resolve().name for source in args.sources]
    shown = names if len(set(names)) == len(names) else args.sources
    return dict(zip(shown, args.sources, strict=True))


def _trials(args: argparse.Namespace) -> Any:
    if len(args.sources) > 1:
        raise ValueError(f"{args.picture} draws one file, got {len(args.sources)}")
    path = path_of(args.sources[0])
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise unreadable(path, "is not the JSON of mfrank tune --json", error, "") from error
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputValueError(
            f"{path} has no trials:", "write it by mfrank tune --json", place=path
        )
    return rows


def _evaluations(args: argparse.Namespace) -> tuple[dict[str, Evaluation], Interactions]:
    """Evaluations of the models on the same test file, and the interactions of the first's fit."""
    if args.test is None:
        raise ValueError(f"{args.picture} needs --test, a file of held-out interactions")
    found: dict[str, Evaluation] = {}
    first: Any = None
    for name, path in _named(args).items():
        model = read_model(path)
        if model.seen is None:
            raise InputValueError(
                f"{path} was saved without the interactions of its fit", place=path
            )
        if first is None:
            first = model
            test, unknown = read_like(args, args.test, model)
            tell_unknown(unknown)
        elif not _same_ids(model, first):
            raise InputValueError(
                f"{path} was fitted to other users or items than {args.sources[0]}", place=path
            )
        found[name] = evaluate(model, test, metrics=args.metric or _METRIC)
    return found, Interactions.of(first.seen.positives)


def _same_ids(model: Any, other: Any) -> bool:
    return all(
        np.array_equal(np.asarray(getattr(model, side)), np.asarray(getattr(other, side)))
        for side in ("user_ids", "item_ids")
    )
