"""What ``random_state`` means, the same everywhere."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mfrank.amounts import check_count, is_count

__all__ = ["Seed", "generator"]

Seed: TypeAlias = int | np.random.Generator | None


def generator(random_state: Seed) -> np.random.Generator:
    """Random number generator of a seed, or the one given, or (None) one of fresh entropy.

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
        raise TypeError(
            "random_state must be an int, a numpy.random.Generator or None, got "
            f"{type(random_state).__name__}; pass a seed or numpy.random.default_rng(seed)"
        )
    check_count("random_state", random_state, 0)
    return np.random.default_rng(int(random_state))
