"""Random numbers by position: the n-th of a stream is a function of its key and n alone.

So no thread waits for another's, every backend draws the same, and a fit that goes on from its
epoch 7 draws what it would have drawn (cext/random.h says the same).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank import native

__all__ = ["key_of", "random_bits", "random_normals", "random_units"]

_END = 2**64
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def random_bits(key: int, positions: NDArray[np.integer]) -> NDArray[np.uint64]:
    """64 random bits at each position: SplitMix64 (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        x = np.uint64(key) + (positions.astype(np.uint64) + np.uint64(1)) * _STEP
        x = (x ^ (x >> np.uint64(30))) * _MIX[0]
        x = (x ^ (x >> np.uint64(27))) * _MIX[1]
        bits: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return bits


def random_units(key: int, positions: NDArray[np.integer]) -> NDArray[np.float64]:
    """Numbers in [0, 1) at each position, of 53 bits."""
    return (random_bits(key, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_normals(
    key: int, shape: tuple[int, ...], like: NDArray[Any], n_threads: int = 1
) -> NDArray[Any]:
    """Standard normal numbers, in the float dtype and where ``like`` is.

    Two of two units each (Box & Muller 1958), in the C++ extension where it is: the same but for
    rounding.
    """
    if native.takes(like):
        found = np.empty(math.prod(shape), like.dtype)
        native.ext.normals(key, found, n_threads)
        return found.reshape(shape)
    pairs = -(-math.prod(shape) // 2)
    units = random_units(key, np.arange(2 * pairs, like=like)).reshape(2, pairs)
    radius, angle = np.sqrt(-2 * np.log1p(-units[0])), 2 * np.pi * units[1]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return both[: math.prod(shape)].reshape(shape).astype(like.dtype, copy=False)


def key_of(seed: int, *path: int) -> int:
    """Key of the stream at the end of a path, such as (epoch, batch): the seed's own at none."""
    key = seed % _END
    for step in path:
        x = (key + (step + 1) * int(_STEP)) % _END  # random_bits of a single position
        x = (x ^ (x >> 30)) * int(_MIX[0]) % _END
        x = (x ^ (x >> 27)) * int(_MIX[1]) % _END
        key = x ^ (x >> 31)
    return key
