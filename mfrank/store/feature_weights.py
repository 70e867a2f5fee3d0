"""Feature weights and means of rows, in the extras of a store that was fitted with features.

The mean of a row is its features times the weights; when the row is solved again, the ridge pulls
it to the mean. The features are not stored, only the encoding of their table's columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data import FeatureColumns
from mfrank.errors import unreadable
from mfrank.store.factors import FactorStore

_SIDES = ("user", "item")


def names_of(side: str) -> tuple[str, str]:
    """Names of a side's weights and means in the extras."""
    return f"{side}_feature_weights", f"{side}_feature_means"


def columns_name(side: str) -> str:
    """Name of the encoding of a feature table's columns in the extras."""
    return f"{side}_feature_columns"


def columns_of(store: FactorStore, side: str) -> FeatureColumns | None:
    """The encoding of a table's columns; None without features, or if they were not a table."""
    saved = store.extras.get(columns_name(side))
    return None if saved is None else FeatureColumns.from_array(saved)


def pack(side: str, weights: NDArray[np.float64], means: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Weights (F, K) and means (rows, K) as extras."""
    return dict(zip(names_of(side), (weights, means), strict=True))


def weights_of(store: FactorStore, side: str) -> NDArray[np.float64] | None:
    """Feature weights of a side, float64, shape (F, K); None if it was fitted without features."""
    return store.extras.get(names_of(side)[0])


def means_of(store: FactorStore, side: str) -> NDArray[Any] | None:
    """Means of the side's rows, shape (rows, K); None if it was fitted without features."""
    return store.extras.get(names_of(side)[1])


def featured(store: FactorStore) -> frozenset[str]:
    """The sides, "user" and "item", that were fitted with features."""
    return frozenset(side for side in _SIDES if names_of(side)[0] in store.extras)


def with_means(
    extras: Mapping[str, NDArray[Any]],
    side: str,
    n_rows: int,
    rows: NDArray[np.int64] | None = None,
    means: NDArray[Any] | None = None,
) -> dict[str, NDArray[Any]]:
    """The extras with means for ``n_rows`` rows of a side; rows without a mean get 0.

    ``means`` (n, K) are new means of ``rows``.
    """
    name = names_of(side)[1]
    if name not in extras:
        return dict(extras)
    old = extras[name]
    grown = np.zeros((n_rows, old.shape[1]), dtype=old.dtype)
    grown[: len(old)] = old
    if means is not None:
        grown[rows] = means
    return {**extras, name: grown}


def check_features(store: FactorStore) -> None:
    """Raise ValueError if the weights or means of a loaded store do not fit its factors."""
    for side, n_rows in zip(_SIDES, (store.n_users, store.n_items), strict=True):
        weights, means = weights_of(store, side), means_of(store, side)
        if weights is None and means is None:
            continue
        sound = (
            weights is not None
            and means is not None
            and weights.dtype == np.float64
            and weights.ndim == 2
            and weights.shape[1] == store.factors
            and means.shape == (n_rows, store.factors)
            and means.dtype == store.dtype
            and np.isfinite(weights).all()
        )
        if not sound:
            raise unreadable(f"the {side}s' feature weights saved with the model", "are damaged")
        columns = columns_of(store, side)
        if columns is not None and weights is not None and len(weights) != columns.width + 1:
            raise unreadable(f"the {side}s' feature columns saved with the model", "are damaged")
