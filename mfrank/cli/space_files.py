"""A search's own space in a JSON file: ``mfrank tune --space FILE``.

A list of models, of each the options. A list is the values to try, ``{"from": 10, "to": 5000}`` a
range, and anything else is what the model has::

    [
      {"model": "als", "objective": "ials:nu=0.5", "factors": [32, 64],
       "objective__regularization": {"from": 0.0001, "to": 1}},
      {"model": "ease", "regularization": {"from": 10, "to": 5000}}
    ]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mfrank.arrays import shown
from mfrank.cli.flags import spec_reader
from mfrank.errors import InputError, InputValueError
from mfrank.files import open_regular, path_of
from mfrank.models import PARTS, option_classes

_MODELS = {name.lower(): kind for name, kind in PARTS.items()}
_SPECS = ("objective", "loss", "optimizer", "schedule")
"""Options that are written as on a command line, such as ``"wrmf:alpha=40"``."""
_ENDS = {"from", "to"}
_EXAMPLE = '`[{"model": "ease", "regularization": {"from": 10, "to": 5000}}]`'


def space_in(file: str) -> dict[Any, dict[str, Any]]:
    """The argument ``space`` of :func:`mfrank.tune` that a file describes.

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
