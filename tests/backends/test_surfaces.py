"""Every backend, and every way to the losses' inner loops, has the whole of its surface.

And the types of its arguments are what they say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_sums import SUMS

from mfrank.backends import Backend, ItemProbabilities, SolveOptions, named, names
from mfrank.backends import surface as interface
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
    without = () if named(name).PRIORS else ("prior",)
    for part, method in surface.items():
        wanted = [each for each in asked(method) if each[0] not in without]
        assert asked(getattr(named(name), part)) == wanted, part
    if (sums := named(name).SUMS) is not None:
        for part, method in methods(interface.RowSums).items():
            assert asked(getattr(sums, part)) == asked(method), part


@pytest.mark.parametrize("name", names())
def test_a_backend_guarantees_half_of_the_digits(name: str) -> None:
    tolerance = named(name).TOLERANCE
    assert tolerance.keys() == {"float32", "float64"}
    for dtype, relative in tolerance.items():
        assert 0 < relative <= np.sqrt(np.finfo(dtype).eps)


@pytest.mark.parametrize(
    "weights", [[1, 1, 1, 1], [0, 3, 0, 1, 0], [2], [1e-9, 1, 1e-9], [0.1] * 7]
)
def test_probabilities_of_items_are_their_shares_of_the_weights(weights: list[float]) -> None:
    given = np.array(weights, np.float64)
    chances = ItemProbabilities.of(given)
    shares = np.diff(chances.cumulative, prepend=0)
    np.testing.assert_allclose(shares, given / given.sum(), atol=1e-15)
    assert (chances.cumulative[np.flatnonzero(given)[-1] :] == 1).all()
    for j, first in enumerate(chances.guide):
        above = chances.cumulative > j / len(given)
        assert first == np.flatnonzero(above)[0]


def test_steps_end_at_the_tolerance_or_at_the_level_of_rounding() -> None:
    for dtype in (np.float32, np.float64):
        assert SolveOptions().residual(dtype) == np.finfo(dtype).eps
        assert SolveOptions(cg_tolerance=0.1).residual(dtype) == 0.1
