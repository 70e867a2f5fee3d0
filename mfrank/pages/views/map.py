"""A map of the most popular items, in which similar items are near one another."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.pictures import places
from mfrank.pages.world import World

_KINDS = 7
"""Kinds of items that get a color of their own; all others share one."""
_KEPT = 6
"""Maps that are kept: those made last."""


def item_map(world: World, asked: Asked) -> dict[str, Any]:
    """The places of the ``n`` most popular items."""
    index, n = asked.model(world), asked.number("n", 1500, 4, 4000)
    key = index, min(n, len(world.catalog.item_ids))
    about = {
        "model": index,
        "names": world.names,
        "n": key[1],
        "points_url": asked.url(format="json"),
    }
    if asked.query.get("format") != "json":  # the page asks for the points when it is there
        return {**about, "popular": world.items(world.catalog.most_popular(20))}
    made = world.made.setdefault(item_map, {})
    found = made.get(key)
    if found is None:
        found = made[key] = _made(world, *key)
        for old in list(made)[:-_KEPT]:
            made.pop(old, None)  # another thread may have been here
    return {**about, **found}


def _made(world: World, index: int, n: int) -> dict[str, Any]:
    catalog, model = world.catalog, world.models[index]
    labels = [
        label
        for label in catalog.most_popular(n)
        if label in model.item_ids and catalog.users_of(label) > 0
    ]
    at, items = places(model, model.item_ids.rows(labels)), world.items(labels)
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
