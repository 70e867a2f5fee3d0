"""The linear maps of a descent: from items to users, which fits the trained users best, and back.

A ranking loss has no closed form for a user. But the users that a descent finds lie close to a
linear function of their items' factors,

    p_u = M' z_u + c,    z_u = sum_{i in u} q_i / sqrt(n_u),

with M and c from a ridge regression over the users of the fit. It leaves 5 to 13 % of their
variance, takes no steps, is the same for any order of calls, and says what each item adds to a
score. For users that the fit has not met, it ranks better than the loss's own steps against fixed
items in six of eight trials, and 4 to 7 % worse in two, of cosines on sparse data
(``bench/fold_in.py``).

An update takes up new interactions in one pass, without a step of the loss. New users get the
factors of the map from the items that the model knows. Items with new interactions move as a map of
the same kind does, which also has the logarithm of their number of users and predicts their bias;
what the map does not explain of an item stays, times the share of its interactions that are old. So
a new item follows from its users alone. Then all users with new interactions follow from their
items. A second pass ranked worse in most trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import Explanation, UserWeights
from mfrank.backends import Factors
from mfrank.data import Interactions, without_zeros
from mfrank.errors import InputValueError, within
from mfrank.models.options import check_no_dislikes
from mfrank.models.partial_fit import Delta, with_rows
from mfrank.retrieval import ModelState, Side
from mfrank.store import FactorStore

Floats = NDArray[np.float64]

_RIDGE = 1e-3
"""Of the mean square of the coordinates of z, or of each."""
_USERS_AT_ONCE = 1 << 16
_SAME_LENGTH = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class RowMap:
    """Maps the items of users to factors.

    Attributes
    ----------
    matrix : float64, shape (K, K)
    offset : float64, shape (K,)
    length : float or None
        Length of all users of the fit, as of cosines; None if their lengths differ.
    items : shape (n_items, K)
        Item factors of the fit.
    distances : bool
        Whether scores are distances, so that users have the bias -|p|^2 / 2 and lie in a ball.
    """

    matrix: Floats
    offset: Floats
    length: float | None
    items: Factors
    distances: bool

    @classmethod
    def of(cls, store: FactorStore, likes: sp.csr_array) -> Self:
        """Fit the map to the users of a store and their items, shape (n_users, n_items)."""
        items = store.item_factors
        width = items.shape[1]
        gram, products = np.zeros((width + 1, width + 1)), np.zeros((width + 1, width))
        shortest, longest = np.inf, 0.0
        for begin in range(0, likes.shape[0], _USERS_AT_ONCE):
            rows = likes[begin : begin + _USERS_AT_ONCE]
            some = np.flatnonzero(np.diff(rows.indptr))
            if not len(some):
                continue
            theirs = store._users_at(begin + some).astype(np.float64)
            lengths = np.linalg.norm(theirs, axis=1)
            shortest, longest = min(shortest, lengths.min()), max(longest, lengths.max())
            sums = np.hstack([_sums_of(rows[some], items), np.ones((len(some), 1))])
            gram += sums.T @ sums
            products += sums.T @ theirs
        ridge = np.full(width + 1, _RIDGE * np.trace(gram[:-1, :-1]) / width)
        ridge[-1] = 0
        solved = np.linalg.lstsq(gram + np.diag(ridge), products, rcond=None)[0]
        length = float(longest) if longest - shortest <= _SAME_LENGTH * longest else None
        return cls(solved[:-1], solved[-1], length, items, store.user_biases is not None)

    def users(self, likes: sp.csr_array) -> tuple[Factors, NDArray[Any] | None]:
        """Factors (R, K) and biases (R,) or None of users with these items; 0 without items."""
        solved = _sums_of(likes, self.items) @ self.matrix + self.offset
        solved *= self._scales(solved)[:, None]
        solved[np.diff(likes.indptr) == 0] = 0
        biases = None
        if self.distances:
            biases = (-0.5 * (solved**2).sum(axis=1)).astype(self.items.dtype)
        return solved.astype(self.items.dtype), biases

    def weigh(self, likes: sp.csr_array) -> UserWeights:
        """Decompose the factors of one user by the user's items."""
        own = likes.indices
        scale = self._scales(_sums_of(likes, self.items) @ self.matrix + self.offset)[0]
        parts = self.items[own].astype(np.float64) @ self.matrix
        parts *= scale / np.sqrt(max(len(own), 1))
        return UserWeights(own.astype(np.int32), parts, scale * self.offset)

    def _scales(self, solved: Floats) -> Floats:
        """What makes users as long as those of the fit."""
        if self.length is None and not self.distances:
            return np.ones(len(solved))
        lengths = np.maximum(np.linalg.norm(solved, axis=1), np.finfo(np.float64).tiny)
        if self.length is None:
            return np.asarray(np.minimum(1.0, 1 / lengths))  # in the ball
        return np.asarray(self.length / lengths)


def _sums_of(likes: sp.csr_array, items: Factors) -> Floats:
    """The sums z of the items' factors."""
    counts = np.maximum(np.diff(likes.indptr), 1)
    ones = sp.csr_array((np.ones(likes.nnz), likes.indices, likes.indptr), likes.shape)
    sums: Floats = ones @ items.astype(np.float64)
    return sums / np.sqrt(counts)[:, None]


def likes_of(held: ModelState) -> sp.csr_array:
    """The positives of the users of a fit, shape (n_users, n_items)."""
    if held.seen is None:
        raise InputValueError(
            "the model has no interactions, from which users' factors follow:",
            "load a model saved with `with_seen=True`",
        )
    return held.seen.positives


def liked(rows: sp.csr_array, argument: str) -> sp.csr_array:
    """The positives of some rows; ValueError for dislikes and for values that are not finite."""
    try:
        found = Interactions.from_sparse(without_zeros(rows)).user_items
    except (TypeError, ValueError) as error:
        raise within(f"`{argument}`", error) from None
    check_no_dislikes(argument, found.data)
    return found


def explained_by(
    solver: RowMap,
    likes: sp.csr_array,
    store: FactorStore,
    items: Side,
    item: int,
    n: int,
    score: float | None = None,
) -> Explanation:
    """Decompose a user's score of an item; ``score`` is the model's, by default that of the map."""
    weights, factors = solver.weigh(likes), store.item_factors[item].astype(np.float64)
    parts = weights.parts @ factors
    if score is None:
        solved, biases = solver.users(likes)
        score = float(solved[0].astype(np.float64) @ factors)
        of_item, of_user = (store.item_biases, item), (biases, 0)
        score += sum(float(each[at]) for each, at in (of_item, of_user) if each is not None)
    greatest = np.argsort(-parts, kind="stable")[:n]
    labels = items.answer(weights.items[greatest])
    listed = list(zip(labels.tolist(), parts[greatest].tolist(), strict=True))
    return Explanation(score, listed, score - float(parts.sum()), weights)


# Users and items after an update.


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
    return np.column_stack([_sums_of(likes, users), np.ones(len(counts)), np.log1p(counts)])
