"""What formats of factors can hold: models that rank by them, biases as columns beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_instance
from mfrank.store.blend import check_ranks_by_factors
from mfrank.store.factors import FactorStore

__all__ = ["check_exportable", "with_bias_columns"]


def check_exportable(store: FactorStore) -> None:
    """Raise unless it is a store, of a model that ranks by its factors alone."""
    check_instance("store", store, FactorStore, "a FactorStore, such as model.store")
    check_ranks_by_factors(
        store,
        "to_onnx writes models of weights between items, to_safetensors whole stores, and "
        "recommend_all the lists of any model",
    )


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
