"""The checks that all doors share name the argument and print no more of it than a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostile import nested
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import (
    check_above_zero,
    check_at_least_zero,
    check_choice,
    check_count,
    check_fractions,
    check_instance,
    check_length,
    check_powers,
    floats_of,
    share,
    shown,
)
from tests.support.errors import refuses

CHECKS: list[Callable[[Any], object]] = [
    lambda value: check_above_zero(name=value),
    lambda value: check_at_least_zero(name=value),
    lambda value: check_choice("name", value, ("a", "b")),
    lambda value: check_count("name", value, 1),
    lambda value: check_instance("name", value, bytes, "bytes, such as b'a'"),
    lambda value: share("name", value),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "value", [nested(), [0.5] * 100_000, "x" * 10_000, np.ones((99, 99)), {"a": nested()}]
)
def test_what_is_refused_is_named_and_shortened(check: Callable[[Any], object], value: Any) -> None:
    with refuses((TypeError, ValueError), "name") as refusal:
        check(value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("check", CHECKS)
def test_an_int_that_python_refuses_to_write_is_told_by_its_size(
    check: Callable[[Any], object],
) -> None:
    for value in (-(10**9999), [-(10**9999)]):
        with refuses((TypeError, ValueError), "name"):
            check(value)


@pytest.mark.parametrize("value", [5, "auto", [1, 2], None, 0.25, (1, "a")])
def test_what_is_short_is_shown_as_it_is(value: object) -> None:
    assert shown(value) == repr(value)


@pytest.mark.parametrize("check", CHECKS[:4])
def test_a_span_of_time_is_no_number(check: Callable[[Any], object]) -> None:
    """To numpy it is an integer."""
    with refuses((TypeError, ValueError), "name"):
        check(np.timedelta64(1, "s"))


@pytest.mark.parametrize("values", ["x", [10**400], [[1], [1, 2]], object(), [None, "a"]])
def test_what_are_no_numbers_is_refused_by_name(values: Any) -> None:
    with refuses(TypeError, "name"):
        floats_of("name", values)
    np.testing.assert_array_equal(floats_of("name", [1, 2.5]), [1.0, 2.5])


REAL = [
    -1,
    -1e-9,
    0,
    -0.0,
    5e-324,
    0.5,
    1,
    1.0,
    np.nextafter(1, 2),
    2,
    np.int8(1),
    np.float32(0.25),
]
NO_REAL = [np.inf, -np.inf, np.nan, 10**400, True, np.True_, np.timedelta64(1), "1", None, 1j]
RANGES: dict[str, tuple[Callable[[Any], object], Callable[[Any], bool]]] = {
    "above zero": (lambda x: check_above_zero(name=x), lambda x: x > 0),
    "at least zero": (lambda x: check_at_least_zero(name=x), lambda x: x >= 0),
    "powers": (lambda x: check_powers(name=x), lambda x: 0 <= x <= 1),
    "share": (
        lambda x: share("name", x, "None or "),
        lambda x: isinstance(x, float | np.floating) and 0 < x < 1,
    ),
    "count": (
        lambda x: check_count("name", x, 1, 2, "lower it"),
        lambda x: isinstance(x, int | np.integer) and x in (1, 2),
    ),
}


def refused(call: Callable[..., object], *given: Any, **options: Any) -> str | None:
    """The text of the error; None if there is none."""
    try:
        call(*given, **options)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", RANGES)
def test_a_range_takes_its_bounds_and_nothing_beyond(kind: str) -> None:
    call, is_within = RANGES[kind]
    for value in REAL:
        assert (refused(call, value) is None) == is_within(value), value
    for value in NO_REAL:
        assert "name must be" in (refused(call, value) or ""), value


def test_a_share_is_a_float_of_pythons() -> None:
    assert type(share("name", np.float32(0.25))) is float
    assert refused(share, "name", 2.0) == "name must be a fraction in (0, 1), got 2.0"
    assert "must be None or a fraction" in (refused(share, "name", 2.0, "None or ") or "")


@given(st.integers(-3, 9), st.integers(-2, 4), st.none() | st.integers(2, 8))
def test_a_count_lies_between_its_bounds(value: int, least: int, most: int | None) -> None:
    said = refused(check_count, "name", value, least, most)
    if value < least:
        assert said == f"name must be at least {least}, got {value}"
    elif most is not None and value > most:
        assert said == f"name must be at most {most}, got {value}"
    else:
        assert said is None


def test_a_list_is_no_longer_than_item_numbers_reach() -> None:
    assert [refused(check_length, "N", n) for n in (1, 2**31 - 1)] == [None, None]
    assert refused(check_length, "N", 0) == "N must be at least 1, got 0"
    assert "at most 2147483647" in (refused(check_length, "N", 2**31) or "")


@pytest.mark.parametrize(
    ("fractions", "told"),
    [
        ((1, 0), None),
        ((0.7, 0.2, 0.1), None),
        ((0, 1), "a > 0"),
        ((1.5, -0.5), ">= 0"),
        ((np.nan, 1), "a=nan"),
        (("1", 0), "a='1'"),
        ((0.7, 0.2), "a, b must sum to 1, got 0.9"),
        ((1, 1), "sum to 1, got 2"),
    ],
)
def test_fractions_sum_to_one_and_the_first_is_not_empty(fractions: Any, told: str | None) -> None:
    said = refused(check_fractions, **dict(zip("abc", fractions, strict=False)))
    assert said is None if told is None else told in (said or "")


@pytest.mark.parametrize("known", [("a", "b"), (None, True, "a"), (False, "b")])
def test_a_choice_is_one_of_the_known(known: tuple[Any, ...]) -> None:
    """Not what only equals one: 1 is no True, and 0 no False."""
    for value in ("a", "b", "c", None, True, False, 1, 0, np.True_):
        is_known = any(value is one for one in known) or (isinstance(value, str) and value in known)
        assert (refused(check_choice, "name", value, known) is None) == is_known, value
    assert refused(check_choice, "name", "a", (one for one in known)) == refused(
        check_choice, "name", "a", known
    )


@pytest.mark.parametrize("value", [np.int64(3), np.uint8(3), np.float64(0.5)])
def test_numpys_numbers_are_shown_as_pythons(value: Any) -> None:
    assert shown(value) == str(value)
    assert shown(np.timedelta64(3, "s")) == repr(np.timedelta64(3, "s"))


def test_what_is_long_is_shortened_with_both_its_ends() -> None:
    for value in ("x" * 10_000, 10**500, np.ones((99, 99))):
        assert 150 < len(shown(value)) <= 200
    assert shown("x" * 198) == repr("x" * 198)
