"""(User, candidate) pairs with features and labels, from held-out interactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import distinct
from mfrank.data import Interactions, cells, check_numbering, matrix_in_rows
from mfrank.errors import InputValueError, within
from mfrank.models.reranker.features import (
    FirstLists,
    GivenFeatures,
    ListedUsers,
    pair_features,
    part_features,
    weights_ranker,
)
from mfrank.models.value_notes import tell_uncut, tell_unread_values
from mfrank.retrieval import Recommender, unannounced, without_relevant
from mfrank.store import FactorStore

# Held-out interactions in the first stage's rows, and which candidates are among them.


class CandidateRecall(NamedTuple):
    """Held-out items among the candidates: an upper bound on the gain of re-ranking.

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


class HeldOutOfUsers(NamedTuple):
    """Users of the model with at least one held-out item of the model.

    Attributes
    ----------
    users : int64, shape (U,)
        Rows of the users, ascending.
    relevant : csr_array of bool, shape (U, n_items)
        Held-out items of these users.
    unknown : int
        Number of held-out items of these users without a row in the model.
    """

    users: NDArray[np.int64]
    relevant: sp.csr_array
    unknown: int

    @classmethod
    def of(cls, valid: Any, seen: sp.csr_array, store: FactorStore) -> HeldOutOfUsers:
        """Take the entries of ``valid`` above 0 and not in ``seen``, of users with a known item.

        Raises
        ------
        ValueError
            There is no such user.
        """
        data = _read(valid, "valid", store)
        tell_unread_values("Reranker", data)
        tell_uncut("valid", data, store, "count as hits")
        positives = data.take(data.user_items.data > 0)
        matrix = _placed(positives, store)
        new = sp.csr_array(matrix - matrix.multiply(seen))  # what is only seen may be held out
        new.eliminate_zeros()
        users = np.flatnonzero(np.diff(new.indptr))
        if not len(users):
            raise InputValueError(
                "`valid` has no user of the model with an item of the model that is not in train:",
                "pass interactions that were held out of the model's fit",
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

    Zeros are cells that are only seen. Interactions and DataFrames are matched by id; a sparse
    matrix must have the store's rows.

    Raises
    ------
    TypeError, ValueError
        A user or item is unknown to the store, a matrix has another shape, or the data cannot be
        read as interactions.
    """
    read = _read(data, argument, store)
    placed = _placed(read, store)
    if placed.nnz < read.nnz:
        raise InputValueError(
            f"`{argument}` must be the data the model was fitted on: {read.nnz - placed.nnz:,} of "
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
        raise within(f"`{argument}`", error) from None
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


_PAIRS_AT_ONCE = 1 << 18


class TrainingPairs(NamedTuple):
    """Training data of the trees, user by user.

    Attributes
    ----------
    features : float32, shape (pairs, features)
    relevant : bool, shape (pairs,)
        Whether the item is held out.
    users : int64, shape (pairs,)
        Row of each pair's user.
    found : Found
    """

    features: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    users: NDArray[np.int64]
    found: CandidateRecall


def training_pairs(
    model: Recommender,
    candidates: int,
    seen: sp.csr_array,
    held_out: HeldOutOfUsers,
    given: GivenFeatures,
    *,
    n_threads: int,
) -> TrainingPairs:
    """Candidates of all users whose candidates include both held-out and other items.

    Parameters
    ----------
    model : Recommender
        The first stage.
    candidates : int
        Length of its lists.
    seen : csr_array, shape (n_users, n_items)
        The training items, which are not candidates.
    held_out : HeldOut
    given : GivenFeatures
    n_threads : int

    Raises
    ------
    ValueError
        No user has both held-out and other items among their candidates.
    """
    items_found = 0
    features, labels, groups = [], [], []
    for block in blocks(len(held_out.users), candidates):
        users = held_out.users[block]
        own = without_relevant(sp.csr_array(seen[users]), held_out.relevant[block])
        with unannounced():
            ids, scores = model.recommend(users, own, candidates, by_row=True, n_threads=n_threads)
        lists = FirstLists(ids.astype(np.int64), scores)
        relevant, pair_users = held_out.labels(block, lists), lists.pairs[0]
        items_found += int(relevant.sum())
        mixed = _are_mixed(pair_users, relevant)
        listed_users = known_users(model, users)
        features.append(described(model, listed_users, lists, users, given)[mixed])
        labels.append(relevant[mixed])
        groups.append(users[pair_users[mixed]])
    group = np.concatenate(groups)
    if not len(group):
        raise InputValueError(
            f"no user has both held-out and other items among their {candidates} candidates, so "
            "there is no ranking to learn:",
            "raise `candidates` or pass more data as valid",
        )
    items = held_out.relevant.nnz + held_out.unknown
    found = CandidateRecall(len(held_out.users), len(distinct(group)), items, items_found)
    return TrainingPairs(np.concatenate(features), np.concatenate(labels), group, found)


def known_users(model: Recommender, rows: NDArray[np.int64]) -> ListedUsers:
    """Users of the fit."""
    store, ranker = model.store.on_host(), weights_ranker(model)
    values = None if ranker is None else ranker._rows_of(rows).values
    return ListedUsers(store.user_factors[rows], store.known_counts.users[rows], values)


def described(
    model: Recommender,
    listed_users: ListedUsers,
    lists: FirstLists,
    rows: NDArray[np.int64],
    given: GivenFeatures,
) -> NDArray[np.float32]:
    """All features of all listed pairs, float32, shape (pairs, features).

    ``rows`` are the users' rows in the model; -1 is unknown.
    """
    users, places = lists.pairs
    extra = given.of_pairs(rows[users], lists.rows[users, places])
    own = pair_features(model.store.on_host(), listed_users, lists)
    return np.hstack([own, *part_features(model, listed_users, lists), *extra])


def _are_mixed(users: NDArray[np.int64], relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which pairs belong to a user with both relevant and other items; the rest teach nothing."""
    listed = np.bincount(users)
    held = np.bincount(users, weights=relevant)
    mixed: NDArray[np.bool_] = (held > 0) & (held < listed)
    return mixed[users]


def blocks(users: int, width: int) -> Iterator[slice]:
    """Slices of the users such that each has a bounded number of pairs."""
    step = max(1, _PAIRS_AT_ONCE // width)
    yield from (slice(begin, begin + step) for begin in range(0, users, step))
