"""Command-line flags from option dataclasses: name, type, choices, default and help of each field.

A flag that is not given is absent from the parsed arguments, so the dataclass's default applies.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import Field, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mfrank.als import objectives
from mfrank.als.quadratic import QuadraticObjective
from mfrank.cli.docstrings import Parameter, parameters
from mfrank.cli.specs import option_fields, reader_of, spec_reader, summaries

__all__ = [
    "OBJECTIVES",
    "add_flags",
    "add_objective_flags",
    "given",
    "objective",
    "objective_of",
]

OBJECTIVES: dict[str, type[QuadraticObjective]] = {
    name.lower(): getattr(objectives, name) for name in objectives.__all__
}
"""Objectives by their command-line names."""

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
    """Add ``--objective``, and one flag for each option name of any objective."""
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
    for name, classes in owners.items():
        field = next(field for field in option_fields(classes[0]) if field.name == name)
        parameter = parameters(classes[0])[name]
        _add_flag(group, classes[0], field, parameter, _merged_text(name, classes))


def given(args: argparse.Namespace, options: _Options) -> dict[str, Any]:
    """Values of the dataclass's fields whose flags were given, by name."""
    names = {field.name for field in option_fields(options)}
    return {name: value for name, value in vars(args).items() if name in names}


def objective_of(args: argparse.Namespace) -> QuadraticObjective:
    """Build the chosen objective with the options that were given.

    Raises
    ------
    ValueError
        An option was given that this objective does not have.
    """
    chosen: Any = args.objective
    known = {field.name for field in option_fields(type(chosen))}
    options = {field.name for other in OBJECTIVES.values() for field in option_fields(other)}
    for name in sorted((options - known) & set(vars(args))):
        raise ValueError(
            f"{_flag(name)} is not an option of {type(chosen).__name__.lower()}, which has "
            + ", ".join(sorted(map(_flag, known)))
        )
    built: QuadraticObjective = replace(chosen, **given(args, type(chosen)))
    return built


objective = spec_reader(OBJECTIVES, "objective")
"""Parser of ``NAME`` or ``NAME:option=value,option=value``, as in ``wrmf:alpha=40``."""


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
    kwargs: dict[str, Any]
    if hint in (bool, bool | None):
        kwargs = {"action": argparse.BooleanOptionalAction}
    elif choices := _choices(hint, parameter.kind):
        kwargs = {"choices": choices}
    else:
        reader = reader_of(hint)
        kwargs = {"type": reader, "metavar": reader.__name__.upper()}
    parser.add_argument(
        _flag(field.name),
        dest=field.name,
        default=argparse.SUPPRESS,
        help=_with_flags(text, options).replace("%", "%%"),
        **kwargs,
    )


def _choices(hint: Any, kind: str) -> list[str]:
    """Values of a Literal, or those listed in the docstring as ``{"a", "b"}``."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    listed = re.match(r"\{(.*?)\}", kind)
    return re.findall(r'"([^"]*)"', listed[1]) if listed else []


def _merged_text(name: str, classes: list[_Options]) -> str:
    """Help of an option that several objectives have, with each distinct text once."""
    meanings: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for options in classes:
        default = next(field.default for field in option_fields(options) if field.name == name)
        text = parameters(options)[name].text.rstrip(".")
        meanings[text, default].append(options.__name__.lower())
    return "; ".join(
        f"{', '.join(names)}: {text} (default: {default})"
        for (text, default), names in meanings.items()
    )


def _with_flags(text: str, options: _Options) -> str:
    """The text, with options whose names are not English words written as flags."""
    names = {field.name for field in option_fields(options) if "_" in field.name}
    return re.sub(r"\w+", lambda word: _flag(word[0]) if word[0] in names else word[0], text)
