"""The pages of items: the first page, the search, an item with its neighbors, the map."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site, path_of
from mfrank.retrieval import Recommender
from mfrank.serving.answers import similar

_PER_PAGE = 20


def home(site: Site, request: PageRequest) -> dict[str, Any]:
    """The first page: popular items, and users with many and with few items."""
    catalog = site.catalog
    labels = catalog.user_ids.labels
    some = [round(place * (len(labels) - 1) / 11) for place in range(12)] if len(labels) else []
    users = [_user_link(user) for user in labels[sorted(set(some))].tolist()]
    return {
        "popular": site.items(catalog.most_popular(12)),
        "users": users,
        "n_users": len(catalog.user_ids),
        "n_items": len(catalog.item_ids),
        "shown": [_model_link(site, index) for index in range(len(site.models))],
    }


def search(site: Site, request: PageRequest) -> dict[str, Any]:
    """Items and users that match a text; without one, all items by popularity."""
    text, catalog = request.text("q"), site.catalog
    items = catalog.items_like(text)
    users = catalog.users_like(text) if text else []
    pages, _, shown = request.paged(items, _PER_PAGE)
    return {
        "q": text,
        "users": [_user_link(user) for user in users[:_PER_PAGE]],
        "n_users": len(users),
        "items": site.items(shown),
        "pages": pages,
    }


def _user_link(user: Any) -> dict[str, Any]:
    return {"id": user, "url": path_of("user", user)}


def _model_link(site: Site, index: int) -> dict[str, Any]:
    store = site.models[index].store
    return {
        "name": site.names[index],
        "kind": store.fitter["name"],
        "factors": store.user_factors.shape[1],
        "epochs": len(store.history),
        "url": path_of("model", index),
    }


_MOST_NEIGHBORS = 500


def item(site: Site, request: PageRequest) -> dict[str, Any]:
    """An item: its popularity, and the items nearest to it with theirs."""
    index, n = request.model(site), request.number("n", 20, 1, 100)
    model = site.models[index]
    label = request.id("item", model.item_ids)
    near = similar(model, label, _MOST_NEIGHBORS)
    pages, first, shown = request.paged(near, n)
    greatest = max(site.catalog.popularity.max(), 1)
    users = site.catalog.users_of(label)
    return {
        "item": site.item(label),
        "model": index,
        "names": site.names,
        "share": users / max(len(site.catalog.user_ids), 1),
        "rank": 1 + int((site.catalog.popularity > users).sum()),
        "n_items": len(site.catalog.item_ids),
        "neighbors": [
            site.item(
                each["id"],
                rank=rank,
                score=each["score"],
                width=100 * max(each["score"], 0) / (max(near[0]["score"], 1e-12)),
                popularity=100 * site.catalog.users_of(each["id"]) / greatest,
            )
            for rank, each in enumerate(shown, first)
        ],
        "pages": pages,
    }


_KINDS = 7
"""Kinds of items that get a color of their own; all others share one."""
_STORED_MAPS = 6
"""Number of maps in the cache: the last ones made."""


def item_map(site: Site, request: PageRequest) -> dict[str, Any]:
    """A map of the ``n`` most popular items: their coordinates and kinds."""
    index, n = request.model(site), request.number("n", 1500, 4, 4000)
    key = index, min(n, len(site.catalog.item_ids))
    about = {
        "model": index,
        "names": site.names,
        "n": key[1],
        "points_url": request.url(format="json"),
    }
    if request.query.get("format") != "json":  # the page fetches the points as JSON
        return {**about, "popular": site.items(site.catalog.most_popular(20))}
    maps = site.cache.setdefault(item_map, {})
    points = maps.get(key)
    if points is None:
        points = maps[key] = _map_of(site, *key)
        for old in list(maps)[:-_STORED_MAPS]:
            maps.pop(old, None)  # another thread may have removed it
    return {**about, **points}


def _map_of(site: Site, index: int, n: int) -> dict[str, Any]:
    catalog, model = site.catalog, site.models[index]
    labels = [
        label
        for label in catalog.most_popular(n)
        if label in model.item_ids and catalog.users_of(label) > 0
    ]
    at, items = places(model, model.item_ids.rows(labels)), site.items(labels)
    counted = Counter(each["kind"] for each in items if each["kind"])
    kinds = [kind for kind, _ in counted.most_common(_KINDS)]
    number = {kind: place for place, kind in enumerate(kinds)}
    return {
        "kinds": kinds,
        "points": [
            {
                "x": round(float(x), 4),
                "y": round(float(y), 4),
                "kind": number.get(each["kind"], -1),
                **{name: each[name] for name in ("id", "name", "facts", "users", "url")},
            }
            for each, (x, y) in zip(items, at.tolist(), strict=True)
        ],
    }


# A map of items: places in the plane where similar items are near one another.
#
# As in UMAP (McInnes, Healy & Melville 2018): neighbors attract, random others repel, from a
# spectral start; all pairs of a step at once, so that a few thousand items take about a second in
# numpy.


_NEIGHBORS, _STEPS, _OTHERS, _FARTHEST, _GRAVITY = 12, 250, 6, 4.0, 0.2
_MOST_DENSE = 200


def places(model: Recommender, rows: NDArray[np.int64], seed: int = 0) -> NDArray[np.float64]:
    """Places of items of a model, each coordinate in 0..1, shape (len(rows), 2).

    Parameters
    ----------
    model : Recommender
    rows : int, shape (n,)
        Rows of the items.
    seed : int, default 0
        The same seed gives the same map.
    """
    n = len(rows)
    if n < 4:
        return np.stack([np.linspace(0, 1, n), np.full(n, 0.5)], axis=1)
    heads, tails = _edges(model, rows)
    rng = np.random.default_rng(seed)
    at = _start(heads, tails, n, rng)
    for step in range(_STEPS):
        at += _pull(at, heads, tails, n, rng) * (1 - step / _STEPS)
    low, high = np.percentile(at, [0.5, 99.5], axis=0)
    return np.asarray(np.clip((at - low) / np.maximum(high - low, 1e-9), 0, 1))


def _edges(
    model: Recommender, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges from each item to its most similar ones, as positions in ``rows``.

    An item without a direction has none.
    """
    near, likeness = model.similar_items(rows, _NEIGHBORS + 1, items=rows, by_row=True, n_threads=1)
    place_of = np.zeros(len(model.item_ids), dtype=np.int64)
    place_of[rows] = np.arange(len(rows))
    heads, tails = np.repeat(np.arange(len(rows)), near.shape[1]), place_of[near.ravel()]
    is_edge = (tails != heads) & (likeness.ravel() > 0)  # padding of short lists is not above 0
    return heads[is_edge], tails[is_edge]


