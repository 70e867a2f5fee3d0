"""Biases as columns of factors, for formats that know dot products alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.store.factors import FactorStore

__all__ = ["with_bias_columns"]


def with_bias_columns(store: FactorStore) -> tuple[NDArray[Any], NDArray[Any]]:
    """Factors of users and items, in numpy, whose dot products include the biases."""
    store = store.on_host()
    users, items = [store.user_factors], [store.item_factors]
    if store.item_biases is not None:
        users.append(np.ones((store.n_users, 1), store.dtype))
        items.append(store.item_biases[:, None])
    if store.user_biases is not None:
        users.append(store.user_biases[:, None])
        items.append(np.ones((store.n_items, 1), store.dtype))
    return np.hstack(users), np.hstack(items)
