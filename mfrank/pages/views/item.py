"""An item: its popularity, and the items nearest to it with theirs."""

from __future__ import annotations

from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.world import World
from mfrank.serving.answers import similar

_MOST = 500


def item(world: World, asked: Asked) -> dict[str, Any]:
    """The neighbors of an item."""
    index, n = asked.model(world), asked.number("n", 20, 1, 100)
    model = world.models[index]
    label = asked.id("item", model.item_ids)
    near = similar(model, label, _MOST)
    pages, first, shown = asked.paged(near, n)
    greatest = max(world.catalog.popularity.max(), 1)
    users = world.catalog.users_of(label)
    return {
        "item": world.item(label),
        "model": index,
        "names": world.names,
        "share": users / max(len(world.catalog.user_ids), 1),
        "rank": 1 + int((world.catalog.popularity > users).sum()),
        "n_items": len(world.catalog.item_ids),
        "neighbors": [
            world.item(
                each["id"],
                rank=rank,
                score=each["score"],
                width=100 * max(each["score"], 0) / (max(near[0]["score"], 1e-12)),
                popularity=100 * world.catalog.users_of(each["id"]) / greatest,
            )
            for rank, each in enumerate(shown, first)
        ],
        "pages": pages,
    }