def _start(
    heads: NDArray[np.int64], tails: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The order of items by the second and third eigenvectors of the graph's random walk.

    The eigenvectors' values would put a few loosely connected items far away from all others.
    """
    graph = sp.csr_array((np.ones(len(heads)), (heads, tails)), shape=(n, n))
    graph = graph + graph.T + 1e-3 * sp.eye_array(n)
    scale = sp.diags_array(1 / np.sqrt(graph.sum(axis=1)))
    walk = scale @ graph @ scale
    if n <= _MOST_DENSE:  # ARPACK may find few directions here, and continues in a random one
        _, vectors = np.linalg.eigh(walk.toarray())
    else:
        _, vectors = eigsh(walk, k=3, which="LA", v0=np.ones(n), tol=1e-3)
    second, third = vectors[:, -2], vectors[:, -3]
    order = np.stack([second, third], axis=1).argsort(axis=0).argsort(axis=0)
    return np.asarray(20 * order / n - 10 + 0.1 * rng.standard_normal((n, 2)))


def _pull(
    at: NDArray[np.float64],
    heads: NDArray[np.int64],
    tails: NDArray[np.int64],
    n: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Displacement of each item in a step: toward its neighbors, away from a few others."""
    moves = -_GRAVITY * at
    apart = at[heads] - at[tails]
    square = (apart**2).sum(axis=1, keepdims=True)
    pulled = -2 / (1 + square) * apart  # its length is at most 1
    for side, sign in ((heads, 1.0), (tails, -1.0)):
        for axis in (0, 1):
            moves[:, axis] += sign * np.bincount(side, pulled[:, axis], minlength=n)
    everybody = np.tile(np.arange(n), _OTHERS)
    apart = at[everybody] - at[rng.integers(n, size=len(everybody))]
    square = (apart**2).sum(axis=1, keepdims=True)
    pushed = np.clip(2 / ((0.01 + square) * (1 + square)) * apart, -_FARTHEST, _FARTHEST)
    for axis in (0, 1):
        moves[:, axis] += np.bincount(everybody, pushed[:, axis])
    return 0.1 * np.clip(moves, -_FARTHEST * 5, _FARTHEST * 5)
