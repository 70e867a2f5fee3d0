"""Where a fit starts: from the data's leading directions, or from the factors of another."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.aligned import empty
from mfrank.backends import Backend, Factors
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.seeds import Seed, generator
from mfrank.spectral import random_factors, spectral_item_factors
from mfrank.store.factors import FactorStore

__all__ = ["first_factors"]


def first_factors(
    data: Interactions,
    width: int,
    dtype: DTypeLike,
    random_state: Seed,
    start: FactorStore | None,
    backend: Backend,
    n_threads: int = 0,
) -> tuple[Factors, Factors]:
    """User and item factors, new arrays.

    Without ``start``: spectral item factors, and users at 0, since a fit begins by solving them.
    With it: its factors where it has the id, random ones elsewhere.

    Raises
    ------
    TypeError, ValueError
        ``start`` is no store, has another width, fewer numbered rows, or none of the items.
    """
    random = generator(random_state)
    if start is None:
        users, items = data.user_rows(dtype), data.item_rows(dtype)
        item_factors = spectral_item_factors(users, items, width, random, dtype, backend, n_threads)
        user_factors = empty((data.n_users, width), dtype)
        user_factors[:] = 0
        return user_factors, item_factors
    if not isinstance(start, FactorStore):
        raise TypeError(f"start must be a fitted model or its store, got {start!r}")
    if start.factors != width:
        raise ValueError(
            f"start has {start.factors} factors, this model {width}; "
            f"set_params(factors={start.factors}) makes them agree"
        )
    start = start.on_host()
    user_factors = random_factors((data.n_users, width), random, dtype)
    item_factors = random_factors((data.n_items, width), random, dtype)
    _carry_over("users", user_factors, data.user_ids, start.user_factors, start.user_ids)
    # A fit begins by solving the users from the items: only these carry the start over.
    if not _carry_over("items", item_factors, data.item_ids, start.item_factors, start.item_ids):
        raise ValueError("start knows no item of the data; fit without it")
    return user_factors, item_factors


def _carry_over(side: str, new: Factors, ids: Ids, old: Factors, old_ids: Ids) -> int:
    """Put old factors in the rows of the ids they belong to; return how many these are."""
    if ids.table is None and old_ids.table is None and len(ids) < len(old_ids):
        raise ValueError(
            f"start has {len(old_ids)} {side}, the data only {len(ids)}. Rows without labels are "
            "matched by their numbers, and may be added but not taken away; fit without start"
        )
    rows = old_ids.rows(ids.labels, missing=-1)
    known = np.flatnonzero(rows >= 0)
    new[known] = old[rows[known]]
    return len(known)


def first_biases(
    data: Interactions, start: FactorStore | None, otherwise: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Biases of the items, a new array: those of the start where it has the id, or ``otherwise``.

    A start without biases has biases 0.
    """
    biases = otherwise.copy()
    if start is not None:
        known = start.on_host().item_biases
        own = np.zeros(start.n_items) if known is None else known
        _carry_over("items", biases, data.item_ids, own, start.item_ids)
    return biases
