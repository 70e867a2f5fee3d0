"""The paths by which a walk reaches an item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.pagerank.item_walk import ItemWalk

__all__ = ["LONGEST", "Path", "heaviest_paths"]

LONGEST = 3
"""Maximum number of steps of a path."""

_Paths = tuple[NDArray[np.int64], NDArray[np.float64]]


class Path(NamedTuple):
    """Items on a path, from the restart to its end, and the probability mass of the path."""

    items: tuple[Any, ...]
    mass: float


def heaviest_paths(
    walk: ItemWalk,
    start: sp.csr_array,
    values: NDArray[np.float64],
    item: int,
    alpha: float,
    n: int,
) -> list[Path]:
    """The ``n`` paths of up to three steps that contribute most to an item's probability.

    A walk restarts at the rate c = alpha + (1 - alpha) (probability of the dangling items). So
    pi = c sum_k (1 - alpha)^k (P')^k pi0, which is a sum over all paths to the item. The mass of a
    path is c pi0(seed) times, for each step, (1 - alpha) and the probability of the step.

    Parameters
    ----------
    walk : ItemWalk
    start : csr_array, shape (1, n_items)
        Restart probabilities, pi0.
    values : float64, shape (n_items,)
        Stationary probabilities of the walk, pi.
    item : int
        Row of the item.
    alpha : float
        Probability of a restart, in (0, 1).
    n : int
        Maximum number of paths.

    Returns
    -------
    list of Path
        By descending mass; items are rows.
    """
    rate = alpha + (1 - alpha) * float(values @ walk.dangling)
    seeds = start.indices.astype(np.int64)[:, None], rate * start.data
    best: list[Path] = []
    for nodes, masses in _paths(walk.steps, seeds, item, 1 - alpha):
        first = np.argsort(-masses, kind="stable")[:n]
        best += [Path(tuple(nodes[at].tolist()), float(masses[at])) for at in first]
    return sorted(best, key=lambda path: -path.mass)[:n]


def _paths(steps: sp.csr_array, seeds: _Paths, item: int, damping: float) -> Iterator[_Paths]:
    """Yield all paths to the item with 0, 1, 2 and 3 steps."""
    nodes, masses = seeds
    there = nodes[:, 0] == item
    yield nodes[there], masses[there]
    last = np.array([item])
    to_item = steps[:, last]
    before = np.flatnonzero(np.diff(to_item.indptr))  # only these lead to the item in one step
    every = np.arange(steps.shape[0])
    moves = [(steps, every), (steps[:, before], before), (to_item, last)]
    for length in range(1, LONGEST + 1):
        found = seeds
        for move, columns in moves[-length:]:
            found = _extended(found, move, columns, damping)
        yield found


def _extended(
    paths: _Paths, move: sp.csr_array, columns: NDArray[np.int64], damping: float
) -> _Paths:
    nodes, masses = paths
    taken = move[nodes[:, -1]]
    counts = np.diff(taken.indptr)
    ends = columns[taken.indices]
    longer = np.column_stack([np.repeat(nodes, counts, axis=0), ends])
    return longer, np.repeat(masses, counts) * (damping * taken.data)
