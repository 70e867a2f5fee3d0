"""Streams of random numbers: positions are independent of each other, keys of the path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.streams import key_of, random_bits, random_units


def test_numbers_are_those_of_splitmix64() -> None:
    # The generator's first three from the state 1234567, as published with its C text.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    np.testing.assert_array_equal(random_bits(1234567, np.arange(3)), expected)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_a_position_is_what_it_is_in_any_company(key: int, position: int) -> None:
    some = random_bits(key, np.array([5, position, 0]))
    assert some[1] == random_bits(key, np.array([position]))[0]
    assert 0 <= random_units(key, np.array([position]))[0] < 1


def test_numbers_are_spread_evenly() -> None:
    units = random_units(7, np.arange(200_000))
    counts = np.histogram(units, bins=100, range=(0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 160  # chi square of 99 degrees
    assert abs(np.corrcoef(units[:-1], units[1:])[0, 1]) < 0.01


def test_every_path_has_a_key_of_its_own() -> None:
    keys = [key_of(3, *path) for path in ((), (0,), (1,), (1, 0), (0, 1), (1, 1), (1, 1, 0))]
    assert len(set(keys)) == len(keys)
    assert key_of(3, 1) == key_of(3, 1) != key_of(4, 1)
    assert key_of(-1) == 2**64 - 1


@pytest.mark.parametrize("key", [0, 2**64 - 1])
def test_large_keys_do_not_overflow_aloud(key: int) -> None:
    assert random_bits(key, np.array([2**62])).dtype == np.uint64
