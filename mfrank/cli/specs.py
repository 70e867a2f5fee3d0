"""``NAME:option=value,option=value`` on the command line: one of a family of option dataclasses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args, get_type_hints

from mfrank.cli.docstrings import summary

__all__ = ["option_fields", "reader_of", "spec_reader", "summaries"]


def option_fields(options: type[Any]) -> list[Field[Any]]:
    """Fields of a dataclass that can be left out."""
    return [field for field in fields(options) if field.init and field.default is not MISSING]


def summaries(family: Mapping[str, type[Any]]) -> str:
    """A line for each of the family: its name and what it is."""
    width = max(map(len, family))
    return "\n".join(f"{name:<{width}}  {summary(options)}" for name, options in family.items())


def spec_reader(family: Mapping[str, type[Any]], noun: str) -> Callable[[str], Any]:
    """Return a reader of one of the family, given by lower-case names.

    The reader raises ``argparse.ArgumentTypeError`` where there is no such member, or where it
    refuses an option.
    """

    def read(text: str) -> Any:
        name, _, rest = text.partition(":")
        if name.lower() not in family:
            raise argparse.ArgumentTypeError(
                f"{name!r} is no {noun}; there are {', '.join(family)}"
            )
        options = family[name.lower()]
        values = dict(_option(name, options, part) for part in filter(None, rest.split(",")))
        try:
            return options(**values)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"{text}: {error}") from error

    return read


def _option(name: str, options: type[Any], part: str) -> tuple[str, Any]:
    option, _, value = part.partition("=")
    if option not in (known := [field.name for field in option_fields(options)]):
        raise argparse.ArgumentTypeError(
            f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}"
        )
    try:
        return option, _read(value, get_type_hints(options)[option])
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name}:{part}: {error}") from error


def _read(value: str, hint: Any) -> Any:
    if hint is bool:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"must be true or false, got {value!r}")
        return value.lower() == "true"
    return reader_of(hint)(value)


def reader_of(hint: Any) -> type[Any]:
    """What reads a value of this type: the simplest member of a union."""
    members = get_args(hint) or (hint,)
    return next((kind for kind in (int, float) if kind in members), str)
