"""A curve over epochs as SVG, and a map of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from mfrank.retrieval import Recommender

WIDTH, HEIGHT = 600.0, 160.0


def curve(values: Sequence[float | int | None]) -> dict[str, Any] | None:
    """Points of an SVG line, y downward, with the first and last epoch, and the range of values.

    None if there are fewer than two values.
    """
    known = [(epoch, float(value)) for epoch, value in enumerate(values, 1) if value is not None]
    if len(known) < 2:
        return None
    numbers = [value for _, value in known]
    least, span = min(numbers), max(numbers) - min(numbers)
    steps = known[-1][0] - known[0][0]
    points = [
        (
            WIDTH * (epoch - known[0][0]) / steps,
            HEIGHT * (1 - (value - least) / span) if span else HEIGHT / 2,
        )
        for epoch, value in known
    ]
    return {
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "epochs": [known[0][0], known[-1][0]],
        "least": least,
        "greatest": max(numbers),
        "last": numbers[-1],
    }


# A map of items: places in the plane where similar items are near one another.
#
# As in UMAP (McInnes, Healy & Melville 2018): neighbors attract, random others repel, from a
# spectral start; all pairs of a step at once, so that a few thousand items take about a second in
# numpy.


_NEIGHBORS, _STEPS, _OTHERS, _FARTHEST, _GRAVITY = 12, 250, 6, 4.0, 0.2
_MOST_DENSE = 200


def places(model: Recommender, rows: NDArray[np.int64], seed: int = 0) -> NDArray[np.float64]:
    """Places of items of a model, each coordinate in 0..1, shape (len(rows), 2).

    Parameters
    ----------
    model : Recommender
    rows : int, shape (n,)
        Rows of the items.
    seed : int, default 0
        The same seed gives the same map.
    """
    n = len(rows)
    if n < 4:
        return np.stack([np.linspace(0, 1, n), np.full(n, 0.5)], axis=1)
    heads, tails = _edges(model, rows)
    rng = np.random.default_rng(seed)
    at = _start(heads, tails, n, rng)
    for step in range(_STEPS):
        at += _pull(at, heads, tails, n, rng) * (1 - step / _STEPS)
    low, high = np.percentile(at, [0.5, 99.5], axis=0)
    return np.asarray(np.clip((at - low) / np.maximum(high - low, 1e-9), 0, 1))


def _edges(
    model: Recommender, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges from each item to its most similar ones, as positions in ``rows``.

    An item without a direction has none.
    """
    near, likeness = model.similar_items(rows, _NEIGHBORS + 1, items=rows, by_row=True, n_threads=1)
    place_of = np.zeros(len(model.item_ids), dtype=np.int64)
    place_of[rows] = np.arange(len(rows))
    heads, tails = np.repeat(np.arange(len(rows)), near.shape[1]), place_of[near.ravel()]
    is_edge = (tails != heads) & (likeness.ravel() > 0)  # padding of short lists is not above 0
    return heads[is_edge], tails[is_edge]


def _start(
    heads: NDArray[np.int64], tails: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The order of items by the second and third eigenvectors of the graph's random walk.

    The eigenvectors' values would put a few loosely connected items far away from all others.
    """
    graph = sp.csr_array((np.ones(len(heads)), (heads, tails)), shape=(n, n))
    graph = graph + graph.T + 1e-3 * sp.eye_array(n)
    scale = sp.diags_array(1 / np.sqrt(graph.sum(axis=1)))
    walk = scale @ graph @ scale
    if n <= _MOST_DENSE:  # ARPACK may find few directions here, and continues in a random one
        _, vectors = np.linalg.eigh(walk.toarray())
    else:
        _, vectors = eigsh(walk, k=3, which="LA", v0=np.ones(n), tol=1e-3)
    second, third = vectors[:, -2], vectors[:, -3]
    order = np.stack([second, third], axis=1).argsort(axis=0).argsort(axis=0)
    return np.asarray(20 * order / n - 10 + 0.1 * rng.standard_normal((n, 2)))


def _pull(
    at: NDArray[np.float64],
    heads: NDArray[np.int64],
    tails: NDArray[np.int64],
    n: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Displacement of each item in a step: toward its neighbors, away from a few others."""
    moves = -_GRAVITY * at
    apart = at[heads] - at[tails]
    square = (apart**2).sum(axis=1, keepdims=True)
    pulled = -2 / (1 + square) * apart  # its length is at most 1
    for side, sign in ((heads, 1.0), (tails, -1.0)):
        for axis in (0, 1):
            moves[:, axis] += sign * np.bincount(side, pulled[:, axis], minlength=n)
    everybody = np.tile(np.arange(n), _OTHERS)
    apart = at[everybody] - at[rng.integers(n, size=len(everybody))]
    square = (apart**2).sum(axis=1, keepdims=True)
    pushed = np.clip(2 / ((0.01 + square) * (1 + square)) * apart, -_FARTHEST, _FARTHEST)
    for axis in (0, 1):
        moves[:, axis] += np.bincount(everybody, pushed[:, axis])
    return 0.1 * np.clip(moves, -_FARTHEST * 5, _FARTHEST * 5)
