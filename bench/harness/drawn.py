"""Interactions of any size, drawn on a GPU in seconds: users and items by power laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.data import Interactions

__all__ = ["drawn"]

_SEED, _SPREAD, _EXPONENT = 0, 1.0, 0.6


def drawn(n_users: int, n_items: int, n_entries: int) -> Interactions:
    """About so many entries of value 1; an item is drawn once for each user at most.

    Users' numbers of items are lognormal, with a standard deviation of 1 of the logarithm; item i
    is as likely as (i + 1)^-0.6.
    """
    import cupy as cp

    random: Any = cp.random.default_rng(_SEED)
    sizes = cp.exp(_SPREAD * random.standard_normal(n_users))
    ends = cp.cumsum(sizes / sizes.sum() * n_entries).astype(np.int64)
    n = int(ends[-1])
    users = cp.searchsorted(ends, cp.arange(n), side="right")
    chances = cp.arange(1, n_items + 1, dtype=np.float64) ** -_EXPONENT
    cumulative = cp.cumsum(chances / chances.sum())
    items = cp.minimum(cp.searchsorted(cumulative, random.random(n)), n_items - 1)
    cells = cp.unique(users * n_items + items)
    del users, items
    indptr = cp.searchsorted(cells, cp.arange(n_users + 1) * n_items).get()
    columns = (cells % n_items).astype(np.int32).get()
    cp.get_default_memory_pool().free_all_blocks()
    ones = np.ones(len(columns), np.float32)
    return Interactions.of(sp.csr_array((ones, columns, indptr), shape=(n_users, n_items)))
