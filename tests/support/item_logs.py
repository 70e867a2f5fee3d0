"""Interactions in time of users with some of twelve items."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank import Interactions

N_ITEMS = 12


def log(*sequences: str, **options: Any) -> Interactions:
    """Sequences of items a, b, c, ..., one of each user, in time."""
    cells = [(u, item, t) for u, items in enumerate(sequences) for t, item in enumerate(items)]
    users, items, times = zip(*cells, strict=True)
    return Interactions.from_arrays(users, items, timestamps=times, **options)


def random_log(seed: int = 0, n_users: int = 20, *, idle: int = 0) -> Interactions:
    """Users with three to eight of the items, and idle ones; the last item is nobody's."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, n_users)
    items = np.concatenate([rng.choice(N_ITEMS - 1, size, replace=False) for size in sizes])
    users = np.repeat(np.arange(n_users), sizes)
    times = rng.permutation(len(items))
    shape = n_users + idle, N_ITEMS
    return Interactions.from_arrays(users, items, timestamps=times, shape=shape)
