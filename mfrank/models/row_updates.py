"""Updates of models without closed-form rows: a descent by maps, one-step models by a new fit.

A descent takes up new interactions in one pass, without a step of its loss. New users get the
factors that :class:`mfrank.models.row_map.RowMap` finds from the items that the model knows. Items
with new interactions move as a map of the same kind does, which also has the logarithm of their
number of users and predicts their bias; what the map does not explain of an item stays, times the
share of its interactions that are old. So a new item follows from its users alone. Then all users
with new interactions follow from their items. A second pass ranked worse in most trials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.backends import Factors
from mfrank.data import Interactions, cells
from mfrank.errors import InputValueError
from mfrank.models.odd_updates import tell_odd_update
from mfrank.models.options import tell_uncut
from mfrank.models.partial_fit import Delta, with_rows
from mfrank.models.row_map import Floats, RowMap, sums_of
from mfrank.models.update_data import (
    check_batch,
    chosen_of_update,
    content_of,
    new_of,
    updated,
    was_applied,
)
from mfrank.retrieval import ModelState, Seen, left_out_of
from mfrank.store import FactorStore

_RIDGE = 1e-3


def update_of(
    held: ModelState,
    old: sp.csr_array | None,
    new: Any,
    batch: str | None,
    leave_out: Any,
    after: Callable[[Delta, Interactions], tuple[FactorStore, int]],
    reader: str | None = None,
) -> tuple[FactorStore, Seen] | None:
    """The state of a model after an update; None if it has had the batch, which is logged.

    Parameters
    ----------
    held : ModelState
    old : csr_array, shape (n_users, n_items)
        The interactions of the fit with what the model reads of their values; None if unknown.
    new, batch, leave_out
        As in :meth:`mfrank.Descent.partial_fit`.
    after : function
        Called with the interactions, old and new together, and with the new ones; returns the store
        and the number of rows that were made anew.
    reader : str, optional
        Name of the model if it reads values.
    """
    began = perf_counter()
    check_batch(batch)
    chosen = chosen_of_update(leave_out, held.seen)
    store = held.on_host()
    data = new_of(new, store)
    content = content_of(data)
    if was_applied(store.history, batch, content):
        return None
    if held.seen is None or old is None:
        raise InputValueError(
            "the model has no interactions, which an update adds to:",
            "load a model saved with `with_seen=True`",
        )
    tell_uncut("new", data, store, "are learned from like the others")
    tell_odd_update(store, old, data, reader)
    delta = Delta.of(store, cells.with_zeros(old, held.seen.only), data, 1.0)
    made, n_rows = after(delta, data)
    made = replace(made, history=updated(store.history, n_rows, began, batch, content))
    more = None if chosen is None else left_out_of(chosen, made)
    return made, held.seen.updated(delta.seen, more)


def descended(
    store: FactorStore, solver: RowMap, delta: Delta, before: sp.csr_array
) -> tuple[FactorStore, int]:
    """The store of a descent after an update; ``solver`` is of the store and its positives."""
    n_users, n_items = len(delta.user_ids), len(delta.item_ids)
    users, items = (
        with_rows(factors, n, 1)
        for factors, n in ((store.user_factors, n_users), (store.item_factors, n_items))
    )
    of_users, of_items = (
        None if biases is None else with_rows(biases, n, 1)
        for biases, n in ((store.user_biases, n_users), (store.item_biases, n_items))
    )
    likes = delta.user_items
    touched = np.flatnonzero(delta.new.users)

    def map_users(some: NDArray[np.int64]) -> None:
        found, biases = replace(solver, items=items).users(likes[some])
        users[some] = found
        if of_users is not None and biases is not None:
            of_users[some] = biases

    map_users(touched[touched >= store.n_users])
    moved = np.flatnonzero(delta.new.items)
    if len(moved):
        items[moved], biases = _ItemMap.of(store, before).moved(store, before, delta, users, moved)
        if of_items is not None:
            of_items[moved] = biases
    map_users(touched)
    made = replace(
        store,
        user_factors=users,
        item_factors=items,
        user_biases=of_users,
        item_biases=of_items,
        user_ids=delta.user_ids,
        item_ids=delta.item_ids,
        counts=delta.counts,
    )
    return made, len(touched) + len(moved)


@dataclass(frozen=True, slots=True, eq=False)
class _ItemMap:
    """Factors and biases of items from those of their users, by a ridge regression over the fit.

    ``length`` is that of all items, as of cosines; None if they differ. ``distances`` is whether
    biases have -|q|^2 / 2 in them.
    """

    matrix: Floats
    length: float | None
    distances: bool

    @classmethod
    def of(cls, store: FactorStore, likes: sp.csr_array) -> _ItemMap:
        """The map of the items of a store from their users, shape (n_users, n_items)."""
        before = sp.csr_array(likes.T)
        some = np.flatnonzero(np.diff(before.indptr))
        outputs, distances = _outputs(store, some), store.user_biases is not None
        lengths = np.linalg.norm(outputs[:, :-1], axis=1)
        same = np.ptp(lengths) <= 1e-3 * lengths.max(initial=0)
        inputs = _inputs(before[some], store.user_factors)
        gram = inputs.T @ inputs
        gram += _RIDGE * np.diag(np.diag(gram))
        matrix: Floats = np.linalg.lstsq(gram, inputs.T @ outputs, rcond=None)[0].astype(float)
        return cls(matrix, float(lengths.mean()) if same else None, distances)

    def moved(
        self,
        store: FactorStore,
        before: sp.csr_array,
        delta: Delta,
        users: Factors,
        some: NDArray[np.int64],
    ) -> tuple[Floats, Floats]:
        """Factors (R, K) and biases (R,) of items after an update, from the users they have now."""
        likes = sp.csr_array(delta.user_items[:, some].T)
        found = _inputs(likes, users) @ self.matrix
        old = np.flatnonzero(some < store.n_items)
        had = sp.csr_array(before[:, some[old]].T)
        unexplained = _outputs(store, some[old]) - _inputs(had, store.user_factors) @ self.matrix
        share = 1 - delta.new.items[some[old]] / delta.counts.items[some[old]]
        found[old] += share[:, None] * unexplained
        return self._in_bounds(found[:, :-1], found[:, -1])

    def _in_bounds(self, factors: Floats, biases: Floats) -> tuple[Floats, Floats]:
        """As long as all items of the fit, or in the ball, with the biases of this length."""
        lengths = np.maximum(np.linalg.norm(factors, axis=1), np.finfo(np.float64).tiny)
        if self.length is not None:
            factors = factors * (self.length / lengths)[:, None]
        elif self.distances:
            factors = factors * np.minimum(1, 1 / lengths)[:, None]
        return factors, biases - self.distances * (factors**2).sum(axis=1) / 2


def _outputs(store: FactorStore, items: NDArray[np.int64]) -> Floats:
    """Factors of items of the store, and their biases without -|q|^2 / 2 as the last column."""
    factors, biases = store.item_factors[items].astype(np.float64), np.zeros(len(items))
    if store.item_biases is not None:
        distances = store.user_biases is not None
        biases = store.item_biases[items] + distances * (factors**2).sum(axis=1) / 2
    return np.column_stack([factors, biases])


def _inputs(likes: sp.csr_array, users: Factors) -> Floats:
    counts = np.diff(likes.indptr)
    return np.column_stack([sums_of(likes, users), np.ones(len(counts)), np.log1p(counts)])
