"""Kernels of stochastic descent on the device: draws, scores, sums of gradients, Adam updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mfrank.arrays import Array, Device, Grid
from mfrank.backends.cuda.blocks import warps
from mfrank.backends.cuda.kernel_sources import Module

if TYPE_CHECKING:
    from mfrank.backends.arguments import AdamAverages, AdamRates

_THREADS, _WARP = 128, 32


def score(device: Device, queries: Array, items: Array, ids: Array, distances: bool) -> Array:
    """``queries[q] . items[ids[b, i]]``, or distances, for the list b of each query q."""
    ids = _list_of_each_query(device, ids, queries)
    scores = device.xp.empty(ids.shape, items.dtype)
    if ids.size:
        args = queries, items, ids, *ids.shape, items.shape[1], int(distances), scores
        device.launch(Module.of("lists", items.dtype), "score", warps(ids.size), args)
    return scores


def sum_items(device: Device, items: Array, ids: Array, gradients: Array) -> Array:
    """Sum over i of ``gradients[q, i] items[ids[b, i]]`` for the list b of each query q."""
    ids = _list_of_each_query(device, ids, gradients)
    ends = device.xp.arange(1, len(ids) + 1) * ids.shape[1]
    return _sum_terms(device, ends, ids.ravel(), gradients.ravel(), items)


def sum_queries(
    device: Device, queries: Array, ids: Array, gradients: Array
) -> tuple[Array, Array, Array]:
    """Items with nonzero gradients, ascending; sums of ``gradients[q, i] queries[q]``; totals.

    An item's terms are summed in the order of the lists: by a stable sort, without atomics.
    """
    ids = _list_of_each_query(device, ids, queries)
    xp, n_places = device.xp, ids.shape[1]
    gradients, flat = gradients.ravel(), ids.ravel()
    terms = xp.flatnonzero(gradients)
    terms = terms[xp.argsort(flat[terms], kind="stable")]
    of_terms, items = gradients[terms], flat[terms]
    is_last = xp.ones(len(items), np.bool_)
    xp.not_equal(items[1:], items[:-1], out=is_last[:-1])
    last = xp.flatnonzero(is_last)
    totals = xp.empty(len(last), gradients.dtype)
    sums = _sum_terms(device, last + 1, terms // max(n_places, 1), of_terms, queries, totals)
    return items[last], sums, totals


def adam(
    device: Device,
    table: Array,
    rows: Array,
    gradients: Array,
    averages: AdamAverages,
    rates: AdamRates,
) -> None:
    """Update some rows, none twice, in place."""
    if not len(rows):
        return
    averages.updates[rows] += 1
    device.launch(
        Module.of("lists", table.dtype),
        "adam",
        Grid(-(-gradients.size // _THREADS), _THREADS),
        (table, rows, gradients, *averages, len(rows), table.shape[1], *map(float, rates)),
    )


def _list_of_each_query(device: Device, ids: Array, queries: Array) -> Array:
    """Each query's list."""
    width = len(queries) // max(1, len(ids))
    return ids if width == 1 else device.xp.repeat(ids, width, axis=0)


def _sum_terms(
    device: Device,
    ends: Array,
    ids: Array,
    weights: Array,
    rows: Array,
    totals: Array | None = None,
) -> Array:
    """Sum of ``weights[e] rows[ids[e]]`` over ``ends[b - 1] <= e < ends[b]``, for each b.

    And of ``weights[e]``, into ``totals``.
    """
    n, k = len(ends), rows.shape[1]
    sums = device.xp.empty((n, k), rows.dtype)
    if n:
        width = -(-k // _WARP) * _WARP if k < _THREADS else _THREADS
        shared = -(-(_THREADS // width * k) * rows.dtype.itemsize // 16) * 16
        device.launch(
            Module.of("lists", rows.dtype),
            "sum_terms",
            Grid(n, _THREADS, shared),
            (
                ends.astype(np.int64, copy=False),
                ids.astype(np.int64, copy=False),
                weights,
                rows,
                k,
                sums,
                totals,
            ),
        )
    return sums


# Sampling of positives and negatives, on the device.


Rows = tuple[Array, Array, int]
"""indptr and indices of a CSR on the device, and its number of columns."""

_DRAW_THREADS, _DIGITS, _SHARED = 128, 256, 1024 + 48  # bytes of shared memory, kernels/draws.cu


def draw_positives(device: Device, rows: Rows, users: Array, n_places: int, key: int) -> Array:
    """See ``Backend.draw_positives``."""
    cells = device.xp.empty((len(users), n_places), np.int64)
    if cells.size:
        args = rows[0], users, n_places, _signed(key), device.xp.empty_like(cells), cells
        grid = Grid(len(users), _DIGITS, _SHARED)
        device.launch(Module.of("draws", np.float32), "draw_positives", grid, args)
    return cells


def draw_negatives(
    device: Device,
    rows: Rows,
    users: Array,
    n_places: int,
    key: int,
    cumulative: Array | None,
    rounds: int,
) -> tuple[Array, Array]:
    """See ``Backend.draw_negatives``."""
    items = device.xp.empty((len(users), n_places), np.int64)
    filled = device.xp.empty(items.shape, np.bool_)
    if items.size:
        device.launch(
            Module.of("draws", np.float32),
            "draw_negatives",
            Grid(-(-items.size // _DRAW_THREADS), _DRAW_THREADS),
            (*rows, users, len(users), n_places, _signed(key), cumulative, rounds, items, filled),
        )
    return items, filled


def _signed(key: int) -> int:
    """The same 64 bits as a signed integer."""
    return key - 2**64 if key >= 2**63 else key
