"""A default that a docstring states is the one that the signature has."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import mfrank

_ARGUMENTS = re.compile(r"^(\w+(?:, \w+)*) : .*?\bdefault ([^\n;]+)", re.MULTILINE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def stated(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Arguments and their defaults in the docstring, where these are Python and not words."""
    names = {**vars(mfrank.losses), **{name: getattr(mfrank, name) for name in mfrank.__all__}}
    for arguments, text in _ARGUMENTS.findall(inspect.getdoc(function) or ""):
        values = re.split(r", | and ", _THOUSANDS.sub("", text))
        of_each = dict(zip(arguments.split(", "), values, strict=False))
        if len(values) in (1, len(of_each)):
            for argument in arguments.split(", "):
                with suppress(NameError, SyntaxError):
                    yield argument, eval(of_each.get(argument, values[0]), names)


FACES = (
    *("als", "comparison", "data", "descent", "evaluation", "models", "pagerank", "retrieval"),
    "serving",
)


def public() -> dict[str, Any]:
    """Every name of mfrank, and those of the folders that have more."""
    found = {name: getattr(mfrank, name) for name in mfrank.__all__}
    for face in FACES:
        folder = importlib.import_module(f"mfrank.{face}")
        found |= {f"{face}.{name}": getattr(folder, name) for name in sorted(dir(folder))}
    return {name: one for name, one in found.items() if callable(one)}


@pytest.mark.parametrize("one", public().values(), ids=public())
def test_it_is_the_one_of_the_signature(one: Any) -> None:
    own = [key for key in vars(one) if key[0] != "_"] if inspect.isclass(one) else []
    for function in filter(callable, (one, *(getattr(one, key) for key in own))):
        with suppress(ValueError):  # a class that C made has no signature
            has = inspect.signature(function).parameters
            for argument, value in stated(function):
                if argument in has:
                    found = has[argument].default
                    assert found == value or repr(found) == repr(value), (function, argument)
