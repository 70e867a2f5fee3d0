"""Held-out interactions in the first stage's rows, and which candidates are among them."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import cells
from mfrank.data.alignment import check_numbering, matrix_in_rows
from mfrank.data.interactions import Interactions
from mfrank.models.reranker.features import FirstLists
from mfrank.models.value_checks import tell_below, tell_unread_values
from mfrank.store.factors import FactorStore

__all__ = ["Found", "HeldOut", "in_rows_of"]


class Found(NamedTuple):
    """How many held-out items are among the candidates, which bounds the gain of re-ranking.

    Attributes
    ----------
    users : int
        Users of the model with at least one held-out item of the model.
    users_trained_on : int
        Number of these users whose candidates include both held-out and other items.
    items : int
        Held-out items of all ``users``, including items unknown to the model.
    items_found : int
        Number of these items among the candidates.
    """

    users: int
    users_trained_on: int
    items: int
    items_found: int


class HeldOut(NamedTuple):
    """Users of the model with at least one held-out item of the model.

    Attributes
    ----------
    users : int64, shape (U,)
        Rows of the users, ascending.
    relevant : csr_array of bool, shape (U, n_items)
        Their held-out items.
    unknown : int
        Number of held-out items of these users that the model has no row for.
    """

    users: NDArray[np.int64]
    relevant: sp.csr_array
    unknown: int

    @classmethod
    def of(cls, valid: Any, seen: sp.csr_array, store: FactorStore) -> HeldOut:
        """Take the entries of ``valid`` above 0 and not in ``seen``, of users with a known item.

        Raises
        ------
        ValueError
            There is no such user.
        """
        data = _read(valid, "valid", store)
        tell_unread_values("Reranker", data)
        tell_below("valid", data, store.threshold, "count as hits")
        positives = data.take(data.user_items.data > 0)
        matrix = _placed(positives, store)
        new = sp.csr_array(matrix - matrix.multiply(seen))  # what is only seen may be held out
        new.eliminate_zeros()
        users = np.flatnonzero(np.diff(new.indptr))
        if not len(users):
            raise ValueError(
                "valid has no user of the model with an item of the model that is not in train: "
                "pass interactions that were held out of the model's fit"
            )
        known_item = store.item_ids.rows(positives.item_ids.labels, missing=-1) >= 0
        rows = store.user_ids.rows(positives.user_ids.labels, missing=-1)[positives.entry_users]
        unknown = np.isin(rows, users) & ~known_item[positives.user_items.indices]
        return cls(users, new[users].astype(bool), int(unknown.sum()))

    def labels(self, block: slice, lists: FirstLists) -> NDArray[np.bool_]:
        """Whether each listed item of a block of users is held out, bool (pairs,), list by list."""
        users, places = lists.pairs
        relevant = self.relevant[block]
        width = relevant.shape[1]
        held = np.repeat(np.arange(relevant.shape[0]), np.diff(relevant.indptr)) * width
        return np.isin(users * width + lists.rows[users, places], held + relevant.indices)


def in_rows_of(store: FactorStore, data: Any, argument: str) -> sp.csr_array:
    """The pattern of the interactions in the store's rows, int8 ones, shape (n_users, n_items).

    Zeros are only seen. Interactions and DataFrames are matched by id; a sparse matrix must have
    the store's rows.

    Raises
    ------
    TypeError, ValueError
        A user or item is unknown to the store, a matrix has another shape, or the data cannot be
        read as interactions.
    """
    read = _read(data, argument, store)
    placed = _placed(read, store)
    if placed.nnz < read.nnz:
        raise ValueError(
            f"{argument} must be the data the model was fitted on: {read.nnz - placed.nnz:,} of "
            f"its {read.nnz:,} entries have users or items unknown to the model"
        )
    if read.seen_only is None:
        return placed
    return cells.with_zeros(placed, _placed(read.seen_only, store))


def _read(data: Any, argument: str, store: FactorStore) -> Interactions:
    try:
        if not sp.issparse(data):
            data = Interactions.of(data)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {error}") from None
    if sp.issparse(data):
        return matrix_in_rows(data, store.user_ids, store.item_ids, argument)
    check_numbering(data.user_ids, store.user_ids, argument, "user")
    check_numbering(data.item_ids, store.item_ids, argument, "item")
    return cast(Interactions, data)


def _placed(data: Interactions, store: FactorStore) -> sp.csr_array:
    users = store.user_ids.rows(data.user_ids.labels, missing=-1)[data.entry_users]
    items = store.item_ids.rows(data.item_ids.labels, missing=-1)[data.user_items.indices]
    known = (users >= 0) & (items >= 0)
    ones = np.ones(int(known.sum()), dtype=np.int8)
    cells_of = users[known], items[known]
    rows = sp.csr_array((ones, cells_of), (store.n_users, store.n_items))
    rows.sort_indices()
    return rows
