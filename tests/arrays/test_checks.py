"""The checks that all doors share name the argument and print no more of it than a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostile import nested

from mfrank.arrays.checks import (
    check_above_zero,
    check_at_least_zero,
    check_choice,
    check_count,
    check_instance,
    floats_of,
    share,
    shown,
)

CHECKS: list[Callable[[Any], object]] = [
    lambda value: check_above_zero(name=value),
    lambda value: check_at_least_zero(name=value),
    lambda value: check_choice("name", value, ("a", "b")),
    lambda value: check_count("name", value, 1),
    lambda value: check_instance("name", value, int, "an int, such as 5"),
    lambda value: share("name", value),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "value", [nested(), [0.5] * 100_000, "x" * 10_000, np.ones((99, 99)), {"a": nested()}]
)
def test_what_is_refused_is_named_and_shortened(check: Callable[[Any], object], value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="name must be") as refusal:
        check(value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("value", [5, "auto", [1, 2], None, 0.25, (1, "a")])
def test_what_is_short_is_shown_as_it_is(value: object) -> None:
    assert shown(value) == repr(value)


@pytest.mark.parametrize("check", CHECKS[:4])
def test_a_span_of_time_is_no_number(check: Callable[[Any], object]) -> None:
    """To numpy it is an integer."""
    with pytest.raises((TypeError, ValueError), match="name must be"):
        check(np.timedelta64(1, "s"))


@pytest.mark.parametrize("given", ["x", [10**400], [[1], [1, 2]], object(), [None, "a"]])
def test_what_are_no_numbers_is_refused_by_name(given: Any) -> None:
    with pytest.raises(TypeError, match="name must be numbers: "):
        floats_of("name", given)
    np.testing.assert_array_equal(floats_of("name", [1, 2.5]), [1.0, 2.5])
