"""Reads parameters from numpy-style docstrings, so that help texts are written only once."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Parameter", "parameters", "summary"]

_UNDERLINE = re.compile(r"-{3,}")
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One entry of a "Parameters" section.

    Attributes
    ----------
    kind : str
        The text after the colon, as in ``{"auto", "cg"}, default "auto"``.
    text : str
        The description as plain text on one line.
    """

    kind: str
    text: str


def parameters(documented: Any) -> dict[str, Parameter]:
    """Documented parameters of a function or a class, by name.

    A class also has the parameters documented by its bases, unless it documents them itself with
    more than a reference ("As in ...").
    """
    merged: dict[str, Parameter] = {}
    for owner in (
        reversed(inspect.getmro(documented)) if inspect.isclass(documented) else [documented]
    ):
        for name, parameter in _entries(owner.__doc__ or ""):
            if name not in merged or not parameter.text.startswith("As in"):
                merged[name] = parameter
    return merged


def summary(documented: Any) -> str:
    """The first line of a docstring as plain text."""
    return _plain((documented.__doc__ or "").partition("\n")[0])


def _entries(docstring: str) -> Iterator[tuple[str, Parameter]]:
    lines = _section(inspect.cleandoc(docstring).splitlines(), "Parameters")
    heads = [number for number, line in enumerate(lines) if line and not line.startswith(" ")]
    for begin, end in itertools.pairwise([*heads, len(lines)]):
        names, _, kind = lines[begin].partition(" : ")
        text = _plain(" ".join(line.strip() for line in lines[begin + 1 : end] if line))
        for name in names.split(","):
            yield name.strip(), Parameter(kind, text)


def _section(lines: list[str], title: str) -> list[str]:
    """Lines of the section with this title, up to the next title."""
    titles = [n for n, line in enumerate(lines[1:]) if _UNDERLINE.fullmatch(line)]
    for begin, end in itertools.pairwise([*titles, len(lines)]):
        if lines[begin] == title:
            return lines[begin + 2 : end]
    return []


def _plain(text: str) -> str:
    return _ROLE.sub(r"\1", text).replace("`", "")
