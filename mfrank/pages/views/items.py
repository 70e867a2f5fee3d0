"""The pages of items: the first page, the search, an item with its neighbors, the map."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mfrank.pages.page_request import PageRequest
from mfrank.pages.pictures import places
from mfrank.pages.site import Site, path_of
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
