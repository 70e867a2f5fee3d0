"""A user: the list of a model, why each item, and beside it what the user has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.levers import because, effect, levers_of, switched
from mfrank.pages.world import World, path_of
from mfrank.serving.answers import CannotAnswer, Items, explanation

RANKED = 1000
"""Ranks are told up to this one."""


def user(world: World, asked: Asked) -> dict[str, Any]:
    """The list, the history and what was held out."""
    index = asked.model(world)
    model, n = world.models[index], asked.number("n", 10, 1, 100)
    who = asked.id("user", model.user_ids)
    has, levers = world.has(index, who), levers_of(world, index, asked)
    longest = max(RANKED, asked.page() * n)
    plain = listed = world.best(index, who, longest)
    if levers.options:
        listed = world.best(index, who, n if levers.whole else longest, **levers.options)
    pages, first, shown = asked.paged(listed, n)
    held_out = dict(has.held_out)
    reasons = because(
        model,
        who,
        [item for item, _ in has.seen],
        [each["id"] for each in shown],
        world.row(index, who),
    )
    ranks, before = ranks_in(listed), ranks_in(plain)
    return {
        "user": who,
        "model": index,
        "names": world.names,
        "n": n,
        "items": [
            world.item(
                each["id"],
                rank=rank,
                before=before.get(each["id"]),
                score=each["score"],
                width=_width(each["score"], shown),
                held_out=each["id"] in held_out,
                because=world.items(reasons[rank - first]),
                why=path_of("user", who, "why", each["id"]) + (f"?model={index}" if index else ""),
            )
            for rank, each in enumerate(shown, first)
        ],
        "pages": pages,
        "levers": levers.form,
        "switched": switched(world, asked),
        "effect": effect(world, levers.column, plain[:n], listed[:n]) if levers.options else None,
        **_history(world, asked, has.seen),
        "held_out": [
            world.item(item, value=value if world.has_values else None, rank=ranks.get(item))
            for item, value in sorted(
                has.held_out, key=lambda each: ranks.get(each[0], RANKED + 1)
            )[:20]
        ],
        "n_held_out": len(held_out),
        "ranked": n if levers.whole else RANKED,
        "hits": _hits(ranks, held_out, n),
        "hits_before": _hits(before, held_out, n),
        "compare": path_of("compare", who) if len(world.models) > 1 else None,
    }


def why(world: World, asked: Asked) -> dict[str, Any]:
    """A user's score of an item: what adds to it, or the paths that lead to it."""
    index = asked.model(world)
    model, most = world.models[index], asked.number("n", 12, 1, 100)
    who, what = asked.id("user", model.user_ids), asked.id("item", model.item_ids)
    seen = [item for item, _ in world.has(index, who).seen]
    answer = {
        "user": who,
        "item": world.item(what),
        "model": index,
        "names": world.names,
        "back": path_of("user", who) + (f"?model={index}" if index else ""),
    }
    try:
        told = explanation(model, who, what, most, world.row(index, who))
    except (CannotAnswer, ValueError) as error:
        (nearest,) = because(model, who, seen, [what], most=most)
        score = float(model.score([who], [what])[0])
        return {**answer, "score": score, "nearest": world.items(nearest), "note": str(error)}
    if "paths" in told:
        paths = [
            {"items": world.items(path["items"]), "mass": path["mass"]} for path in told["paths"]
        ]
        return {**answer, **told, "paths": paths}
    greatest = max((abs(each["contribution"]) for each in told["contributions"]), default=0.0)
    parts = [
        world.item(
            each["id"],
            contribution=each["contribution"],
            width=100 * abs(each["contribution"]) / (greatest or 1),
        )
        for each in told["contributions"]
    ]
    return {**answer, **told, "contributions": parts}


def ranks_in(listed: Items) -> dict[Any, int]:
    """The rank of each item in a list, up to 1000."""
    return {each["id"]: rank for rank, each in enumerate(listed[:RANKED], 1)}


def ranks_of(world: World, index: int, who: Any) -> dict[Any, int]:
    """The rank of each item in a user's list, up to 1000."""
    return ranks_in(world.best(index, who, RANKED))


def _history(
    world: World, asked: Asked, seen: list[tuple[Any, float | None]], n: int = 20
) -> dict[str, Any]:
    pages, _, shown = asked.paged(seen, n, "history_page")
    return {
        "history": [
            world.item(item, value=value if world.has_values else None) for item, value in shown
        ],
        "history_pages": pages,
    }


def _hits(ranks: dict[Any, int], held_out: dict[Any, Any], n: int) -> int:
    return sum(rank <= n for item, rank in ranks.items() if item in held_out)


def _width(score: float, shown: Sequence[dict[str, Any]]) -> float:
    """Length of a bar in percent: scores from 0, or from the least of the page if it is below."""
    scores = [each["score"] for each in shown]  # diverse lists are not in their order
    least, greatest = min(0.0, *scores), max(scores)
    return 100 * (score - least) / (greatest - least) if greatest > least else 100.0
