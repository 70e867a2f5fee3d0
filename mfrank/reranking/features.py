"""What the second stage is told of a user and an item: numbers from the factor store alone.

All of them stay as they are when the factors are rotated, so that trees grown over one fit can be
used over another fit of the same objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.retrieval.recommend import score
from mfrank.store.factors import FactorStore

__all__ = ["FEATURES", "Askers", "FirstLists", "pair_features"]

FEATURES = (
    "score",
    "rank",
    "score_in_list",
    "user_count",
    "item_count",
    "prior",
    "cosine",
    "user_norm",
    "item_norm",
)
"""Columns of :func:`pair_features`, in their order."""


class Askers(NamedTuple):
    """Users who are recommended to.

    Attributes
    ----------
    factors : shape (U, K)
    counts : int64, shape (U,)
        Items that each has.
    """

    factors: NDArray[Any]
    counts: NDArray[np.int64]


class FirstLists(NamedTuple):
    """Lists of the first stage.

    Attributes
    ----------
    rows : int64, shape (U, C)
        Item rows by score, -1 where a list has ended.
    scores : float32 or float64, shape (U, C)
        NaN where a list has ended.
    """

    rows: NDArray[np.int64]
    scores: NDArray[Any]

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """User (0..U-1) and place of every item listed, list after list."""
        users, places = np.nonzero(self.rows >= 0)
        return users, places


def pair_features(store: FactorStore, askers: Askers, lists: FirstLists) -> NDArray[np.float32]:
    """Features of every item listed with its user, shape (pairs, 9), list after list.

    =============  ===============================================================================
    score          the first stage's, biases included
    rank           place in its list, from 0
    score_in_list  score less the list's mean, over the list's standard deviation (0 where that is)
    user_count     log(1 + items the user has)
    item_count     log(1 + users the item has)
    prior          ``store.item_prior``; without one, the item's share of all interactions
    cosine         of the user's and the item's factors, 0 where either is zero
    user_norm      of the user's factors
    item_norm      of the item's factors
    =============  ===============================================================================
    """
    users, places = lists.pairs
    items = lists.rows[users, places]
    user_norms = np.linalg.norm(askers.factors, axis=1)[users]
    item_norms = np.linalg.norm(store.item_factors, axis=1)[items]
    products = score(askers.factors, store.item_factors, users, items)
    lengths = user_norms * item_norms
    columns = {
        "score": lists.scores[users, places],
        "rank": places,
        "score_in_list": _in_list(lists.scores)[users, places],
        "user_count": np.log1p(askers.counts)[users],
        "item_count": np.log1p(store.counts.items)[items],
        "prior": _prior(store)[items],
        "cosine": np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0),
        "user_norm": user_norms,
        "item_norm": item_norms,
    }
    return np.column_stack([columns[name] for name in FEATURES]).astype(np.float32)


def _in_list(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Scores standardised within each list; NaN stays NaN."""
    listed = ~np.isnan(scores)
    lengths = np.maximum(listed.sum(axis=1, keepdims=True), 1)
    wide = scores.astype(np.float64)
    away = wide - np.where(listed, wide, 0).sum(axis=1, keepdims=True) / lengths
    spread = np.sqrt(np.where(listed, away**2, 0).sum(axis=1, keepdims=True) / lengths)
    standardised: NDArray[np.float64] = away / np.where(spread > 0, spread, 1)
    return standardised


def _prior(store: FactorStore) -> NDArray[Any]:
    if store.item_prior is not None:
        return store.item_prior
    counts = store.counts.items
    return counts / max(1, int(counts.sum()))
