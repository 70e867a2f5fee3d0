"""Every backend, and every way to the losses' inner loops, has the whole of its surface."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from both_sums import SUMS

from mfrank.backends import Backend, named, names
from mfrank.losses import ListSums

OF_BACKENDS = {f"of {name}": named(name).list_sums() for name in names()}


def methods(of: type) -> dict[str, Callable[..., Any]]:
    return {name: made for name, made in inspect.getmembers(of, callable) if name[0] != "_"}


def asked(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """What a method is given, by name: whether it must be named so, and its default."""
    given = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in given if each.name != "self"]


@pytest.mark.parametrize("sums", (SUMS | OF_BACKENDS).values(), ids=SUMS | OF_BACKENDS)
def test_list_sums_have_the_methods_of_the_protocol_and_no_others(sums: ListSums) -> None:
    surface, found = methods(ListSums), methods(type(sums))
    assert len(surface) == 10
    assert found.keys() == surface.keys()
    assert isinstance(sums.holds_pairs, bool)
    for name, method in surface.items():
        assert asked(getattr(sums, name)) == asked(method), name


@pytest.mark.parametrize("name", names())
def test_a_backend_has_the_whole_surface(name: str) -> None:
    """Modules, of which no type checker tells what they lack."""
    surface = methods(Backend)
    assert "list_sums" in surface
    missing = [part for part in surface if not callable(getattr(named(name), part, None))]
    assert not missing
