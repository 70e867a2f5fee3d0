"""The levers that a URL sets on a list, their effect, and the reasons for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.errors import InputValueError
from mfrank.models import ALS, NeighborRecommender, Popularity, SupervisedPageRank
from mfrank.pages.catalog import SortingColumn
from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site
from mfrank.retrieval import Recommender, RowScorer
from mfrank.serving.answers import explains_alone, steered

_NAMES = ("popularity_penalty", "diversity", "at_most", "of", "only", "without", "boost", "by")
_STRONGEST = 3.0
"""Largest penalty and boost, in standard deviations of scores."""
_LONGEST, _LONGEST_TEXT = 100, 400


@dataclass(frozen=True, slots=True)
class UrlLevers:
    """The levers that a URL sets.

    Attributes
    ----------
    options : mapping of str to Any
        Options of ``recommend``: ``steer``, ``items``, ``filter_items``; empty if no lever is set.
    whole : bool
        Whether items are chosen jointly, so that the list's length affects which items are in it.
    column : SortingColumn, or None
        The column whose values are counted and capped.
    form : mapping of str to Any
        Contents of the form.
    """

    options: Mapping[str, Any]
    whole: bool
    column: SortingColumn | None
    form: Mapping[str, Any]


def levers_of(site: Site, index: int, request: PageRequest) -> UrlLevers:
    """Read a model's levers from the URL; raise ValueError if one has an invalid value."""
    known = site.models[index].item_ids
    penalty = request.decimal("popularity_penalty", 0, 0, _STRONGEST)
    diversity = request.decimal("diversity", 0, 0, 1)
    by = request.decimal("by", 0.5, -_STRONGEST, _STRONGEST)
    column = _column(site, request)
    cap = request.number("at_most", 0, 1, _LONGEST) if request.text("at_most") else None
    if cap is not None and column is None:
        raise InputValueError(
            "`at_most` needs a file of items with a column of kinds, such as genres"
        )
    only, without, boost = (_choice(site, request, name) for name in ("only", "without", "boost"))
    boosted = boost[0].items(boost[1]) if boost and by else []
    steer = steered(
        popularity_penalty=penalty,
        diversity=diversity,
        boosts={item: by for item in boosted if item in known},
        categories=column.labels if column and cap is not None else None,
        at_most=cap,
    )
    options_of_recommend: dict[str, Any] = {
        "steer": steer,
        "items": [item for item in only[0].items(only[1]) if item in known] if only else None,
        "filter_items": [item for item in without[0].items(without[1]) if item in known]
        if without
        else None,
    }
    options = {name: value for name, value in options_of_recommend.items() if value is not None}
    form = {
        "popularity_penalty": penalty,
        "diversity": diversity,
        "at_most": cap,
        "of": column.name if column else None,
        **{name: request.text(name, _LONGEST_TEXT) for name in ("only", "without", "boost")},
        "by": by,
        "set": bool(options),
        "adds": steer is not None and steer.adds,
        "can": site.lever_names(index),
        "columns": [_values_in_form(each) for each in site.catalog.columns.values()],
        "action": request.path,
        "kept": request.parameters_without((*_NAMES, "page", "history_page")),
        "reset": request.url(**dict.fromkeys((*_NAMES, "page"))),
    }
    return UrlLevers(options, bool(diversity or cap is not None), column, form)


def effect(
    site: Site, column: SortingColumn | None, plain: Sequence[Any], listed: Sequence[Any]
) -> dict[str, Any]:
    """The effect of levers: numbers of the list without and with them, and items that dropped out.

    Parameters
    ----------
    plain, listed : sequence of dict with "id"
        The list without levers and with them.
    """
    lists = [[each["id"] for each in one] for one in (plain, listed)]
    dropped = [(rank, each) for rank, each in enumerate(lists[0], 1) if each not in set(lists[1])]
    users = [[site.catalog.users_of(item) for item in one] for one in lists]
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
        "in_both": len(lists[0]) - len(dropped),
        "fallen": [site.item(item, before=rank) for rank, item in dropped],
    }


def model_urls(site: Site, request: PageRequest) -> list[str]:
    """URL of this page for each model, without the levers that the model lacks."""
    urls = []
    for index in range(len(site.models)):
        dropped = {"popularity_penalty", "diversity"} - set(site.lever_names(index))
        urls.append(request.url(model=index or None, **dict.fromkeys({*dropped, "page"})))
    return urls


def _column(site: Site, request: PageRequest) -> SortingColumn | None:
    columns, name = site.catalog.columns, request.text("of", _LONGEST_TEXT)
    if not name:
        return next(iter(columns.values()), None)
    if name not in columns:
        there = ", ".join(map(repr, columns)) or "there is none"
        raise InputValueError(
            f"`of` must be a column that sorts items into kinds ({there}), got {name!r}"
        )
    return columns[name]


def _choice(site: Site, request: PageRequest, name: str) -> tuple[SortingColumn, str] | None:
    text, choices = request.text(name, _LONGEST_TEXT), site.catalog.choices
    if not text:
        return None
    if text not in choices:
        such = next((f"such as {each!r}" for each in choices), "there is none")
        raise InputValueError(
            f"`{name}` must be a column of kinds and a value ({such}), got {text!r}"
        )
    return choices[text]


def _values_in_form(column: SortingColumn) -> dict[str, Any]:
    values = [
        {"value": value, "text": f"{column.name}:{value}", "items": size}
        for value, size in column.sizes.items()
    ]
    return {"name": column.name, "values": values}


# The reasons for each item of a list, in one form for every kind of model.


def reasons_for(
    model: Recommender,
    user: Any,
    seen: Sequence[Any],
    items: Sequence[Any],
    row: sp.csr_array | None = None,
    most: int = 2,
    *,
    is_new: bool = False,
) -> list[list[Any]]:
    """For each of ``items``, the user's own items that are the strongest reasons for it.

    These are the largest contributions, if the model's score is a sum over the user's items;
    otherwise the most similar of the user's items.

    Parameters
    ----------
    model : Recommender
    user : id
    seen : ids
        The user's items.
    items : ids
        The list.
    row : shape (1, n_items), optional
        The user's items with values.
    most : int, default 2
        Largest number of reasons for an item.
    is_new : bool, default False
        The model does not know the user; ``user`` is not read.
    """
    if not seen or not items or isinstance(model, Popularity):
        return [[] for _ in items]
    if isinstance(model, ALS) and not is_new and (row is not None or explains_alone(model)):
        return _contributions(model, user, items, row, most)
    if isinstance(model, SupervisedPageRank) and not is_new:
        paths = (model.explain(user, None, item, most).paths for item in items)
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
