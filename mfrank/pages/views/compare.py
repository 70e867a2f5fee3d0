"""Two models side by side for one user, and a blend of them: what they list, how ranks move."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from mfrank.errors import InputValueError
from mfrank.pages.asked import Asked
from mfrank.pages.views.user import RANKED, ranks_in, ranks_of
from mfrank.pages.world import World, blended, path_of, why_no_blend

Ranks = Mapping[Any, int]


def compare(world: World, asked: Asked) -> dict[str, Any]:
    """The lists of both models, with the rank of each item in the other.

    With a weight, a blend stands between them: then ranks are those in the list beside. What
    neither has seen is held out.
    """
    if len(world.models) < 2:
        raise InputValueError(
            "there is one model only", "start with two: mfrank explore MODEL MODEL2"
        )
    n = asked.number("n", 20, 1, 100)
    weight = asked.decimal("weight", 0, 0, 1) if asked.text("weight") else None
    who = asked.id("user", world.models[0].user_ids)
    ranks = [ranks_of(world, index, who) for index in (0, 1)]
    titles = list(world.names)
    if weight is not None:
        ranks.insert(1, ranks_in(blended(world, who, weight, RANKED)))
        titles.insert(1, f"{titles[0]} + {weight:g} · {titles[1]}")
    beside = [ranks[1], *ranks[:-1]]
    later = ({item for item, _ in world.has(index, who).held_out} for index in (0, 1))
    held_out = set.intersection(*later)
    lists = [
        [
            _moved(world, item, rank, other.get(item), held_out)
            for item, rank in own.items()
            if rank <= n
        ]
        for own, other in zip(ranks, beside, strict=True)
    ]
    return {
        "user": who,
        "names": world.names,
        "n": n,
        "titles": titles,
        "weight": weight,
        "no_blend": why_no_blend(world),
        "lists": lists,
        "overlap": len(_lines(ranks[0], ranks[-1], n)),
        "lines": [_lines(*pair, n) for pair in pairwise(ranks)],
        "hits": [sum(each["held_out"] for each in listed) for listed in lists],
        "n_held_out": len(held_out),
        "height": max(map(len, lists)),
        "url": path_of("user", who),
    }


def _lines(left: Ranks, right: Ranks, n: int) -> list[dict[str, int]]:
    """From each item's rank in a list to that in the list to the right, for those in both."""
    return [
        {"from": rank, "to": right[item]}
        for item, rank in left.items()
        if rank <= n and right.get(item, n + 1) <= n
    ]


def _moved(
    world: World, item: Any, rank: int, other: int | None, held_out: set[Any]
) -> dict[str, Any]:
    """An item with its rank in the list beside, and how many places higher it is here."""
    move = None if other is None else other - rank
    return world.item(item, rank=rank, other=other, move=move, held_out=item in held_out)
