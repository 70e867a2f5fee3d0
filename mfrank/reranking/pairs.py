"""Pairs of a user and an item among their candidates: described, and made an order to learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.distinct import distinct
from mfrank.reranking.features import Askers, FirstLists, pair_features
from mfrank.reranking.given import GivenFeatures
from mfrank.reranking.held_out import Found, HeldOut
from mfrank.retrieval.recommender import Recommender
from mfrank.store.factors import FactorStore

__all__ = ["TrainingPairs", "blocks", "described", "training_pairs"]

_PAIRS_AT_ONCE = 1 << 18


class TrainingPairs(NamedTuple):
    """What the trees are grown on, user after user.

    Attributes
    ----------
    features : float32, shape (pairs, features)
    relevant : bool, shape (pairs,)
    users : int64, shape (pairs,)
        Row of the user of each.
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
    """Candidates of the users with held-out items, where there is an order to learn.

    Raises
    ------
    ValueError
        No user has both held-out and other items among their candidates.
    """
    store, items_found = model.store.on_host(), 0
    features, labels, groups = [], [], []
    for block in blocks(len(held_out.users), candidates):
        users = held_out.users[block]
        ids, scores = model.recommend(
            users, seen[users], candidates, by_row=True, n_threads=n_threads
        )
        lists = FirstLists(ids.astype(np.int64), scores)
        relevant, asking = held_out.labels(block, lists), lists.pairs[0]
        items_found += int(relevant.sum())
        told = _are_mixed(asking, relevant)
        askers = Askers(store.user_factors[users], store.counts.users[users])
        features.append(described(store, askers, lists, users, given)[told])
        labels.append(relevant[told])
        groups.append(users[asking[told]])
    group = np.concatenate(groups)
    if not len(group):
        raise ValueError(
            f"no user has both held-out and other items among their {candidates} candidates, so "
            "there is no order to learn: raise candidates or give more valid"
        )
    items = held_out.relevant.nnz + held_out.unknown
    found = Found(len(held_out.users), len(distinct(group)), items, items_found)
    return TrainingPairs(np.concatenate(features), np.concatenate(labels), group, found)


def described(
    store: FactorStore,
    askers: Askers,
    lists: FirstLists,
    rows: NDArray[np.int64] | None,
    given: GivenFeatures,
) -> NDArray[np.float32]:
    """All features of all pairs listed; ``rows`` are the askers' own, None for new ones."""
    users, places = lists.pairs
    own = None if rows is None else rows[users]
    told = given.of_pairs(own, lists.rows[users, places])
    return np.hstack([pair_features(store, askers, lists), *told])


def _are_mixed(users: NDArray[np.int64], relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which pairs are of a user with both relevant and other items: only these have an order."""
    listed = np.bincount(users)
    held = np.bincount(users, weights=relevant)
    mixed: NDArray[np.bool_] = (held > 0) & (held < listed)
    return mixed[users]


def blocks(users: int, width: int) -> Iterator[slice]:
    """Users, as many at once as have a bounded number of pairs."""
    step = max(1, _PAIRS_AT_ONCE // width)
    yield from (slice(begin, begin + step) for begin in range(0, users, step))
