"""The answer to POST /recommend: lists of many users, or of somebody new."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from mfrank.errors import InputValueError
from mfrank.retrieval import Recommender, is_nested
from mfrank.serving.answers import (
    check_list_of_each,
    dump,
    excluded,
    from_items,
    from_url,
    listed_in_portions,
    numbered,
    only_items,
    steered,
    told,
    user_lists,
)
from mfrank.serving.arms import Arm, Arms
from mfrank.serving.catalogue import ItemsOfModel
from mfrank.serving.limits import Limits
from mfrank.serving.questions import Batch, check_length
from mfrank.serving.visitors import typed_or_same
from mfrank.steering import Steering


def charge(limits: Limits, model: Recommender, users: int, n: int, diversity: float) -> None:
    """Refuse steered lists that would take too long to choose."""
    n, most = min(n, len(model.item_ids)), limits.max_steered
    if diversity and users * n * n > most:
        raise InputValueError(
            f"`diversity`: {users} users x `n={n}` x n must be at most {most:,}",
            "ask for fewer users or a smaller n, or serve with a larger --max-steered",
        )


def batch_answer(request: Request, arms: Arms, asked: Batch, limits: Limits) -> bytes:
    """The answer to POST /recommend: each user's list by the user's arm."""
    if (asked.users is None) == (asked.from_items is None):
        raise InputValueError("the body must have either users or `from_items`")
    if asked.weights is not None and asked.from_items is None:
        raise InputValueError("`weights` go with `from_items`")
    if asked.include_seen and asked.users is None:
        raise InputValueError("`include_seen` goes with users; somebody new has `from_items` only")
    if asked.visitor is not None and asked.users is not None:
        raise InputValueError("`visitor` goes with `from_items`; users have their own ids")
    check_length(asked.n, limits)
    if asked.users is None:
        arm = arms.of(request, asked.visitor, asked)
        return _joined(_arm_lists(request, arm, asked, limits, 1))
    places: dict[Arm, list[int]] = {}
    for place, user in enumerate(asked.users):
        places.setdefault(arms.of(request, user, asked), []).append(place)
    n_users, answers = len(asked.users), [b""] * len(asked.users)
    for arm, own in places.items():
        part = asked if len(places) == 1 else _part(asked, own)
        made = _arm_lists(request, arm, part, limits, n_users)
        for place, each in zip(own, made, strict=True):
            answers[place] = each
    return _joined(answers)


def _joined(lists: list[bytes]) -> bytes:
    return b'{"lists":[' + b",".join(lists) + b"]}"


def _part(asked: Batch, places: list[int]) -> Batch:
    """A batch of some of its users, who may have filters of their own."""
    assert asked.users is not None
    filters = {name: getattr(asked, name) for name in ("filter_items", "items")}
    check_list_of_each(len(asked.users), filters)
    own: dict[str, Any] = {"users": [asked.users[place] for place in places]}
    for name, each in filters.items():
        if each is not None and is_nested(each):
            own[name] = [each[place] for place in places]
    return asked.model_copy(update=own)


def _arm_lists(
    request: Request, arm: Arm, asked: Batch, limits: Limits, n_users: int
) -> list[bytes]:
    """The lists of a batch by one model; ``n_users`` are of the whole batch."""
    live, visitors = arm.live, arm.visitors
    model, version = live.now
    table, source = live.items_of(model), arm.source(request, version)
    charge(limits, model, n_users, asked.n, asked.diversity)
    of_items, skip = model.item_ids, asked.on_unknown
    hidden = excluded(numbered(asked.exclude, of_items), of_items)
    only = numbered(asked.items, of_items)
    more: dict[str, Any] = {
        "filter_items": _with(numbered(asked.filter_items, of_items), hidden),
        "items": only_items(table, asked.where, asked.fields, only),
        "on_unknown": skip,
        "fallback": asked.fallback,
        "steer": _steered(model, asked, table),
    }
    stated = live.stated(version)
    if asked.from_items is not None:
        liked = numbered(asked.from_items, of_items)
        found = from_items(model, liked, asked.n, weights=asked.weights, **more)
        if asked.visitor is not None:
            who = typed_or_same(str(asked.visitor), model.user_ids)
            stated |= visitors.note(who, found, source)
        return [dump({"user": None, "items": told(table, asked.fields, found), **stated})]
    if not asked.users:
        return []
    rows = numbered(asked.users, model.user_ids)
    options = {"include_seen": asked.include_seen, **more}
    own = visitors.lists(model, rows, asked.n, options, asked, source)
    if own is not None:
        return [
            dump({**one, "items": told(table, asked.fields, one["items"]), **stated}) for one in own
        ]
    lists = listed_in_portions(model, rows, asked.n, include_seen=asked.include_seen, **more)
    end, written = live.stated_bytes(version), user_lists(asked.users, lists, table, asked.fields)
    return written if end == b"}" else [each[:-1] + end for each in written]


def _with(filter_items: Any, hidden: list[Any]) -> Any:
    """A filter that also has these items; it may have a list for each user."""
    if not hidden:
        return filter_items
    if filter_items is not None and is_nested(filter_items):
        return [[*each, *hidden] for each in filter_items]
    return [*(filter_items or ()), *hidden]


def _steered(model: Recommender, asked: Batch, table: ItemsOfModel | None) -> Steering | None:
    """The levers of a body, of which some go by the columns of the table of items."""
    labels = from_url(list(asked.boosts), model.item_ids, asked.on_unknown)
    boosts = dict(zip(labels, asked.boosts.values(), strict=True))
    by_column: dict[str, Any] = {}
    if asked.boosts_where or asked.at_most:
        only_items(table, list(asked.boosts_where), list(asked.at_most), None)  # checks them
        assert table is not None
        for condition, boost in asked.boosts_where.items():
            for item in table.ids_where(condition):
                boosts[item] = boosts.get(item, 0.0) + boost
        if len(asked.at_most) > 1:
            raise InputValueError(f"`at_most` takes one column, got {list(asked.at_most)}")
        for column, most in asked.at_most.items():
            by_column = {"categories": table.categories(column), "at_most": most}
    return steered(
        boosts=boosts,
        diversity=asked.diversity,
        popularity_penalty=asked.popularity_penalty,
        **by_column,
    )
