"""Answers of any model as plain Python objects, and as JSON that every client can read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import compress
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_time, on_host
from mfrank.data import Ids, objects, spelled_like
from mfrank.errors import InputValueError
from mfrank.models import ALS, Blend, Reranker, SupervisedPageRank, values_told
from mfrank.retrieval import (
    Answer,
    Fallback,
    Otherwise,
    Recommender,
    is_nested,
    unannounced,
)
from mfrank.serving.catalogue import ItemsOfModel
from mfrank.steering import Steering

EXACT = 2**53
"""Up to this whole number, either sign, every client reads numbers of JSON as they are."""

_LEAST_WIDTH, _PORTION = 64, 4e8
"""A portion of users is as many as need this many products; a model without factors counts as one
of that width."""

Items = list[dict[str, Any]]


class CannotAnswer(Exception):
    """No model of this kind can answer such a question."""


def from_url(texts: Sequence[str], known: Ids, on_unknown: str = "error") -> list[Any]:
    """Ids of a URL as ids of the model, which are numbers where its ids are numbers.

    Unknown ones stay what they are with ``on_unknown="skip"``.

    Raises
    ------
    UnknownIdError
        The model does not know one of them, and ``on_unknown`` is "error".
    """
    labels: list[Any] = spelled_like(objects(texts), known).tolist()
    if on_unknown == "error":
        known.rows(labels)
    return labels


def one_from_url(text: str, known: Ids) -> Any:
    """An id of a URL as an id of the model; raises as :func:`from_url` does."""
    return from_url([text], known)[0]


def numbered(labels: Any, known: Ids) -> Any:
    """Ids of a body, or lists of them, as ids of the model.

    A text is a number where only the number is known: programs whose numbers are floats have those
    beyond 2^53 as texts.
    """
    if labels is None or known.are_text:
        return labels
    kinds = set(map(type, labels))
    if list in kinds:
        return [numbered(each, known) for each in labels]
    return from_url(labels, known, "skip") if str in kinds else labels


def known_only(labels: Sequence[Any], known: Ids) -> list[Any]:
    """Those of the ids that the model knows."""
    rows = known.rows(labels, missing=-1).tolist() if labels else []
    return list(compress(labels, [row >= 0 for row in rows]))


def excluded(labels: Sequence[Any], known: Ids) -> list[Any]:
    """Those of the ids of ``exclude`` that the model knows.

    Raises
    ------
    ValueError
        One is known once it is written in another way, or is a list of ids, which would leave out
        nothing.
    """
    here = known_only(labels, known)
    if len(here) < len(labels):
        met = set(here)
        unknown = [each for each in labels if each not in met]
        if (found := Otherwise.among(unknown, known)) is not None:
            raise InputValueError(
                f"`exclude` has {found.given!r}, and the model knows {found.known!r}", found.remedy
            )
    return here


def dump(answer: Any) -> bytes:
    """JSON in ASCII that every client reads.

    JSON has no NaN and no infinity: they become null. Clients whose numbers are floats, such as
    JavaScript, change whole numbers beyond 2^53: they become texts.
    """
    return json.dumps(_portable(answer), separators=(",", ":")).encode()


def steered(**levers: Any) -> Steering | None:
    """What a request asks of lists in addition to the highest scores; None if nothing."""
    return Steering(**levers) if any(levers.values()) else None


def only_items(
    table: ItemsOfModel | None, where: Sequence[str], fields: Sequence[str], items: Any
) -> Any:
    """The ``items`` of a request that its conditions allow and that may be listed at all.

    Raises
    ------
    ValueError
        A condition or a field cannot be read, or the service has no table of items.
    """
    if table is None:
        for name, given in ("where", where), ("fields", fields):
            if given:
                raise InputValueError(
                    f"`{name}` needs a table of items, which this service does not have:",
                    "start it with --items FILE, or app(model, items=)",
                )
        return items
    table.check_fields(fields)
    return table.only(tuple(where), items)


def listed(
    model: Recommender,
    users: Any,
    n: int,
    *,
    include_seen: bool,
    fallback: Fallback = "none",
    **options: Any,
) -> Answer:
    """The lists of many users; options are those of ``recommend``."""
    if model.seen is None and not include_seen:
        raise InputValueError(
            "this model was saved without the users' items, so that lists cannot leave them out",
            "ask with `include_seen=true`",
        )
    check_fallback(model, fallback)
    with unannounced():
        answer: Answer = model.recommend(
            users,
            N=min(n, len(model.item_ids) or 1),
            filter_already_liked_items=not include_seen,
            fallback=fallback,
            n_threads=1,
            **options,
        )
    return answer


def check_list_of_each(n_users: int, options: Mapping[str, Any]) -> None:
    """Refuse filters with a list for each user, but not for as many users."""
    for name in ("filter_items", "items"):
        each = options[name]
        if each is not None and is_nested(each) and len(each) != n_users:
            raise InputValueError(
                f"`{name}` must be one list for all users, or a list for each of them"
            )


def listed_in_portions(
    model: Recommender, users: Sequence[Any], n: int, *, filter_items: Any, items: Any, **more: Any
) -> Answer:
    """The same lists, made in portions between which a time limit is checked; options as above."""
    width = max(_LEAST_WIDTH, model.store.factors)
    size = max(1, int(_PORTION / (width * max(1, len(model.item_ids)))))
    if size >= len(users):
        return listed(model, users, n, filter_items=filter_items, items=items, **more)
    check_list_of_each(len(users), {"filter_items": filter_items, "items": items})
    if more.get("on_unknown") != "skip":
        model.user_ids.rows(users)  # so that an error names all that are unknown
    answers = []
    for begin in range(0, len(users), size):
        check_time()
        part = slice(begin, begin + size)
        blocked, only = (each[part] if is_nested(each) else each for each in (filter_items, items))
        answers.append(listed(model, users[part], n, filter_items=blocked, items=only, **more))
    ids, scores = (np.concatenate([on_host(each[of]) for each in answers]) for of in (0, 1))
    return Answer(ids, scores)


def told(table: ItemsOfModel | None, fields: Sequence[str], items: Items) -> Items:
    """A list whose items have the values of some columns of the table, if any are asked for."""
    return items if table is None or not fields else table.told(fields, items)


def recommendations(model: Recommender, users: Any, n: int, **options: Any) -> list[Any]:
    """The same as ``[{"id": ..., "score": ...}, ...]``, one for each; options as above."""
    return listed(model, users, n, **options).to_dicts()


def from_items(
    model: Recommender,
    liked: Sequence[Any],
    n: int,
    *,
    weights: Sequence[float] | None = None,
    filter_items: Any = None,
    on_unknown: Any = "error",
    fallback: Fallback = "none",
    **options: Any,
) -> Items:
    """The list of somebody new, from the items that they like; options are those of ``recommend``.

    Items with weights below the threshold of the model's data are only left out of the list.

    Raises
    ------
    CannotAnswer
        The model is of a kind that cannot rank for somebody new.
    """
    check_fallback(model, fallback)
    n = min(n, len(model.item_ids) or 1)
    if weights is not None and len(weights) != len(liked):
        raise InputValueError("`weights` must have one number for each liked item")
    are_low = _below(weights or (), model.threshold)
    if weights is not None and any(are_low):
        if on_unknown == "error":
            model.item_ids.rows(liked)  # raises
        low = list(compress(liked, are_low))
        likes = [not is_low for is_low in are_low]
        liked, weights = list(compress(liked, likes)), list(compress(weights, likes))
        nested = filter_items is not None and is_nested(filter_items)
        lists = filter_items if nested else [filter_items or []]
        filter_items = [[*each, *low] for each in lists]
    more = {
        "filter_items": filter_items,
        "on_unknown": on_unknown,
        "fallback": fallback,
        "n_threads": 1,
        **options,
    }
    if not model.folds_in:
        raise CannotAnswer(
            f"{type(model).__name__} cannot rank for somebody new; a model of mfrank fit can"
        )
    # By the description of ``weights``, not by a line for each request.
    with values_told(), unannounced():
        return model.recommend_from_items(liked, n, values=weights, **more).to_dicts()


def _below(weights: Sequence[float], threshold: float | None) -> list[bool]:
    """Which weights a model's threshold leaves out: none if all are 1, which only mark items."""
    if threshold is None or set(weights) <= {1}:
        return []
    return [weight < threshold for weight in weights]


