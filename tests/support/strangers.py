"""Data in which some users have nothing and some items nobody, and a model of every kind of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import mfrank

N_USERS, N_ITEMS = 30, 20
COLD_USERS, COLD_ITEMS = [0, 13, 29], [0, 7, 19]
"""Rows; the first ids in sort order are among them."""


def names(letter: str, n: int) -> list[str]:
    return [f"{letter}{row:02}" for row in range(n)]


@cache
def train(seed: int = 0) -> mfrank.Interactions:
    """Interactions of the other users with the other items, of different popularity."""
    rng = np.random.default_rng(seed)
    users = np.setdiff1d(np.arange(N_USERS), COLD_USERS)
    items = np.setdiff1d(np.arange(N_ITEMS), COLD_ITEMS)
    chances = rng.permutation(np.linspace(0.1, 0.9, len(items)))
    at = np.nonzero(rng.random((len(users), len(items))) < chances)
    return mfrank.Interactions.from_arrays(
        [f"u{row:02}" for row in users[at[0]]],
        [f"i{row:02}" for row in items[at[1]]],
        timestamps=rng.permutation(len(at[0])),
        user_ids=names("u", N_USERS),
        item_ids=names("i", N_ITEMS),
    )


@cache
def held_out(seed: int = 1) -> mfrank.Interactions:
    """Test interactions of all users with all items, none of which are in :func:`train`."""
    rng = np.random.default_rng(seed)
    at = np.nonzero((rng.random((N_USERS, N_ITEMS)) < 0.2) & (train().user_items.toarray() == 0))
    return mfrank.Interactions.from_arrays(
        [f"u{row:02}" for row in at[0]],
        [f"i{row:02}" for row in at[1]],
        user_ids=names("u", N_USERS),
        item_ids=names("i", N_ITEMS),
    )


def _als(objective: Any = None, **options: Any) -> mfrank.ALS:
    how = {"factors": 4, "iterations": 2, "random_state": 0} | options
    return mfrank.ALS(objective or mfrank.IALS(), **how)


def _descent(loss: Any = None, **options: Any) -> mfrank.Descent:
    how = {"factors": 4, "iterations": 2, "random_state": 0} | options
    return mfrank.Descent(loss or mfrank.BPR(), **how)


def _blend(weight: float, other: Any) -> Any:
    data = train()
    store = mfrank.blend(_als().fit(data).store, other.fit(data).store, weight)
    kind = mfrank.ItemBlend if "neighbors" in store.extras else mfrank.Recommender
    model = kind.of(store)
    model._hold(model.store, data.user_items)
    return model


WITHOUT: dict[str, Callable[[], Any]] = {
    "IALS": lambda: _als().fit(train()),
    "WRMF": lambda: _als(mfrank.WRMF()).fit(train()),
    "EALS": lambda: _als(mfrank.EALS()).fit(train()),
    "RG2": lambda: _als(mfrank.RG2()).fit(train()),
    "RGX": lambda: _als(mfrank.RGX()).fit(train()),
    "RG2Sampled": lambda: _als(mfrank.RG2Sampled(negatives=5)).fit(train()),
    "BPR": lambda: _descent().fit(train()),
    "random": lambda: _descent(init="random").fit(train()),
    "started": lambda: _descent().fit(
        train(), start=_als().fit(train().take(train().entry_users < 20))
    ),
    "distance": lambda: _descent(mfrank.SML(), scores="distance").fit(train()),
    "EASE": lambda: mfrank.EASE().fit(train()),
    "ItemKNN": lambda: mfrank.ItemKNN().fit(train()),
    "ItemFilter": lambda: mfrank.ItemFilter().fit(train()),
    "blend": lambda: _blend(0.5, _descent()),
    "ItemBlend": lambda: _blend(0.5, mfrank.ItemFilter()),
}
"""Models that know nothing of a user without interactions."""

WITH: dict[str, Callable[[], Any]] = {
    "biases": lambda: _als(biases=True).fit(train()),
    "cosine": lambda: _descent(mfrank.SampledSoftmax(), scores="cosine").fit(train()),
    "Popularity": lambda: mfrank.Popularity().fit(train()),
    "SupervisedPageRank": lambda: mfrank.SupervisedPageRank(random_state=0).fit(train()),
    "user features": lambda: _als().fit(
        train(), user_features=np.random.default_rng(0).random((N_USERS, 3)) + 0.1
    ),
}
"""Models that rank items for such a user: by item biases, popularity, a prior, features."""

EVERY = {**WITHOUT, **WITH}

_made: dict[str, Any] = {}


def model(name: str) -> Any:
    """A fitted model, which the call must not change."""
    if name not in _made:
        _made[name] = EVERY[name]()
    return _made[name]


def popular(without: set[str] | frozenset[str] = frozenset()) -> list[str]:
    """Items that somebody has, most popular first, ties by row."""
    counts = np.diff(train().item_users.indptr)
    order = np.argsort(-counts, kind="stable")
    return [label for row in order if counts[row] and (label := f"i{row:02}") not in without]
