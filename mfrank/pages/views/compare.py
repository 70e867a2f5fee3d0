"""Two models side by side for one user: what both list, and how ranks move."""

from __future__ import annotations

from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.views.user import ranks_of
from mfrank.pages.world import World, path_of

__all__ = ["compare"]


def compare(world: World, asked: Asked) -> dict[str, Any]:
    """The lists of both models, with the rank of each item in the other."""
    if len(world.models) < 2:
        raise ValueError("there is one model only; start with two: mfrank explore MODEL MODEL2")
    n = asked.number("n", 20, 1, 100)
    who = asked.id("user", world.models[0].user_ids)
    world.models[1].user_ids.rows([who])
    ranks = [ranks_of(world, index, who) for index in (0, 1)]
    held_out = {item for item, _ in world.has(0, who).held_out}
    lists = [
        [
            _moved(world, item, rank, ranks[1 - index].get(item), held_out)
            for item, rank in ranks[index].items()
            if rank <= n
        ]
        for index in (0, 1)
    ]
    both = [each for each in lists[0] if each["other"] is not None and each["other"] <= n]
    return {
        "user": who,
        "names": world.names,
        "n": n,
        "lists": lists,
        "overlap": len(both),
        "lines": [{"from": each["rank"], "to": each["other"]} for each in both],
        "hits": [sum(each["held_out"] for each in listed) for listed in lists],
        "n_held_out": len(held_out),
        "height": max(map(len, lists)),
        "url": path_of("user", who),
        "shorter": asked.url(n=10) if n > 10 else None,
        "longer": asked.url(n=50) if n < 50 else None,
    }


def _moved(
    world: World, item: Any, rank: int, other: int | None, held_out: set[Any]
) -> dict[str, Any]:
    """An item with its rank in both lists, and how many places higher it is here."""
    move = None if other is None else other - rank
    return world.item(item, rank=rank, other=other, move=move, held_out=item in held_out)
