"""The pages of a user: a list with its reasons, two models side by side, somebody new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from mfrank.errors import InputValueError
from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site, blended, path_of, why_no_blend
from mfrank.pages.url_levers import effect, levers_of, model_urls, reasons_for
from mfrank.serving.answers import CannotAnswer, Items, explanation, from_items

RANKED = 1000
"""The lowest rank that pages show."""


def user(site: Site, request: PageRequest) -> dict[str, Any]:
    """A user's list with a reason for each item, their history, and what was held out."""
    index = request.model(site)
    model, n = site.models[index], request.number("n", 10, 1, 100)
    who = request.id("user", model.user_ids)
    has, levers = site.user_items(index, who), levers_of(site, index, request)
    longest = max(RANKED, request.page() * n)
    plain = listed = site.recommend(index, who, longest)
    if levers.options:
        listed = site.recommend(index, who, n if levers.whole else longest, **levers.options)
    pages, first, shown = request.paged(listed, n)
    held_out = dict(has.held_out)
    reasons = reasons_for(
        model,
        who,
        [item for item, _ in has.seen],
        [each["id"] for each in shown],
        site.values_row(index, who),
    )
    ranks, before = ranks_in(listed), ranks_in(plain)
    return {
        "user": who,
        "model": index,
        "names": site.names,
        "n": n,
        "items": [
            site.item(
                each["id"],
                rank=rank,
                before=before.get(each["id"]),
                score=each["score"],
                width=_width(each["score"], shown),
                held_out=each["id"] in held_out,
                because=site.items(reasons[rank - first]),
                why=path_of("user", who, "why", each["id"]) + (f"?model={index}" if index else ""),
            )
            for rank, each in enumerate(shown, first)
        ],
        "pages": pages,
        "levers": levers.form,
        "switched": model_urls(site, request),
        "effect": effect(site, levers.column, plain[:n], listed[:n]) if levers.options else None,
        **_history(site, request, has.seen),
        "held_out": [
            site.item(item, value=value if site.has_values else None, rank=ranks.get(item))
            for item, value in sorted(
                has.held_out, key=lambda each: ranks.get(each[0], RANKED + 1)
            )[:20]
        ],
        "n_held_out": len(held_out),
        "ranked": n if levers.whole else RANKED,
        "hits": _hits(ranks, held_out, n),
        "hits_before": _hits(before, held_out, n),
        "compare": path_of("compare", who) if len(site.models) > 1 else None,
    }


def why(site: Site, request: PageRequest) -> dict[str, Any]:
    """A user's score of an item: the contributions to it, or the paths that lead to it."""
    index = request.model(site)
    model, most = site.models[index], request.number("n", 12, 1, 100)
    who, what = request.id("user", model.user_ids), request.id("item", model.item_ids)
    seen = [item for item, _ in site.user_items(index, who).seen]
    answer = {
        "user": who,
        "item": site.item(what),
        "model": index,
        "names": site.names,
        "back": path_of("user", who) + (f"?model={index}" if index else ""),
    }
    try:
        explained = explanation(model, who, what, most, site.values_row(index, who))
    except (CannotAnswer, ValueError) as error:
        (nearest,) = reasons_for(model, who, seen, [what], most=most)
        score = float(model.score([who], [what])[0])
        return {**answer, "score": score, "nearest": site.items(nearest), "note": str(error)}
    if "paths" in explained:
        paths = [
            {"items": site.items(path["items"]), "mass": path["mass"]}
            for path in explained["paths"]
        ]
        return {**answer, **explained, "paths": paths}
    greatest = max((abs(each["contribution"]) for each in explained["contributions"]), default=0.0)
    parts = [
        site.item(
            each["id"],
            contribution=each["contribution"],
            width=100 * abs(each["contribution"]) / (greatest or 1),
        )
        for each in explained["contributions"]
    ]
    return {**answer, **explained, "contributions": parts}


def ranks_in(listed: Items) -> dict[Any, int]:
    """The rank of each item in a list, up to 1000."""
    return {each["id"]: rank for rank, each in enumerate(listed[:RANKED], 1)}


def ranks_of(site: Site, index: int, who: Any) -> dict[Any, int]:
    """The rank of each item in a user's list, up to 1000."""
    return ranks_in(site.recommend(index, who, RANKED))


def _history(
    site: Site, request: PageRequest, seen: list[tuple[Any, float | None]], n: int = 20
) -> dict[str, Any]:
    pages, _, shown = request.paged(seen, n, "history_page")
    return {
        "history": [
            site.item(item, value=value if site.has_values else None) for item, value in shown
        ],
        "history_pages": pages,
    }


def _hits(ranks: dict[Any, int], held_out: dict[Any, Any], n: int) -> int:
    return sum(rank <= n for item, rank in ranks.items() if item in held_out)


