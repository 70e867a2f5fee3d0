"""Command-line flags of dataclasses of options: name, type, choices, default and help of a field.

A flag that is not given leaves no trace in the parsed arguments, so that the default is the
dataclass's own.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import Field, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mfrank import objectives
from mfrank.cli.docstrings import Parameter, parameters
from mfrank.cli.specs import option_fields, reader_of, spec_reader, summaries
from mfrank.quadratic import QuadraticObjective

__all__ = ["OBJECTIVES", "add_flags", "add_objective_flags", "given", "objective", "objective_of"]

OBJECTIVES: dict[str, type[QuadraticObjective]] = {
    name.lower(): getattr(objectives, name) for name in objectives.__all__
}
"""Objectives by their names on the command line."""

_Options = type[Any]


def add_flags(
    parser: argparse._ActionsContainer, options: _Options, *, leave_out: Collection[str] = ()
) -> None:
    """Add a flag for each field of a dataclass: ``n_threads`` becomes ``--n-threads``."""
    documented = parameters(options)
    for field in option_fields(options):
        if field.name not in leave_out:
            parameter = documented[field.name]
            text = f"{parameter.text.rstrip('.')} (default: {field.default})"
            _add_flag(parser, options, field, parameter, text)


def add_objective_flags(parser: argparse.ArgumentParser, default: QuadraticObjective) -> None:
    """Add ``--objective``, and one flag for each name of an option that any objective has."""
    group = parser.add_argument_group("objective", summaries(OBJECTIVES))
    group.add_argument(
        "--objective",
        type=objective,
        default=default,
        metavar="NAME",
        help=f"one of these (default: {type(default).__name__.lower()})",
    )
    owners: dict[str, list[_Options]] = defaultdict(list)
    for options in OBJECTIVES.values():
        for field in option_fields(options):
            owners[field.name].append(options)
    for name, having in owners.items():
        field = next(field for field in option_fields(having[0]) if field.name == name)
        parameter = parameters(having[0])[name]
        _add_flag(group, having[0], field, parameter, _text_of_all(name, having))


def given(args: argparse.Namespace, options: _Options) -> dict[str, Any]:
    """Fields of the dataclass whose flags were given, with their values."""
    names = {field.name for field in option_fields(options)}
    return {name: value for name, value in vars(args).items() if name in names}


def objective_of(args: argparse.Namespace) -> QuadraticObjective:
    """Build the chosen objective with the options given for it.

    Raises
    ------
    ValueError
        If an option was given that this objective does not have.
    """
    chosen: Any = args.objective
    known = {field.name for field in option_fields(type(chosen))}
    options = {field.name for other in OBJECTIVES.values() for field in option_fields(other)}
    for name in sorted((options - known) & set(vars(args))):
        raise ValueError(
            f"{_flag(name)} is no option of {type(chosen).__name__.lower()}, which has "
            + ", ".join(sorted(map(_flag, known)))
        )
    built: QuadraticObjective = replace(chosen, **given(args, type(chosen)))
    return built


objective = spec_reader(OBJECTIVES, "objective")
"""Reads ``NAME`` or ``NAME:option=value,option=value``, as in ``wrmf:alpha=40``."""


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _add_flag(
    parser: argparse._ActionsContainer,
    options: _Options,
    field: Field[Any],
    parameter: Parameter,
    text: str,
) -> None:
    hint = get_type_hints(options)[field.name]
    how: dict[str, Any]
    if hint in (bool, bool | None):
        how = {"action": argparse.BooleanOptionalAction}
    elif choices := _choices(hint, parameter.kind):
        how = {"choices": choices}
    else:
        reader = reader_of(hint)
        how = {"type": reader, "metavar": reader.__name__.upper()}
    parser.add_argument(
        _flag(field.name), dest=field.name, default=argparse.SUPPRESS, help=_escaped(text), **how
    )


def _choices(hint: Any, kind: str) -> list[str]:
    """Values of a Literal, or those that the docstring lists as ``{"a", "b"}``."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    listed = re.match(r"\{(.*?)\}", kind)
    return re.findall(r'"([^"]*)"', listed[1]) if listed else []


def _text_of_all(name: str, having: list[_Options]) -> str:
    """Help for an option that several objectives have, each meaning said once."""
    meanings: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for options in having:
        default = next(field.default for field in option_fields(options) if field.name == name)
        text = parameters(options)[name].text.rstrip(".")
        meanings[text, default].append(options.__name__.lower())
    return "; ".join(
        f"{', '.join(names)}: {text} (default: {default})"
        for (text, default), names in meanings.items()
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
