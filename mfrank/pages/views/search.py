"""The first page and the search for items and users."""

from __future__ import annotations

from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.world import World, path_of

_PER_PAGE = 20


def home(world: World, asked: Asked) -> dict[str, Any]:
    """Where to begin: popular items, and users with many and with few items."""
    catalog = world.catalog
    labels = catalog.user_ids.labels
    some = [round(place * (len(labels) - 1) / 11) for place in range(12)] if len(labels) else []
    users = [_user(user) for user in labels[sorted(set(some))].tolist()]
    return {
        "popular": world.items(catalog.most_popular(12)),
        "users": users,
        "n_users": len(catalog.user_ids),
        "n_items": len(catalog.item_ids),
        "shown": [_told(world, index) for index in range(len(world.models))],
    }


def search(world: World, asked: Asked) -> dict[str, Any]:
    """Items and users like a text; all items, popular first, without one."""
    text, catalog = asked.text("q"), world.catalog
    items = catalog.items_like(text)
    users = catalog.users_like(text) if text else []
    pages, _, shown = asked.paged(items, _PER_PAGE)
    return {
        "q": text,
        "users": [_user(user) for user in users[:_PER_PAGE]],
        "n_users": len(users),
        "items": world.items(shown),
        "pages": pages,
    }


def _user(user: Any) -> dict[str, Any]:
    return {"id": user, "url": path_of("user", user)}


def _told(world: World, index: int) -> dict[str, Any]:
    store = world.models[index].store
    return {
        "name": world.names[index],
        "kind": store.fitter["name"],
        "factors": store.user_factors.shape[1],
        "epochs": len(store.history),
        "url": path_of("model", index),
    }