def _width(score: float, shown: Sequence[dict[str, Any]]) -> float:
    """Length of a bar in percent, from 0 or, if that is negative, from the page's lowest score."""
    scores = [each["score"] for each in shown]  # not always in order: a list may be diverse
    least, greatest = min(0.0, *scores), max(scores)
    return 100 * (score - least) / (greatest - least) if greatest > least else 100.0


Ranks = Mapping[Any, int]


def compare(site: Site, request: PageRequest) -> dict[str, Any]:
    """Two models side by side for one user, each item with its rank in the other list.

    With a weight, their blend stands between them, and ranks are of the neighboring list. Held out
    is what neither model has seen.
    """
    if len(site.models) < 2:
        raise InputValueError(
            "there is one model only", "start with two: mfrank explore MODEL MODEL2"
        )
    n = request.number("n", 20, 1, 100)
    weight = request.decimal("weight", 0, 0, 1) if request.text("weight") else None
    who = request.id("user", site.models[0].user_ids)
    ranks = [ranks_of(site, index, who) for index in (0, 1)]
    titles = list(site.names)
    if weight is not None:
        ranks.insert(1, ranks_in(blended(site, who, weight, RANKED)))
        titles.insert(1, f"{titles[0]} + {weight:g} · {titles[1]}")
    beside = [ranks[1], *ranks[:-1]]
    unseen = ({item for item, _ in site.user_items(index, who).held_out} for index in (0, 1))
    held_out = set.intersection(*unseen)
    lists = [
        [
            _moved(site, item, rank, other.get(item), held_out)
            for item, rank in own.items()
            if rank <= n
        ]
        for own, other in zip(ranks, beside, strict=True)
    ]
    return {
        "user": who,
        "names": site.names,
        "n": n,
        "titles": titles,
        "weight": weight,
        "no_blend": why_no_blend(site),
        "lists": lists,
        "overlap": len(_lines(ranks[0], ranks[-1], n)),
        "lines": [_lines(*pair, n) for pair in pairwise(ranks)],
        "hits": [sum(each["held_out"] for each in listed) for listed in lists],
        "n_held_out": len(held_out),
        "height": max(map(len, lists)),
        "url": path_of("user", who),
    }


def _lines(left: Ranks, right: Ranks, n: int) -> list[dict[str, int]]:
    """For each item in both lists, its rank on the left and on the right."""
    return [
        {"from": rank, "to": right[item]}
        for item, rank in left.items()
        if rank <= n and right.get(item, n + 1) <= n
    ]


def _moved(
    site: Site, item: Any, rank: int, other: int | None, held_out: set[Any]
) -> dict[str, Any]:
    """An item with its rank in the neighboring list, and how many places higher it is here."""
    move = None if other is None else other - rank
    return site.item(item, rank=rank, other=other, move=move, held_out=item in held_out)


_MOST_PICKED, _MOST_OFFERED = 50, 12


def sandbox(site: Site, request: PageRequest) -> dict[str, Any]:
    """The list of somebody new who likes the picked items; the URL holds all of the state."""
    index, n = request.model(site), request.number("n", 15, 1, 100)
    model, text = site.models[index], request.text("q")
    picked = request.ids("like", model.item_ids)
    if len(picked) > _MOST_PICKED:
        raise InputValueError(f"`like` must name at most {_MOST_PICKED} items, got {len(picked)}")
    levers = levers_of(site, index, request)
    plain, listed, note = [], [], ""
    if picked:
        try:
            listed = from_items(model, picked, n, **levers.options)
            plain = from_items(model, picked, RANKED) if levers.options else listed
        except CannotAnswer as error:
            note = str(error)
    before = ranks_in(plain)
    matches, known = site.catalog.items_like(text), model.item_ids
    offered = list(islice((i for i in matches if i not in picked and i in known), _MOST_OFFERED))
    reasons = reasons_for(model, None, picked, [each["id"] for each in listed], is_new=True)
    return {
        "model": index,
        "names": site.names,
        "n": n,
        "q": text,
        "picked": [
            site.item(each, without=request.url(like=[other for other in picked if other != each]))
            for each in picked
        ],
        "offered": [
            site.item(each, add=request.url(like=[*picked, each], q=None)) for each in offered
        ],
        "items": [
            site.item(
                each["id"],
                rank=rank,
                before=before.get(each["id"]),
                score=each["score"],
                because=site.items(reasons[rank - 1]),
                add=request.url(like=[*picked, each["id"]], q=None),
            )
            for rank, each in enumerate(listed, 1)
        ],
        "levers": levers.form,
        "switched": model_urls(site, request),
        "effect": effect(site, levers.column, plain[:n], listed)
        if levers.options and listed
        else None,
        "note": note,
        "empty": request.url(like=None, q=None),
    }
