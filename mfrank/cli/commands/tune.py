"""Search for the model that ranks held-out interactions of a file best, and save it.

ALS under several objectives, a sampled softmax, item-to-item models and blends of them take part,
in one search space for all data; the best is fitted to all interactions. The time is a maximum.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, get_args

from mfrank.arrays import shown
from mfrank.cli.flags import add_needs_flag, parameters, spec_reader
from mfrank.cli.inputs import read_events, read_left_out, read_table
from mfrank.cli.model_folders import Destination, add_keep_flag, read_model
from mfrank.cli.printing import add_json_flag, check_json, somebody_watches, tell
from mfrank.cli.table_flags import add_leave_out_flag, add_table_flags, add_target_flag, refuse_sums
from mfrank.data import Events, Interactions
from mfrank.errors import InputError, InputValueError
from mfrank.files import open_regular, path_of
from mfrank.models import PARTS, option_classes, refit
from mfrank.tuning import Predict, TuneResult, tune

EXAMPLES = """\
  mfrank tune ratings.csv --minutes 10 --model model
  mfrank tune plays.tsv --at-least 4 --minutes 60 --storage search.sqlite --model model
  mfrank tune shop.csv --target purchase --minutes 10 --model model
  mfrank tune all.csv --refit model --model newer
  mfrank tune sessions.csv --predict next --model model
  mfrank tune plays.tsv --needs update,new-users --model model
  mfrank tune plays.tsv --space space.json --minutes 30 --model model
  mfrank tune clicks.parquet --trials 40 --metric recall@20 --model model --json trials.json
