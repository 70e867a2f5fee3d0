"""Parses ``NAME:option=value,option=value`` into one of a family of option dataclasses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

from mfrank.cli.docstrings import summary

__all__ = ["option_fields", "reader_of", "spec_reader", "summaries"]


def option_fields(options: type[Any]) -> list[Field[Any]]:
    """Fields of a dataclass that have a default."""
    return [field for field in fields(options) if field.init and field.default is not MISSING]


def summaries(family: Mapping[str, type[Any]]) -> str:
    """One line per member of the family: its name and the first line of its docstring."""
    width = max(map(len, family))
    return "\n".join(f"{name:<{width}}  {summary(options)}" for name, options in family.items())


def spec_reader(family: Mapping[str, type[Any]], noun: str) -> Callable[[str], Any]:
    """Return a parser of specs; ``family`` has the classes by lower-case name.

    The parser raises ``argparse.ArgumentTypeError`` if the name is unknown, or if the class
    rejects an option.
    """

    def read(text: str) -> Any:
        name, _, rest = text.partition(":")
        if name.lower() not in family:
            raise argparse.ArgumentTypeError(
                f"unknown {noun} {name!r}; choose from {', '.join(family)}"
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


def reader_of(hint: Any) -> Callable[[str], Any]:
    """Parser of values with this hint: int, float or str, the first in the union, or none."""
    members = get_args(hint) or (hint,)
    kind = next((kind for kind in (int, float) if kind in members), str)
    if kind is str or NoneType not in members:
        return kind

    def number_or_none(text: str) -> Any:
        return None if text.lower() == "none" else kind(text)

    number_or_none.__name__ = f"{kind.__name__}|none"  # argparse shows it
    return number_or_none
