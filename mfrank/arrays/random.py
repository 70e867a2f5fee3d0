"""Random numbers: the meaning of ``random_state``, and counter-based streams.

The n-th number of a stream is a function of its key and n alone. So threads draw independently,
all backends draw the same numbers, and a fit resumed after epoch 7 draws the same numbers as an
uninterrupted one. ``cext/host/random.h`` implements the same streams.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_count, is_count
from mfrank.errors import InputTypeError

Seed: TypeAlias = int | np.random.Generator | None


def generator(random_state: Seed) -> np.random.Generator:
    """Return a generator seeded with an int, the given one, or (None) one with fresh entropy.

    Raises
    ------
    TypeError
        If ``random_state`` is anything else, numpy's legacy ``RandomState`` included.
    ValueError
        If the seed is negative.
    """
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if not is_count(random_state):
        raise InputTypeError(
            "`random_state` must be an int, a numpy.random.Generator or None, got "
            f"{type(random_state).__name__}",
            "pass a seed or `numpy.random.default_rng(seed)`",
        )
    check_count("random_state", random_state, 0)
    return np.random.default_rng(int(random_state))


_END = 2**64
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def random_bits(key: int, positions: NDArray[np.integer]) -> NDArray[np.uint64]:
    """64 random bits at each position of a stream: SplitMix64 (Steele, Lea & Flood 2014)."""
    x = np.uint64(key) + (positions.astype(np.uint64) + np.uint64(1)) * _STEP
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    bits: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return bits


def random_units(key: int, positions: NDArray[np.integer]) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) with 53 random bits, at each position of a stream."""
    return (random_bits(key, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_normals(key: int, shape: tuple[int, ...], like: NDArray[Any]) -> NDArray[Any]:
    """Standard normal numbers with the dtype and on the side (host or GPU) of ``like``.

    Two from each pair of uniform numbers (Box & Muller 1958).
    """
    pairs = -(-math.prod(shape) // 2)
    units = random_units(key, np.arange(2 * pairs, like=like)).reshape(2, pairs)
    radius, angle = np.sqrt(-2 * np.log1p(-units[0])), 2 * np.pi * units[1]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return both[: math.prod(shape)].reshape(shape).astype(like.dtype, copy=False)


def key_of(seed: int, *path: int) -> int:
    """Key of the stream for a path such as (epoch, batch); the seed mod 2^64 for an empty path."""
    key = int(seed) % _END  # numpy's integers do not hold 2^64
    for step in path:
        x = (key + (step + 1) * int(_STEP)) % _END  # random_bits at position step
        x = (x ^ (x >> 30)) * int(_MIX[0]) % _END
        x = (x ^ (x >> 27)) * int(_MIX[1]) % _END
        key = x ^ (x >> 31)
    return key
