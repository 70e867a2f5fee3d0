"""Somebody new: pick items, see the list that follows. All of it is in the URL."""

from __future__ import annotations

from itertools import islice
from typing import Any

from mfrank.errors import InputValueError
from mfrank.pages.asked import Asked
from mfrank.pages.levers import because, effect, levers_of, switched
from mfrank.pages.views.user import RANKED, ranks_in
from mfrank.pages.world import World
from mfrank.serving.answers import CannotAnswer, from_items

_MOST_PICKED, _MOST_OFFERED = 50, 12


def sandbox(world: World, asked: Asked) -> dict[str, Any]:
    """The list of somebody who likes the picked items."""
    index, n = asked.model(world), asked.number("n", 15, 1, 100)
    model, text = world.models[index], asked.text("q")
    picked = asked.ids("like", model.item_ids)
    if len(picked) > _MOST_PICKED:
        raise InputValueError(f"`like` must name at most {_MOST_PICKED} items, got {len(picked)}")
    levers = levers_of(world, index, asked)
    plain, listed, note = [], [], ""
    if picked:
        try:
            listed = from_items(model, picked, n, **levers.options)
            plain = from_items(model, picked, RANKED) if levers.options else listed
        except CannotAnswer as error:
            note = str(error)
    before = ranks_in(plain)
    found, known = world.catalog.items_like(text), model.item_ids
    offered = list(islice((i for i in found if i not in picked and i in known), _MOST_OFFERED))
    reasons = because(model, None, picked, [each["id"] for each in listed], is_new=True)
    return {
        "model": index,
        "names": world.names,
        "n": n,
        "q": text,
        "picked": [
            world.item(each, without=asked.url(like=[other for other in picked if other != each]))
            for each in picked
        ],
        "offered": [
            world.item(each, add=asked.url(like=[*picked, each], q=None)) for each in offered
        ],
        "items": [
            world.item(
                each["id"],
                rank=rank,
                before=before.get(each["id"]),
                score=each["score"],
                because=world.items(reasons[rank - 1]),
                add=asked.url(like=[*picked, each["id"]], q=None),
            )
            for rank, each in enumerate(listed, 1)
        ],
        "levers": levers.form,
        "switched": switched(world, asked),
        "effect": effect(world, levers.column, plain[:n], listed)
        if levers.options and listed
        else None,
        "note": note,
        "empty": asked.url(like=None, q=None),
    }
