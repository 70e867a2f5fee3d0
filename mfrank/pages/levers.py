"""The levers that a URL sets on a list, and why each item is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.errors import InputValueError
from mfrank.models import ALS, NeighborRecommender, Popularity, SupervisedPageRank
from mfrank.pages.asked import Asked
from mfrank.pages.catalog import SortingColumn
from mfrank.pages.world import World
from mfrank.retrieval import Recommender, RowScorer
from mfrank.serving.answers import explains_alone, steered

_NAMES = ("popularity_penalty", "diversity", "at_most", "of", "only", "without", "boost", "by")
_STRONGEST = 3.0
"""Of penalty and boost, in standard deviations of scores."""
_LONGEST, _LONGEST_TEXT = 100, 400


@dataclass(frozen=True, slots=True)
class AskedLevers:
    """What a URL asks of a list in addition to the highest scores.

    Attributes
    ----------
    options : mapping of str to Any
        Options of ``recommend``: ``steer``, ``items``, ``filter_items``; empty if no lever is set.
    whole : bool
        Whether the list is chosen as a whole, so that its length affects which items are in it.
    column : Column, or None
        Whose values are counted, and capped.
    form : mapping of str to Any
        What the form shows.
    """

    options: Mapping[str, Any]
    whole: bool
    column: SortingColumn | None
    form: Mapping[str, Any]


def levers_of(world: World, index: int, asked: Asked) -> AskedLevers:
    """Read the levers for a model.

    Raises
    ------
    ValueError
        One has a value that it cannot have; the sentence names it.
    """
    known = world.models[index].item_ids
    penalty = asked.decimal("popularity_penalty", 0, 0, _STRONGEST)
    diversity = asked.decimal("diversity", 0, 0, 1)
    by = asked.decimal("by", 0.5, -_STRONGEST, _STRONGEST)
    column = _column(world, asked)
    cap = asked.number("at_most", 0, 1, _LONGEST) if asked.text("at_most") else None
    if cap is not None and column is None:
        raise InputValueError(
            "`at_most` needs a file of items with a column of kinds, such as genres"
        )
    only, without, boost = (_choice(world, asked, name) for name in ("only", "without", "boost"))
    boosted = boost[0].items(boost[1]) if boost and by else []
    steer = steered(
        popularity_penalty=penalty,
        diversity=diversity,
        boosts={item: by for item in boosted if item in known},
        categories=column.labels if column and cap is not None else None,
        at_most=cap,
    )
    asked_for: dict[str, Any] = {
        "steer": steer,
        "items": [item for item in only[0].items(only[1]) if item in known] if only else None,
        "filter_items": [item for item in without[0].items(without[1]) if item in known]
        if without
        else None,
    }
    options = {name: value for name, value in asked_for.items() if value is not None}
    form = {
        "popularity_penalty": penalty,
        "diversity": diversity,
        "at_most": cap,
        "of": column.name if column else None,
        **{name: asked.text(name, _LONGEST_TEXT) for name in ("only", "without", "boost")},
        "by": by,
        "set": bool(options),
        "adds": steer is not None and steer.adds,
        "can": world.able(index),
        "columns": [_shown(each) for each in world.catalog.columns.values()],
        "action": asked.path,
        "kept": asked.kept((*_NAMES, "page", "history_page")),
        "reset": asked.url(**dict.fromkeys((*_NAMES, "page"))),
    }
    return AskedLevers(options, bool(diversity or cap is not None), column, form)


def effect(
    world: World, column: SortingColumn | None, plain: Sequence[Any], listed: Sequence[Any]
) -> dict[str, Any]:
    """What levers do to a list: pairs of numbers, without them and with them, and what fell out.

    Parameters
    ----------
    plain, listed : sequence of dict with "id"
        The list without levers and with them.
    """
    lists = [[each["id"] for each in one] for one in (plain, listed)]
    fallen = [(rank, each) for rank, each in enumerate(lists[0], 1) if each not in set(lists[1])]
    users = [[world.catalog.users_of(item) for item in one] for one in lists]
    covered = None
    if column is not None:
        covered = {
            "column": column.name,
            "values": [column.covered(one) for one in lists],
            "of": len(column.sizes),
        }
    return {
        "mean_users": [float(np.mean(one)) if one else None for one in users],
        "covered": covered,
        "in_both": len(lists[0]) - len(fallen),
        "fallen": [world.item(item, before=rank) for rank, item in fallen],
    }


def switched(world: World, asked: Asked) -> list[str]:
    """The same page of each model, without the levers that it does not have."""
    urls = []
    for index in range(len(world.models)):
        dropped = {"popularity_penalty", "diversity"} - set(world.able(index))
        urls.append(asked.url(model=index or None, **dict.fromkeys({*dropped, "page"})))
    return urls


def _column(world: World, asked: Asked) -> SortingColumn | None:
    columns, name = world.catalog.columns, asked.text("of", _LONGEST_TEXT)
    if not name:
        return next(iter(columns.values()), None)
    if name not in columns:
        there = ", ".join(map(repr, columns)) or "there is none"
        raise ValueError(f"of must be a column that sorts items into kinds ({there}), got {name!r}")
    return columns[name]


def _choice(world: World, asked: Asked, name: str) -> tuple[SortingColumn, str] | None:
    text, choices = asked.text(name, _LONGEST_TEXT), world.catalog.choices
    if not text:
        return None
    if text not in choices:
        such = next((f"such as {each!r}" for each in choices), "there is none")
        raise InputValueError(
            f"`{name}` must be a column of kinds and a value ({such}), got {text!r}"
        )
    return choices[text]


def _shown(column: SortingColumn) -> dict[str, Any]:
    values = [
        {"value": value, "text": f"{column.name}:{value}", "items": size}
        for value, size in column.sizes.items()
    ]
    return {"name": column.name, "values": values}


# Why each item of a list is in it, in one form for every kind of model.


def because(
    model: Recommender,
    user: Any,
    seen: Sequence[Any],
    items: Sequence[Any],
    row: sp.csr_array | None = None,
    most: int = 2,
    *,
    is_new: bool = False,
) -> list[list[Any]]:
    """For each of ``items``, the user's own items that bring it most.

    These are the greatest contributions to the score where the model is a sum over the user's
    items, otherwise the user's items that are most similar to it.

    Parameters
    ----------
    model : Recommender
    user : id
    seen : ids
        What the user has.
    items : ids
        The list.
    row : shape (1, n_items), optional
        What the user has, with values.
    most : int, default 2
        The most reasons for an item.
    is_new : bool, default False
        The user is not of the model: ``user`` is not read.
    """
    if not seen or not items or isinstance(model, Popularity):
        return [[] for _ in items]
    if isinstance(model, ALS) and not is_new and (row is not None or explains_alone(model)):
        return _contributions(model, user, items, row, most)
    if isinstance(model, SupervisedPageRank) and not is_new:
        paths = (model.explain(user, item, None, most).paths for item in items)
        return [list(dict.fromkeys(path.items[0] for path in each)) for each in paths]
    if isinstance(model, RowScorer) and not isinstance(model, NeighborRecommender):
        return [[] for _ in items]
    return _nearest(model, seen, items, most)


def _contributions(
    model: ALS, user: Any, items: Sequence[Any], row: sp.csr_array | None, most: int
) -> list[list[Any]]:
    weights, reasons = None, []
    for item in items:
        why = model.explain(user, row, item, most, user_weights=weights)
        weights = why.user_weights
        reasons.append([each for each, part in why.contributions if part > 0])
    return reasons


def _nearest(
    model: Recommender, seen: Sequence[Any], items: Sequence[Any], most: int
) -> list[list[Any]]:
    own = model.item_ids.rows(list(seen), missing=-1)
    own = own[own >= 0]
    rows = model.item_ids.rows(list(items))
    if isinstance(model, NeighborRecommender):
        near = model.similarity[own][:, rows].toarray().T
    else:
        directions = model.store.item_directions
        near = directions[rows] @ directions[own].T
    order = np.argsort(-near, axis=1, kind="stable")[:, :most]
    labels = model.item_ids.raw(own)
    return [
        [label for label, at in zip(labels[best].tolist(), best, strict=True) if near[r, at] > 0]
        for r, best in enumerate(order)
    ]
