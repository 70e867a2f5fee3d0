"""Data in three parts that share nothing, and every model to whose users most items are unlinked.

Items of all parts alternate in the order of ids, so that a list that is filled up by row shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from strangers import names

import mfrank

N_USERS, N_ITEMS, PARTS = 18, 24, 3
UNMET = 21
"""Row of an item that nobody has."""


@cache
def train() -> mfrank.Interactions:
    """Each user has two to five items of their part, with values 1 and 2."""
    rng = np.random.default_rng(4)
    users, items = [], []
    for user in range(N_USERS):
        own = np.setdiff1d(np.arange(user % PARTS, N_ITEMS, PARTS), [UNMET])
        chosen = rng.choice(own, rng.integers(2, 6), replace=False)
        users += [user] * len(chosen)
        items += chosen.tolist()
    return mfrank.Interactions.from_arrays(
        np.array(names("u", N_USERS))[users],
        np.array(names("i", N_ITEMS))[items],
        rng.integers(1, 3, len(items)),
        timestamps=1000 * rng.permutation(len(items)),
        user_ids=names("u", N_USERS),
        item_ids=names("i", N_ITEMS),
    )


def of_two_parts() -> mfrank.FactorStore:
    """Factors of a fit that knew only the first two parts: zeros in the third."""
    data = train()
    store = mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0).fit(
        data.take(data.entry_users % PARTS < 2)
    )
    return replace(store.store, counts=data.counts)


def _blend(*others: Any) -> mfrank.ItemBlend:
    store = of_two_parts()
    for place, other in enumerate(others):
        store = mfrank.blend(store, other.fit(train()).store, 0.5 + place)
    model = mfrank.ItemBlend.of(store)
    model._hold(model.store, train().seen)
    return model


def _latest() -> Any:
    latest = np.sort(train().timestamps)[-25]
    return mfrank.Popularity(window=float(train().timestamps.max() - latest))


_MODELS: dict[str, Callable[[], Any]] = {
    "ItemKNN": lambda: mfrank.ItemKNN(neighbors=3).fit(train()),
    "EASE": lambda: mfrank.EASE(0.5, neighbors=4).fit(train()),
    "ItemFilter": lambda: mfrank.ItemFilter(neighbors=3).fit(train()),
    "walk": lambda: mfrank.SupervisedPageRank(method=None).fit(train()),
    "blend": lambda: _blend(mfrank.ItemFilter(neighbors=3)),
    "blend of three": lambda: _blend(mfrank.ItemKNN(neighbors=2), mfrank.EASE(0.5, neighbors=2)),
    "Popularity": lambda: _latest().fit(train()),
}
MODELS = [*_MODELS]


@cache
def model(name: str) -> Any:
    """A fitted model, which the call must not change."""
    return _MODELS[name]()


@cache
def scores(name: str) -> NDArray[np.float64]:
    """The model's scores of all pairs, (users, items)."""
    users, items = np.indices((N_USERS, N_ITEMS))
    found = model(name).score(users.ravel(), items.ravel(), by_row=True)
    return np.asarray(found, dtype=np.float64).reshape(N_USERS, N_ITEMS)


@cache
def linked(name: str) -> NDArray[np.bool_]:
    """To which items something leads from each user, from dense matrices, (users, items)."""
    data, of = train(), model(name)
    values = data.user_items.toarray().astype(np.float64)
    if name == "Popularity":
        times = np.zeros(values.shape)
        times[data.entry_users, data.user_items.indices] = data.timestamps
        late = (values > 0) & (times >= times.max() - of.window)
        return np.broadcast_to(late.any(axis=0), values.shape)
    if name == "walk":
        return _reached(of, values)
    if name.startswith("blend"):
        store, parts = of.store, of._fitted()
        sums = parts.values.toarray() @ parts.weights.toarray()
        factors = store.user_factors.any(axis=1)[:, None] & store.item_factors.any(axis=1)
        return (sums != 0) | factors & (values.sum(axis=0) > 0)
    return (values if name == "ItemKNN" else values > 0) @ of.similarity.toarray() != 0


def _reached(of: Any, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    steps = of._walk.steps.toarray() > 0
    reached = values > 0
    for _ in range(N_ITEMS):
        reached = reached | (reached.astype(float) @ steps > 0)
    return reached


def best(
    name: str, n: int, *, seen: bool = False, allowed: NDArray[np.bool_] | None = None
) -> list[list[str]]:
    """The list of each user without padding: linked items that the user does not have, by score."""
    fits = linked(name) & (True if allowed is None else allowed)
    if not seen:
        fits = fits & (train().user_items.toarray() == 0)
    order = np.argsort(np.where(fits, -scores(name), np.inf), axis=1, kind="stable")
    return [
        [f"i{item:02}" for item in row[: fits[user].sum()][:n]] for user, row in enumerate(order)
    ]
