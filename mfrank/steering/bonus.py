"""What is added to scores: boosts of single items, and the popularity penalty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["boosts_of", "popularity_of", "spread_of"]

Floats = NDArray[np.float64]


def boosts_of(
    boosts: Mapping[Any, float], n_items: int, rows_of: Callable[[list[Any]], NDArray[np.int64]]
) -> Floats:
    """The boost of each item, shape (n_items,); ``rows_of`` gives -1 for an item to leave out."""
    rows, values = rows_of(list(boosts)), np.array(list(boosts.values()), dtype=np.float64)
    found = np.zeros(n_items)
    found[rows[rows >= 0]] = values[rows >= 0]
    return found


def popularity_of(users: NDArray[np.int64]) -> Floats:
    """Log of 1 + the number of users of each item, (n_items,), standardized over the items.

    Mean 0 and standard deviation 1; all are 0 if all items have equally many users.
    """
    logs = np.log1p(users)
    deviation = logs.std() if len(logs) and logs.min() < logs.max() else 1.0
    return np.asarray((logs - logs.mean()) / deviation) if len(logs) else logs


def spread_of(queries: NDArray[Any], covariance: Floats) -> Floats:
    """Standard deviation of each query's scores of all items, shape (U,).

    1 where all scores are equal, or where it is not finite.

    Parameters
    ----------
    queries : shape (U, K)
    covariance : shape (K, K)
        Of the items' factors.
    """
    wide = queries.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(np.maximum(np.einsum("uk,uk->u", wide @ covariance, wide), 0))
    return np.where(np.isfinite(spread) & (spread > 0), spread, 1.0)
