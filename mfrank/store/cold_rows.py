"""Cold users and items of a store: rows that nothing is known of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import beside

if TYPE_CHECKING:
    from mfrank.store.factors import FactorStore

_CELLS_AT_ONCE = 1 << 22
_ROUNDING = 1e-3  # relative error of float32 sums of squares


def empty_rows(factors: NDArray[Any], biases: NDArray[Any] | None) -> NDArray[np.bool_] | None:
    """Rows with zero factors and bias, bool (n,), on the factors' device; None if there are none.

    The factors are read by blocks: they may be mapped, or on a GPU.
    """
    n, width = factors.shape
    empty = ~np.zeros(n, dtype=bool, like=factors)
    step = max(1, _CELLS_AT_ONCE // max(width, 1))
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        empty[part] = ~factors[part].any(axis=1)
    if biases is not None:
        empty &= beside(biases, factors) == 0
    return empty if bool(empty.any()) else None


def joins_weights(store: FactorStore) -> bool:
    """Whether it is a blend of factors with weights between items."""
    name = store.fitter["name"]
    return name == "ItemBlend" or (name == "Blend" and "neighbors_indptr" in store.extras)


def unmet_items(store: FactorStore) -> NDArray[np.bool_] | None:
    """Cold items: without users, features or other data; in the form of :func:`empty_rows`.

    An item without users gets its factors only from the background or as a negative, like all such
    items, so it is cold, unless it has features or a prior of a walk. Nothing is concluded from
    counts for factors from outside mfrank, nor from empty factors in a blend with weights between
    items, where such an item may have weights.
    """
    unmet = None
    if not joins_weights(store):
        unmet = empty_rows(store.item_factors, store.item_biases)
    if not has_counts(store) or has_features(store, "item"):
        return unmet
    without = store.known_counts.items == 0
    if store.item_prior is not None:
        without = beside(without, store.item_prior) & (store.item_prior == 0)
    if not bool(without.any()):
        return unmet
    without = beside(without, store.item_factors)
    return without if unmet is None else unmet | without


def ranks_anybody(
    item_factors: NDArray[Any],
    item_biases: NDArray[Any] | None,
    user_biases: NDArray[Any] | None = None,
) -> bool:
    """Whether item biases rank items even for a user without factors.

    Biases of distances (:class:`mfrank.Descent`), which come with user biases, do not: they are
    squared lengths and would rank items by their distance to the origin.
    """
    biases = item_biases
    if biases is None or len(biases) < 2 or bool((biases == biases[0]).all()):
        return False
    if user_biases is None:
        return True
    lengths = np.einsum("nk,nk->n", item_factors, item_factors) / 2
    return not bool((np.abs(lengths + biases) <= _ROUNDING * lengths + 1e-7).all())


def has_counts(store: FactorStore) -> bool:
    """Whether the number of users of each item in the fit is known."""
    named = store.fitter["name"] != "unknown"
    return named and store.counts is not None and bool(store.counts.items.any())


def has_features(store: FactorStore, side: str) -> bool:
    """Whether rows of a side ("user" or "item") have factors from features, also in a blend."""
    return f"{side}_feature_weights" in store.extras or bool(
        store.fitter["options"].get(f"{side}_features")
    )
