"""Streams of random numbers: positions are independent of each other, keys of the path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_sums import BUILT, EITHER
from emulated_gpu import DeviceArray, EmulatedGPU
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from mfrank.arrays import generator, key_of, random_bits, random_normals, random_units
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.losses import ListSums
from tests.support.errors import refuses


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


def test_normal_numbers_are_normal_and_independent() -> None:
    drawn = random_normals(5, (300, 401), like=np.empty(0))
    assert kstest(drawn.ravel(), "norm").pvalue > 0.01
    assert kstest((drawn**2).sum(1), "chi2", args=(401,)).pvalue > 0.01
    correlations = np.corrcoef(drawn[:40])[~np.eye(40, dtype=bool)]
    assert abs(correlations).max() < 5 / np.sqrt(401)
    halves = drawn.ravel()[: drawn.size // 2], drawn.ravel()[-(drawn.size // 2) :]  # of one pair
    assert abs(np.corrcoef(*halves)[0, 1]) < 5 / np.sqrt(drawn.size // 2)
    assert abs(np.corrcoef(*(half**2 for half in halves))[0, 1]) < 5 / np.sqrt(drawn.size // 2)


@EITHER
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5)])
def test_normal_numbers_have_the_shape_that_is_asked_for(
    shape: tuple[int, ...], sums: ListSums
) -> None:
    drawn = sums.normals(5, shape, like=np.empty(0))
    assert drawn.shape == shape
    assert np.isfinite(drawn).all()


@BUILT
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 1023, 1025, 40_000])
def test_the_extensions_normal_numbers_are_the_same(count: int, dtype: type) -> None:
    found = [NativeSums(threads).normals(3, (count,), np.empty(0, dtype)) for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    expected = random_normals(3, (count,), np.empty(0, dtype))
    assert found[0].dtype == expected.dtype == dtype
    near = 1e-6 if dtype is np.float32 else 4e-15
    np.testing.assert_allclose(found[0], expected, rtol=near, atol=near)


def test_every_path_has_a_key_of_its_own() -> None:
    keys = [key_of(3, *path) for path in ((), (0,), (1,), (1, 0), (0, 1), (1, 1), (1, 1, 0))]
    assert len(set(keys)) == len(keys)
    assert key_of(3, 1) == key_of(3, 1) != key_of(4, 1)
    assert key_of(-1) == 2**64 - 1


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**20), max_size=3))
def test_a_key_is_the_number_of_the_stream_before_it(seed: int, path: list[int]) -> None:
    """At the path's last step; so keys are as well mixed as the numbers."""
    expected = seed
    for step in path:
        expected = int(random_bits(expected, np.array([step]))[0])
    assert key_of(seed, *path) == expected


@pytest.mark.parametrize("seed", [0, 5, np.int64(5), np.uint8(255), 2**64 + 3])
def test_a_seed_gives_the_generator_that_numpy_gives(seed: Any) -> None:
    expected = np.random.default_rng(int(seed)).random(3)
    np.testing.assert_array_equal(generator(seed).random(3), expected)


def test_a_generator_is_used_as_it_is_and_none_differs_each_time() -> None:
    given_ = np.random.default_rng(0)
    assert generator(given_) is given_
    assert generator(None).random() != generator(None).random()


@pytest.mark.parametrize("odd", [-1, True, 1.0, "1", np.random.RandomState(0), np.True_])
def test_what_is_no_seed_is_refused_by_name(odd: Any) -> None:
    kind = ValueError if odd is not True and odd == -1 else TypeError
    with refuses(kind, "random_state") as refused:
        generator(odd)
    assert kind is ValueError or "numpy.random.default_rng(seed)" in str(refused.value)


def test_normal_numbers_are_drawn_on_the_side_of_the_factors(device: EmulatedGPU) -> None:
    there = random_normals(3, (3, 5), like=device.asarray(np.empty(0, np.float32)))
    assert isinstance(there, DeviceArray)
    here = random_normals(3, (3, 5), like=np.empty(0, np.float32))
    np.testing.assert_allclose(there.get(), here, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_a_seed_of_numpys_is_as_one_of_pythons(kind: type[np.integer[Any]]) -> None:
    largest = np.iinfo(kind).max
    assert key_of(kind(largest), 3) == key_of(int(largest), 3)


@pytest.mark.parametrize("key", [0, 2**64 - 1])
def test_large_keys_do_not_overflow_aloud(key: int) -> None:
    assert random_bits(key, np.array([2**62])).dtype == np.uint64
