"""Answers of any model as plain Python objects, and as JSON that every client can read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.data.fields import spelled_like
from mfrank.data.ids import Ids
from mfrank.data.labels import objects
from mfrank.models.als import ALS
from mfrank.models.page_rank.estimator import SupervisedPageRank
from mfrank.models.popularity import Popularity
from mfrank.models.value_checks import values_told
from mfrank.retrieval.answers import Answer
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.row_scorer import RowScorer
from mfrank.steering.steering import Steering

__all__ = [
    "CannotAnswer",
    "as_given",
    "dump",
    "explanation",
    "from_items",
    "known_of",
    "listed",
    "recommendations",
    "similar",
    "steered",
]

Items = list[dict[str, Any]]


class CannotAnswer(Exception):
    """No model of this kind can answer such a question."""


def as_given(texts: Sequence[str], known: Ids) -> list[Any]:
    """Ids of a URL as ids of the model: numbers where its ids are numbers."""
    ids: list[Any] = spelled_like(objects(texts), known).tolist()
    return ids


def known_of(texts: Sequence[str], known: Ids) -> list[Any]:
    """Ids of a URL as ids of the model.

    Raises
    ------
    UnknownIdError
        The model does not know one of them.
    """
    labels = as_given(texts, known)
    known.rows(labels)
    return labels


def dump(answer: Any) -> bytes:
    """JSON in ASCII without NaN or infinity, which JSON does not have: they become null."""
    try:
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return json.dumps(_finite(answer), allow_nan=False, separators=(",", ":")).encode()


def steered(**levers: Any) -> Steering | None:
    """What a request asks of lists in addition to the highest scores; None if nothing."""
    steer = Steering(**levers)
    return None if steer == Steering() else steer


def listed(
    model: Recommender,
    users: Any,
    n: int,
    *,
    include_seen: bool = False,
    filter_items: Any = None,
    items: Any = None,
    on_unknown: Any = "error",
    steer: Steering | None = None,
) -> Answer:
    """The lists of many users."""
    if model.seen is None and not include_seen:
        raise ValueError(
            "this model was saved without the users' items, so that lists cannot leave them out; "
            "ask with include_seen=true"
        )
    answer: Answer = model.recommend(
        users,
        N=min(n, len(model.item_ids)),
        filter_already_liked_items=not include_seen,
        filter_items=filter_items,
        items=items,
        on_unknown=on_unknown,
        n_threads=1,
        steer=steer,
    )
    return answer


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
    items: Any = None,
    on_unknown: Any = "error",
    steer: Steering | None = None,
) -> Items:
    """The list of somebody new, from the items that they like.

    Raises
    ------
    CannotAnswer
        The model is of a kind that cannot rank for somebody new.
    """
    n = min(n, len(model.item_ids))
    more = {
        "filter_items": filter_items,
        "items": items,
        "on_unknown": on_unknown,
        "n_threads": 1,
        "steer": steer,
    }
    if isinstance(model, ALS):
        with values_told():  # by the description of ``weights``, not by a line for each request
            found: Items = model.recommend_from_items(liked, n, values=weights, **more).to_dicts()
        return found
    if not isinstance(model, RowScorer | Popularity):
        raise CannotAnswer(
            f"{type(model).__name__} cannot rank for somebody new; a model of mfrank fit can"
        )
    if weights is not None and len(weights) != len(liked):
        raise ValueError("weights must have one number for each liked item")
    columns = model.item_ids.rows(liked, missing=None if on_unknown == "error" else -1)
    values = np.ones(len(columns)) if weights is None else np.asarray(weights, dtype=np.float64)
    known = columns >= 0
    entries = values[known], (np.zeros(known.sum(), dtype=np.int64), columns[known])
    row = sp.csr_array(sp.coo_array(entries, (1, len(model.item_ids))))
    anybody = model.user_ids.labels[:1]
    return model.recommend(anybody, row, n, recalculate_user=True, **more).to_dicts()[0]  # type: ignore[no-any-return]


def similar(model: Recommender, item: Any, n: int) -> Items:
    """The items nearest to one, without itself."""
    # Asking for one more and removing the item itself is faster than a filter.
    found: Answer = model.similar_items(item, N=min(n + 1, len(model.item_ids)), n_threads=1)
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
        The user's items with their values: WRMF needs these, and saved models do not have them.

    Returns
    -------
    dict
        ``score``, and ``contributions`` of the user's items with ``baseline`` and ``others`` (the
        rest of the sum), or ``paths`` of a walk with ``others``.

    Raises
    ------
    CannotAnswer
        The model is of another kind, or needs ``row``.
    """
    if isinstance(model, SupervisedPageRank):
        score, paths = model.explain(user, item, None, n)
        told = [{"items": list(path.items), "mass": path.mass} for path in paths]
        rest = score - math.fsum(path.mass for path in paths)
        return {"score": score, "paths": told, "others": rest}
    if not isinstance(model, ALS):
        raise CannotAnswer(
            f"{type(model).__name__} does not explain its scores; models of mfrank fit and mfrank "
            "pagerank do"
        )
    if row is None and model.objective.uses_values and _lacks_values(model):
        raise CannotAnswer(
            f"an explanation of {type(model.objective).__name__} needs the values of the user's "
            "items, which are not saved with a model"
        )
    why = model.explain(user, row, item, n)
    told = [{"id": each, "contribution": part} for each, part in why.contributions]
    rest = why.score - why.baseline - math.fsum(part for _, part in why.contributions)
    return {
        "score": why.score,
        "baseline": why.baseline,
        "contributions": told,
        "others": rest if len(told) == n else 0.0,
    }


def _lacks_values(model: ALS) -> bool:
    return model.seen is None or model.seen.matrix.dtype == bool


def _finite(answer: Any) -> Any:
    match answer:
        case dict():
            return {key: _finite(value) for key, value in answer.items()}
        case list() | tuple():
            return [_finite(value) for value in answer]
        case float():
            return answer if math.isfinite(answer) else None
    return answer
