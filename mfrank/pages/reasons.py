"""Why each item of a list is in it, in one form for every kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.models.als import ALS
from mfrank.models.neighbor_lists import NeighborRecommender
from mfrank.models.page_rank.estimator import SupervisedPageRank
from mfrank.models.popularity import Popularity
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.row_scorer import RowScorer

__all__ = ["because"]


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
    if isinstance(model, ALS) and not is_new:
        needs_values = model.objective.uses_values
        if row is not None or (model.seen is not None and not needs_values):
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