"""


_MODELS = {name.lower(): kind for name, kind in PARTS.items()}
_SPECS = ("objective", "loss", "optimizer", "schedule")
"""Options that are written as on a command line, such as ``"wrmf:alpha=40"``."""
_ENDS = {"from", "to"}
_EXAMPLE = '`[{"model": "ease", "regularization": {"from": 10, "to": 5000}}]`'


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank tune``."""
    parser.add_argument("interactions", metavar="FILE", help="the interactions")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="where to save the model")
    told = parameters(tune)
    for name, kind, metavar in (
        ("valid", str, "FILE"),
        ("minutes", float, "FLOAT"),
        ("trials", int, "INT"),
        ("metric", str, "NAME@K"),
        ("factors", int, "INT"),
        ("random_state", int, "INT"),
        ("n_threads", int, "INT"),
        ("memory", float, "GIB"),
        ("storage", str, "FILE"),
    ):
        default = signature(tune).parameters[name].default
        shown = "" if default is None else f" (default: {str(default).lower()})"
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=kind,
            default=default,
            metavar=metavar,
            help=told[name].text.rstrip(".") + shown,
        )
    parser.add_argument(
        "--predict",
        choices=get_args(Predict),
        help="what the model is for, and so what is held out to choose by: the latest tenth, "
        "the next item of each user, or of the latest sessions, or a random tenth (default: by "
        "the data)",
    )
    add_target_flag(
        parser,
        "rank events of this kind, such as purchase, and learn from all; without --weights, what "
        "each kind counts is found first",
    )
    parser.add_argument(
        "--refit",
        metavar="PATH",
        help="fit the recipe of this saved model, such as yesterday's, to the interactions: no "
        "search",
    )
    parser.add_argument(
        "--space",
        metavar="FILE",
        help='search the models and options of this JSON file alone, such as [{"model": "ease", '
        '"regularization": {"from": 10, "to": 5000}, "candidates": [null, 100]}]; a list is the '
        "values to try, if all are lists each combination is tried once",
    )
    add_needs_flag(parser)
    add_json_flag(parser, "the leaderboard")
    add_keep_flag(parser)
    add_leave_out_flag(parser)
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Search, save and print."""
    destination = Destination.of(args.model)
    check_json(args.json)
    if args.refit is not None:
        _refit(args, destination)
        return
    args.space = None if args.space is None else space_in(args.space)
    left_out = None
    data: Interactions | Events
    if args.target is not None:
        if args.leave_out or args.leave_out_events:
            raise ValueError("--leave-out and --leave-out-events do not go with --target")
        refuse_sums(args, "the search of --target adds up events as they are")
        data = read_events(args, args.interactions)
        args.valid = None if args.valid is None else read_events(args, args.valid)
    else:
        data = read_table(args, args.interactions)
        left_out = read_left_out(args, data)
        args.valid = None if args.valid is None else read_table(args, args.valid, data)
    try:
        found = _found(data, args)
    except KeyboardInterrupt:
        if args.storage is not None:
            print(f"mfrank: the same command goes on from {args.storage}", file=sys.stderr)
        raise
    if left_out is not None:
        found.model.leave_out(left_out)
    destination.save(found.model, args.keep)
    text = str(found).replace("needs=()", "--needs nothing")
    text = text.replace("--refit MODEL", f"--refit {shlex.quote(args.model)}")
    told = [text, f"saved to {args.model}"]
    if found.weights is not None:
        each = (f"{k}={'none' if w is None else format(w, 'g')}" for k, w in found.weights.items())
        told.insert(1, f"the same events: --weights {shlex.quote(','.join(each))}")
    if found.days is not None and len(found.days) > 1:
        told += [f"the searches in {args.storage}, the newest first:", str(found.days)]
    tell("\n".join(told), list(found.leaderboard), args.json)


def _refit(args: argparse.Namespace, destination: Destination) -> None:
    usual = signature(tune).parameters
    idle = (
        "target",
        "valid",
        "predict",
        "minutes",
        "trials",
        "metric",
        "factors",
        "random_state",
        "n_threads",
        "storage",
        "memory",
        "needs",
        "space",
    )
    if used := [name for name in idle if getattr(args, name) != usual[name].default]:
        flag = used[0].replace("_", "-")
        raise ValueError(f"--refit searches nothing, so --{flag} has no effect")
    model = read_model(args.refit)
    data = read_table(args, args.interactions, model)
    made = refit(model, data, show_progress=somebody_watches())
    left_out = read_left_out(args, data)
    if left_out is not None:
        made.leave_out(left_out)
    destination.save(made, args.keep)
    print(f"{made}\nsaved to {args.model}")


def _found(data: Interactions | Events, args: argparse.Namespace) -> TuneResult:
    return tune(
        data,
        target=args.target,
        weights=None if args.target is None else args.weights,
        valid=args.valid,
        predict=args.predict,
        minutes=args.minutes,
        trials=args.trials,
        metric=args.metric,
        factors=args.factors,
        random_state=args.random_state,
        n_threads=args.n_threads,
        memory=args.memory,
        needs=args.needs,
        space=args.space,
        storage=args.storage,
        show_progress=somebody_watches(),
    )


def space_in(file: str) -> dict[Any, dict[str, Any]]:
    """The argument ``space`` of :func:`mfrank.tune` that a JSON file describes.

    A list of models, of each the options. A list is the values to try, ``{"from": 10, "to": 5000}``
    a range, and anything else is what the model has::

        [
          {"model": "als", "objective": "ials:nu=0.5", "factors": [32, 64],
           "objective__regularization": {"from": 0.0001, "to": 1}},
          {"model": "ease", "regularization": {"from": 10, "to": 5000}}
        ]

    Raises
    ------
    ValueError
        There is no such file, or it is no JSON, or not as above. Whether models have these options,
        ``tune`` says.
    """
    path = path_of(file)
    if not path.is_file():
        raise InputValueError(
            f"`space`: {path} is no file:", f"write one, such as {_EXAMPLE}", place=path
        )
    with open_regular(path) as opened:
        text = opened.read()
    try:
        listed = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputValueError(
            f"`space`: {path} is no JSON ({error})", f"write it as {_EXAMPLE}", place=path
        ) from error
    except InputError as error:
        raise error.within(f"`space`: {path}") from error
    if not isinstance(listed, list) or not listed:
        raise InputValueError(
            f"`space`: {path} must have a list of models; got {shown(listed)}",
            f"write it as {_EXAMPLE}",
            place=path,
        )
    return dict(_model(each, path, number) for number, each in enumerate(listed, 1))


def _model(given: Any, path: Path, number: int) -> tuple[Any, dict[str, Any]]:
    """A model with the options that are not searched, and those that are."""
    whole = f"`space`: {path}, model {number}"
    if not isinstance(given, Mapping) or "model" not in given:
        raise InputValueError(
            f"{whole} has no name; got {shown(given)}", f"write it as {_EXAMPLE}", place=path
        )
    name = given["model"]
    kind = _MODELS.get(name.lower()) if isinstance(name, str) else None
    if kind is None:
        raise InputValueError(
            f"{whole} is {shown(name)}:", f"use one of {', '.join(_MODELS)}", place=path
        )
    fixed, searched = dict[str, Any](), dict[str, Any]()
    for option, value in given.items():
        if option == "model":
            continue
        where = f"{whole}, {option}"
        if isinstance(value, list):
            searched[option] = [_value(option, each, where) for each in value]
        elif isinstance(value, Mapping):
            searched[option] = _range(value, where)
        else:
            fixed[option] = _value(option, value, where)
    try:
        return kind().set_params(**fixed), searched
    except (TypeError, ValueError) as error:
        raise InputValueError(f"{whole}: {error}", place=path) from error


def _value(option: str, given: Any, where: str) -> Any:
    """The value of an option: an objective or a loss by its name, a tuple from a list."""
    if isinstance(given, list):
        return tuple(given)
    if option not in _SPECS or not isinstance(given, str):
        return given
    known = {name.lower(): kind for name, kind in option_classes().items()}
    try:
        return spec_reader(known, option)(given)
    except argparse.ArgumentTypeError as error:
        raise InputValueError(f"{where}: {error}") from error


def _range(given: Mapping[str, Any], where: str) -> tuple[Any, Any]:
    if set(given) != _ENDS:
        raise InputValueError(
            f"{where} must be values or a range; got {shown(dict(given))}",
            'write a range as `{"from": 10, "to": 5000}`',
        )
    return given["from"], given["to"]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names must differ: Python would keep the last of two."""
    for at, (name, _) in enumerate(pairs):
        if name in [before for before, _ in pairs[:at]]:
            raise InputValueError(f"{name!r} is there twice:", "leave one out")
    return dict(pairs)


def _no_number(text: str) -> Any:
    raise InputValueError(f"{text} is no number of JSON:", "write a finite number")
