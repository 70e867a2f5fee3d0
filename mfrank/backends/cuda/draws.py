"""Sampling of positives and negatives, on the device."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.device import Array, Device, Grid
from mfrank.backends.cuda.sources import Module

__all__ = ["Rows", "draw_negatives", "draw_positives"]

Rows = tuple[Array, Array, int]
"""indptr and indices of a CSR on the device, and its number of columns."""

_THREADS, _DIGITS, _SHARED = 128, 256, 1024 + 48  # bytes of shared memory, kernels/draws.cu


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
            Grid(-(-items.size // _THREADS), _THREADS),
            (*rows, users, len(users), n_places, _signed(key), cumulative, rounds, items, filled),
        )
    return items, filled


def _signed(key: int) -> int:
    """The same 64 bits as a signed integer."""
    return key - 2**64 if key >= 2**63 else key
