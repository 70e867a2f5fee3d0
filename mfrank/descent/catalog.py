"""The whole catalog, of which lists may contain a part; samples are weighted by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR

__all__ = ["Catalog", "negative_weight", "popularity_weights"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Catalog(NamedTuple):
    """The catalog of U users' rows; its C columns may be a part of the items.

    Attributes
    ----------
    n_items : int
        Of the whole catalog.
    counts : int64, shape (U,)
        Positives of each user among all items.
    weights : float64, shape (C,)
        Negatives are sampled proportionally to these.
    negative_weight : float64, shape (U,)
        Sum of the weights of all items that are not the user's positives.
    """

    n_items: int
    counts: Ints
    weights: Floats
    negative_weight: Floats

    @classmethod
    def of(cls, rows: CSR, power: float | None) -> Catalog:
        """All columns of the rows, weighted by popularity to the power; None weights all alike."""
        n_items = rows.n_columns
        weights = np.ones(n_items) if power is None else popularity_weights(rows, power)
        return cls(n_items, rows.counts, weights, negative_weight(rows, weights))

    def part(self, users: Ints, items: Ints) -> Catalog:
        """The catalog of these users and these items."""
        return Catalog(
            self.n_items, self.counts[users], self.weights[items], self.negative_weight[users]
        )


def negative_weight(rows: CSR, weights: Floats) -> Floats:
    """Sum of the weights of the columns that each row has no entry in."""
    cumulative = np.concatenate([[0.0], np.cumsum(weights[rows.indices])])
    found: Floats = weights.sum() - np.diff(cumulative[rows.indptr])
    return found


def popularity_weights(rows: CSR, power: float) -> Floats:
    """Return each item's number of users, at least 1, to the given power."""
    popularity = np.bincount(rows.indices, minlength=rows.n_columns)
    with np.errstate(over="ignore"):
        weights: Floats = np.maximum(popularity, 1.0) ** power
    if not np.isfinite(weights.sum()):
        raise ValueError(
            f"popularity_power {power:g} overflows float64 for an item with "
            f"{popularity.max():,} users; use a smaller one, such as 0.75"
        )
    return weights
