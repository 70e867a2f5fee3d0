"""A map of the most popular items, in which similar items are near one another."""

from __future__ import annotations

from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.pictures import places
from mfrank.pages.world import World

_KINDS = 7
"""Kinds of items that get a color of their own; all others share one."""
_KEPT = 6
"""Maps that are kept: those made last."""


class ItemMap:
    """The page; the maps that were made last are kept with the world."""

    def __call__(self, world: World, asked: Asked) -> dict[str, Any]:
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
            return {**about, "popular": world.items(self._labels(world, 20))}
        made = world.made.setdefault(ItemMap, {})
        found = made.get(key) or self._make(world, *key)
        for old in list(made)[: max(0, len(made) - _KEPT + 1)]:
            made.pop(old, None)  # another thread may have been here
        made[key] = found
        return {**about, **found}

    def _labels(self, world: World, n: int) -> list[Any]:
        return [world.catalog.labels[row] for row in world.catalog.by_popularity[:n].tolist()]

    def _make(self, world: World, index: int, n: int) -> dict[str, Any]:
        labels, model = self._labels(world, n), world.models[index]
        labels = [
            label
            for label in labels
            if label in model.item_ids and world.catalog.users_of(label) > 0
        ]
        at = places(model, model.item_ids.rows(labels))
        items = world.items(labels)
        counted: dict[str, int] = {}
        for each in items:
            counted[each["kind"]] = counted.get(each["kind"], 0) + 1
        kinds = sorted(filter(None, counted), key=lambda kind: -counted[kind])[:_KINDS]
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