def check_fallback(model: Recommender, fallback: Fallback) -> None:
    """Raise ValueError if a model cannot tell what is popular, and is asked to."""
    if fallback != "none" and model.seen is None:
        raise InputValueError(
            "this model was saved without the users' items, so that it is not known what is "
            "popular:",
            "ask with `fallback=none`",
        )


def similar(
    model: Recommender, item: Any, n: int, hidden: Sequence[Any] = (), items: Any = None
) -> Items:
    """The items nearest to one, without itself and the hidden; ``items`` are the only ones."""
    # Asking for one more and removing the item itself is faster than a filter.
    most, blocked = min(n + 1, len(model.item_ids)), hidden or None
    found: Answer = model.similar_items(item, most, blocked, items, n_threads=1)
    return [each for each in found.to_dicts() if each["id"] != item][:n]


def explanation(
    model: Recommender, user: Any, item: Any, n: int, row: sp.csr_array | None = None
) -> dict[str, Any]:
    """Why a user's score of an item is what it is.

    Parameters
    ----------
    model : Recommender
    user, item : id
    n : int
        Maximum number of contributions, or paths.
    row : shape (1, n_items), optional
        The user's items with their values; by default those of the model.

    Returns
    -------
    dict
        ``score``, and ``contributions`` of the user's items with ``baseline`` and ``others`` (the
        rest of the sum), ``features`` of a :class:`mfrank.Reranker` with both, or ``paths`` of a
        walk with ``others``.

    Raises
    ------
    CannotAnswer
        The model is of another kind, or needs ``row``.
    """
    if type(model).explain is Recommender.explain:
        raise CannotAnswer(
            f"{type(model).__name__} does not explain its scores; models of mfrank fit and mfrank "
            "pagerank do"
        )
    readers = _value_readers(model)
    if row is None and readers and not explains_alone(model):
        raise CannotAnswer(
            f"an explanation of {readers[0]} needs the values of the user's items, which are not "
            "saved with a model"
        )
    of_trees = isinstance(model, Reranker)
    why = model.explain(user, row, item, n)
    if isinstance(model, SupervisedPageRank):
        told = [{"items": list(path.items), "mass": path.mass} for path in why.paths]
        rest = why.score - math.fsum(path.mass for path in why.paths)
        return {"score": why.score, "paths": told, "others": rest}
    kind, name = ("features", "name") if of_trees else ("contributions", "id")
    told = [{name: each, "contribution": part} for each, part in why.contributions]
    rest = why.score - why.baseline - math.fsum(part for _, part in why.contributions)
    return {
        "score": why.score,
        "baseline": why.baseline,
        kind: told,
        "others": rest if len(told) == n else 0.0,
    }


