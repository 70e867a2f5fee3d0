"""How a step of SONG grows with the catalog: by samples, and exactly over whole lists.

A sample is of each list's own others, or of others that all lists of a batch share.

Users and their number of likes stay; items grow. ``items_met`` is the mean number of different
items in a batch, whose rows a step reads and writes: where items are few, lists meet the same ones,
and only these few rows change. The exponent is the slope of log seconds on log items.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.exponents import exponent
from harness.ticks import descent_pace

import mfrank
from mfrank.data import Interactions

__all__ = ["MODES", "grow"]

LIKES = 20
MODES: dict[str, dict[str, Any]] = {
    "sampled": {
        "items": (10_000, 30_000, 100_000, 300_000, 1_000_000),
        "loss": mfrank.SONG(),
        "batch_size": 256,
        "steps": 12,
    },
    "shared": {
        "items": (10_000, 30_000, 100_000, 300_000, 1_000_000),
        "loss": mfrank.SONG(),
        "batch_size": 256,
        "steps": 12,
        "negatives": 1000,
        "shared_negatives": True,
    },
    "exact": {
        "items": (2_000, 4_000, 8_000, 16_000, 32_000, 64_000),
        "loss": mfrank.SONG(decay=1),
        "batch_size": 32,
        "steps": 5,
        "positives": None,
        "negatives": None,
    },
}
PLACES = {"sampled": 256 * (10 + 300), "shared": 256 * 10 + 1000}
"""Of a batch."""


def grow(mode: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each number of items."""
    options = dict(MODES[mode])
    sizes, steps = options.pop("items"), options.pop("steps")
    rounds: dict[int, list[float]] = {n_items: [] for n_items in sizes}
    for _ in range(args.repeats):
        for n_items in sizes:
            data = drawn(steps * options["batch_size"], n_items)
            rounds[n_items].append(descent_pace(data=data, n_threads=args.threads, **options).step)
    rows = [
        {
            "mode": mode,
            "items": n_items,
            "items_met": n_items if mode == "exact" else met(n_items, PLACES[mode]),
            "seconds_per_step": median(seconds),
        }
        for n_items, seconds in rounds.items()
    ]
    slope = exponent(rows, "items", "seconds_per_step")
    return [{**row, "exponent": slope} for row in rows]


def met(n_items: int, places: int) -> int:
    """Different items among those that so many places of a batch draw."""
    return round(n_items * (1 - (1 - 1 / n_items) ** places))


def drawn(n_users: int, n_items: int) -> Interactions:
    """Users with twenty likes each among so many items, all alike."""
    random = np.random.default_rng(0)
    positives = [
        random.choice(n_items, LIKES, replace=False, shuffle=False) for _ in range(n_users)
    ]
    indices = np.sort(positives, axis=1).ravel()
    indptr = np.arange(0, len(indices) + 1, LIKES)
    shape = (n_users, n_items)
    return Interactions.of(sp.csr_array((np.ones(len(indices)), indices, indptr), shape))
