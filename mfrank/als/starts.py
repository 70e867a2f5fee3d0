"""Initial factors and biases of a fit: spectral, or carried over from another fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.als.spectral import random_factors, spectral_item_factors
from mfrank.arrays.checks import shown
from mfrank.arrays.counted import counted
from mfrank.arrays.placement import empty_aligned
from mfrank.arrays.random import Seed, generator
from mfrank.backends import Backend, Factors
from mfrank.data.alignment import check_numbering
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.store.factors import FactorStore
from mfrank.store.step import Step

__all__ = ["as_step", "check_start", "first_biases", "first_factors"]

_ROWS_AT_ONCE = 1 << 16


def first_factors(
    data: Interactions,
    width: int,
    dtype: DTypeLike,
    random_state: Seed,
    start: FactorStore | None,
    backend: Backend,
    n_threads: int = 0,
) -> tuple[Factors, Factors]:
    """Return initial user and item factors, as new arrays.

    Without ``start``, item factors are spectral and user factors 0, since ALS begins by solving the
    users. With ``start``, factors are copied for ids that it contains and random for all others,
    but 0 for users without interactions, of whom nothing is known.

    Parameters
    ----------
    data : Interactions
    width : int
        K.
    dtype : float32 or float64
    random_state : int, numpy.random.Generator or None
    start : FactorStore or None
        With ``width`` factors (:func:`check_start`).
    backend : Backend
        Computes the spectral factors.
    n_threads : int, default 0
        0 uses every core this process may use.

    Returns
    -------
    user_factors, item_factors : numpy arrays, shape (n_users, width) and (n_items, width)

    Raises
    ------
    ValueError
        ``start`` has none of the items, or users of another kind; or neither it nor the data has
        ids, and it has more rows.
    """
    random = generator(random_state)
    if start is None:
        users, items = data.user_rows(dtype), data.item_rows(dtype)
        item_factors = spectral_item_factors(users, items, width, random, dtype, backend, n_threads)
        user_factors = empty_aligned((data.n_users, width), dtype)
        user_factors[:] = 0
        return user_factors, item_factors
    start = start.on_host()
    for side, ids, old in (
        ("user", data.user_ids, start.user_ids),
        ("item", data.item_ids, start.item_ids),
    ):
        check_numbering(old, ids, "start", side, "fit without start, or to data with its ids")
    user_factors = random_factors((data.n_users, width), random, dtype)
    user_factors[data.counts.users == 0] = 0
    item_factors = random_factors((data.n_items, width), random, dtype)
    _carry_over("users", user_factors, data.user_ids, start.user_factors, start.user_ids)
    # ALS begins by solving the users, so only item factors carry the start over.
    if not _carry_over("items", item_factors, data.item_ids, start.item_factors, start.item_ids):
        raise ValueError("start contains no item of the data; fit without start")
    if start.user_ids.are_text != data.user_ids.are_text:
        raise ValueError(
            f"start has users like {start.user_ids.raw([0]).item()!r}, the data like "
            f"{data.user_ids.raw([0]).item()!r}: convert the ids of one of them, or fit without "
            "start"
        )
    return user_factors, item_factors


def check_start(start: Any, width: int) -> None:
    """Raise TypeError unless it is a store, ValueError unless it has so many factors."""
    if not isinstance(start, FactorStore):
        raise TypeError(f"start must be a fitted model or its store, got {shown(start)}")
    if start.factors != width:
        raise ValueError(
            f"start has {counted(start.factors, 'factor')}, this model {width:,}; "
            f"use set_params(factors={start.factors}) to match"
        )


def _carry_over(side: str, new: Factors, ids: Ids, old: Factors, old_ids: Ids) -> int:
    """Copy old factors to the rows of the same ids; return the number of such rows."""
    if ids.table is None and old_ids.table is None and len(ids) < len(old_ids):
        raise ValueError(
            f"start has {len(old_ids):,} {side}, the data only {len(ids):,}. Without ids, rows are "
            "matched by number, so that rows can be added but not removed; fit without start"
        )
    rows = old_ids.rows(ids.labels, missing=-1)
    known = np.flatnonzero(rows >= 0)
    for begin in range(0, len(known), _ROWS_AT_ONCE):  # without another table
        some = known[begin : begin + _ROWS_AT_ONCE]
        new[some] = old[rows[some]]
    return len(known)


def first_biases(
    data: Interactions, start: FactorStore | None, otherwise: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Return initial item biases (n_items,), as a new array.

    They are those of ``start`` for ids that it contains (0 if it has no biases), and ``otherwise``
    (n_items,) for all others.
    """
    biases = otherwise.copy()
    if start is not None:
        known = start.on_host().item_biases
        own = np.zeros(start.n_items) if known is None else known
        _carry_over("items", biases, data.item_ids, own, start.item_ids)
    return biases


def as_step(
    data: Interactions, dtype: DTypeLike, random_state: Seed, start: FactorStore, backend: Backend
) -> Step:
    """A start as epoch 0 of a fit to the data: its factors and biases in the data's rows."""
    users, items = first_factors(data, start.factors, dtype, random_state, start, backend)
    start = start.on_host()
    of_users = _carried("users", data.user_ids, start.user_biases, start.user_ids)
    of_items = _carried("items", data.item_ids, start.item_biases, start.item_ids)
    return Step(0, 0.0, None, users, items, of_items, of_users)


def _carried(
    side: str, ids: Ids, old: NDArray[np.floating] | None, old_ids: Ids
) -> NDArray[np.floating] | None:
    """Old biases in the rows of these ids, 0 where there was none; None without biases."""
    if old is None:
        return None
    new = np.zeros(len(ids))
    _carry_over(side, new, ids, old, old_ids)
    return new
