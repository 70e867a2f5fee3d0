"""(User, candidate) pairs with their features and labels, the training data of the trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.distinct import distinct
from mfrank.models.reranker.features import FirstLists, ListedUsers, pair_features
from mfrank.models.reranker.given_features import GivenFeatures
from mfrank.models.reranker.held_out import Found, HeldOut
from mfrank.retrieval.fallback import unannounced
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.seen import without_relevant
from mfrank.store.factors import FactorStore

__all__ = ["TrainingPairs", "blocks", "described", "training_pairs"]

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
    found: Found


def training_pairs(
    model: Recommender,
    candidates: int,
    seen: sp.csr_array,
    held_out: HeldOut,
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
    store, items_found = model.store.on_host(), 0
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
        listed_users = ListedUsers(store.user_factors[users], store.known_counts.users[users])
        features.append(described(store, listed_users, lists, users, given)[mixed])
        labels.append(relevant[mixed])
        groups.append(users[pair_users[mixed]])
    group = np.concatenate(groups)
    if not len(group):
        raise ValueError(
            f"no user has both held-out and other items among their {candidates} candidates, so "
            "there is no ranking to learn: raise candidates or pass more data as valid"
        )
    items = held_out.relevant.nnz + held_out.unknown
    found = Found(len(held_out.users), len(distinct(group)), items, items_found)
    return TrainingPairs(np.concatenate(features), np.concatenate(labels), group, found)


def described(
    store: FactorStore,
    listed_users: ListedUsers,
    lists: FirstLists,
    rows: NDArray[np.int64] | None,
    given: GivenFeatures,
) -> NDArray[np.float32]:
    """All features of all listed pairs, float32, shape (pairs, features).

    ``rows`` are the users' rows in the model; None if they are not needed for ``given``.
    """
    users, places = lists.pairs
    own = None if rows is None else rows[users]
    extra = given.of_pairs(own, lists.rows[users, places])
    return np.hstack([pair_features(store, listed_users, lists), *extra])


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