def explains_alone(model: Recommender) -> bool:
    """Whether a model has the users' items, with their values if an ALS reads them."""
    seen = model.seen
    return seen is not None and not (_value_readers(model) and seen.matrix.dtype == bool)


def reads_values(model: Recommender) -> bool:
    """Whether a model learns from the values of interactions."""
    parts = model.parts if isinstance(model, Blend) else [model]
    return any(getattr(part, "uses_values", True) for part in parts)


def _value_readers(model: Recommender) -> list[str]:
    """The objectives of a model, or of the parts of a blend, that read values."""
    parts = model.parts if isinstance(model, Blend) else [model]
    objectives = [part.objective for part in parts if isinstance(part, ALS)]
    return [type(objective).__name__ for objective in objectives if objective.uses_values]


def _portable(answer: Any) -> Any:
    match answer:
        case str() | bool() | None:
            return answer
        case int():
            return answer if -EXACT <= answer <= EXACT else str(answer)
        case float():
            return answer if math.isfinite(answer) else None
        case dict():
            return {key: _portable(value) for key, value in answer.items()}
        case list() | tuple():
            return [_portable(value) for value in answer]
    return answer


# Lists as JSON, written place by place: the bytes of ``dump(Answer.to_dicts)``, but faster.


def user_lists(
    users: Sequence[Any],
    answer: Answer,
    table: ItemsOfModel | None = None,
    fields: Sequence[str] = (),
) -> list[bytes]:
    """``{"user": ..., "items": [{"id": ..., "score": ...}, ...]}`` for each user.

    With ``fields``, each item has the values of these columns of the table.
    """
    if fields:
        items = [dump(told(table, fields, each)).decode() for each in answer.to_dicts()]
    else:
        items = _items(answer)
    pairs = zip(users, items, strict=True)
    return [f'{{"user":{_id(user)},"items":{items}}}'.encode() for user, items in pairs]


def _items(answer: Answer) -> list[str]:
    """The list of each user, without padding."""
    ids, scores = on_host(answer.ids), on_host(answer.scores)
    if np.isinf(scores).any():  # which JSON does not have
        return [dump(items).decode() for items in answer.to_dicts()]
    numbers, rows = _are_exact(ids), zip(ids.tolist(), scores.tolist(), strict=True)
    lists = []
    for labels, row in rows:
        pairs = zip(labels if numbers else map(_id, labels), row, strict=True)
        places = [f'{{"id":{each},"score":{score!r}}}' for each, score in pairs if score == score]
        lists.append(f"[{','.join(places)}]")
    return lists


def _are_exact(ids: NDArray[Any]) -> bool:
    """Whether the ids are numbers that are written as such: row numbers, or none beyond 2^53."""
    if ids.dtype.kind != "i":
        return False
    return ids.dtype.itemsize < 8 or not ids.size or (ids.max() <= EXACT and ids.min() >= -EXACT)


def _id(label: Any) -> str:
    """An id; None, of padding, is written, too, and then left out."""
    if type(label) is int and -EXACT <= label <= EXACT:
        return str(label)
    return encode_basestring_ascii(label) if type(label) is str else dump(_python(label)).decode()


def _python(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
