"""Interactions held out of the first stage, in its rows, and which listed items they hold."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data.interactions import Interactions
from mfrank.reranking.features import FirstLists
from mfrank.store.factors import FactorStore

__all__ = ["Found", "HeldOut", "in_rows_of"]


class Found(NamedTuple):
    """What of the held-out interactions the candidates hold: the most a new order can show.

    Attributes
    ----------
    users : int
        Users whom the model knows, with held-out items that it knows.
    users_trained_on : int
        Those of them with both relevant and other items among their candidates.
    items : int
        Held-out items of these users, those that the model does not know included.
    items_found : int
        Those of them among the candidates.
    """

    users: int
    users_trained_on: int
    items: int
    items_found: int


class HeldOut(NamedTuple):
    """Users with held-out items that the model knows.

    Attributes
    ----------
    users : int64, shape (U,)
        Their rows, ascending.
    relevant : csr_array of bool, shape (U, n_items)
    unknown : int
        Held-out items, of these users, that the model has no row for.
    """

    users: NDArray[np.int64]
    relevant: sp.csr_array
    unknown: int

    @classmethod
    def of(cls, valid: Any, seen: sp.csr_array, store: FactorStore) -> HeldOut:
        """Entries above 0 that are not ``seen``, of users that the model knows.

        Raises
        ------
        ValueError
            There are none.
        """
        data = _read(valid, "valid", store)
        likes = data.take(data.user_items.data > 0)
        matrix = _placed(likes, store)
        new = sp.csr_array(matrix - matrix.multiply(seen))
        new.eliminate_zeros()
        users = np.flatnonzero(np.diff(new.indptr))
        if not len(users):
            raise ValueError(
                "valid has no user of the model with an item of the model that train does not "
                "have: give interactions held out of those that the model was fitted on"
            )
        known_item = store.item_ids.rows(likes.item_ids.labels, missing=-1) >= 0
        rows = store.user_ids.rows(likes.user_ids.labels, missing=-1)[likes.entry_users]
        unknown = np.isin(rows, users) & ~known_item[likes.user_items.indices]
        return cls(users, new[users].astype(bool), int(unknown.sum()))

    def labels(self, block: slice, lists: FirstLists) -> NDArray[np.bool_]:
        """Whether each item listed for a block of the users is held out, list after list."""
        users, places = lists.pairs
        relevant = self.relevant[block]
        width = relevant.shape[1]
        held = np.repeat(np.arange(relevant.shape[0]), np.diff(relevant.indptr)) * width
        return np.isin(users * width + lists.rows[users, places], held + relevant.indices)


def in_rows_of(store: FactorStore, data: Any, argument: str) -> sp.csr_array:
    """Which items users have, 1 for each, shape (n_users, n_items) of the store.

    Interactions and data frames are read by their ids, a sparse matrix has the store's rows.

    Raises
    ------
    ValueError
        The store does not know all of them, or a matrix has another shape.
    """
    read = _read(data, argument, store)
    placed = _placed(read, store)
    if placed.nnz < read.nnz:
        raise ValueError(
            f"{argument} must be what the model was fitted on: {read.nnz - placed.nnz} of its "
            f"{read.nnz} entries have users or items that the model does not know"
        )
    return placed


def _read(data: Any, argument: str, store: FactorStore) -> Interactions:
    try:
        if not sp.issparse(data):
            return Interactions.of(data)
        shape, given = (store.n_users, store.n_items), cast(Any, data).shape
        if given != shape:
            raise ValueError(f"a matrix must have the model's shape {shape}, got {given}")
        return Interactions.from_sparse(data, user_ids=store.user_ids, item_ids=store.item_ids)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {error}") from None


def _placed(data: Interactions, store: FactorStore) -> sp.csr_array:
    users = store.user_ids.rows(data.user_ids.labels, missing=-1)[data.entry_users]
    items = store.item_ids.rows(data.item_ids.labels, missing=-1)[data.user_items.indices]
    known = (users >= 0) & (items >= 0)
    ones = np.ones(int(known.sum()), dtype=np.int8)
    return sp.csr_array((ones, (users[known], items[known])), (store.n_users, store.n_items))
