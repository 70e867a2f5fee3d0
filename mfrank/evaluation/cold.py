"""Cold users and items of a test part: a model could not learn anything about them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import as_array, on_host
from mfrank.data import Interactions
from mfrank.evaluation.inputs import UserItems, matrix_of
from mfrank.retrieval import Recommender
from mfrank.store import FactorStore, empty_rows, has_counts, has_features

Ints = NDArray[np.int64]


class Cold(NamedTuple):
    """Which users and items are cold: without interactions in the fit, and without features.

    They depend only on the training data, not on the model, even if a model lists something for
    cold users, such as popular items.

    Attributes
    ----------
    users, items : bool, shape (n_users,) and (n_items,)
    """

    users: NDArray[np.bool_]
    items: NDArray[np.bool_]

    @classmethod
    def of(
        cls, model: Any, train: UserItems | None, shape: tuple[int, int], *, folded_in: bool
    ) -> Self:
        """Use the counts of the model's fit, else the training data, else the factors.

        Parameters
        ----------
        model : as in ``evaluate``
        train : Interactions, sparse matrix, or None
            With ``folded_in``, the fold-in part of held-out users.
        shape : (n_users, n_items)
        folded_in : bool
        """
        store = store_of(model)
        known = _of_store(store) or _of_train(train) or _of_factors(store or model)
        users, items = known or (None, None)
        if folded_in and train is not None:
            users = _counts_of(train)[0] == 0
        return cls(*(_of_length(rows, n) for rows, n in zip((users, items), shape, strict=True)))


def store_of(model: Any) -> FactorStore | None:
    """The store of a model, or of the first stage of a Reranker."""
    if isinstance(model, FactorStore):
        return model
    if isinstance(model, Recommender):
        return model.placed
    first = getattr(model, "model", None)
    return first.placed if isinstance(first, Recommender) else None


def _of_store(store: FactorStore | None) -> tuple[Any, Any] | None:
    """By the counts of the fit, of which it is known what they say of the factors."""
    if store is None or not has_counts(store):
        return None
    users, items = store.known_counts.users == 0, store.known_counts.items == 0
    return (
        np.zeros_like(users) if has_features(store, "user") else users,
        np.zeros_like(items) if has_features(store, "item") else items,
    )


def _of_train(train: UserItems | None) -> tuple[Any, Any] | None:
    if train is None:
        return None
    users, items = _counts_of(train)
    return users == 0, items == 0


def _of_factors(source: Any) -> tuple[Any, Any] | None:
    sides = getattr(source, "user_factors", None), getattr(source, "item_factors", None)
    if any(getattr(side, "ndim", None) != 2 for side in sides):
        return None
    users, items = (empty_rows(as_array(side, "factors"), None) for side in sides)
    return users, items


def _counts_of(train: UserItems) -> tuple[Ints, Ints]:
    """Numbers of interactions of each user and item."""
    if isinstance(train, Interactions):
        return train.counts.users, train.counts.items
    rows: sp.csr_array = matrix_of(train, "train")
    return np.diff(rows.indptr), np.bincount(rows.indices, minlength=rows.shape[1])


def _of_length(rows: Any, n: int) -> NDArray[np.bool_]:
    """The rows on the host; none if it is not known, or they are others (which is refused)."""
    if rows is None or len(rows) != n:
        return np.zeros(n, dtype=bool)
    found: NDArray[np.bool_] = on_host(rows)
    return found
