"""The list of a user by a blend of both models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mfrank.data.counts import Counts
from mfrank.pages.world import World
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.row_scorer import RowScorer
from mfrank.serving.answers import Items, recommendations
from mfrank.store.blend import blend
from mfrank.store.factors import FactorStore

__all__ = ["blended", "why_no_blend"]


def why_no_blend(world: World) -> str | None:
    """Why the two models of a world cannot be blended here; None if they can."""
    for name, model in zip(world.names, world.models, strict=True):
        if isinstance(model, RowScorer):
            return f"{name} has no factors to blend"
    first, second = world.models
    if first.item_ids != second.item_ids or first.user_ids != second.user_ids:
        return "the two models have different users or items"
    return None


def blended(world: World, user: Any, weight: float, n: int) -> Items:
    """The best items by the first model's score plus ``weight`` times the second's.

    What either model has seen of the user is left out.

    Raises
    ------
    ValueError
        The models cannot be blended.
    """
    if reason := why_no_blend(world):
        raise ValueError(f"weight needs two models that can be blended, but {reason}")
    first, second = (_of_user(model.store.on_host(), user) for model in world.models)
    each = [world.has(index, user) for index in (0, 1)]
    seen = {item for has in each for item in has.left_out or dict(has.seen)}
    model = Recommender.of(blend(first, second, weight))
    listed: Items = recommendations(
        model, [user], n, include_seen=True, filter_items=list(seen) if seen else None
    )[0]
    return listed


def _of_user(store: FactorStore, user: Any) -> FactorStore:
    """The store as if it had one user, so that a blend need not copy all of them."""
    row = store.user_ids.rows([user])
    counts, biases = store.counts, store.user_biases
    return replace(
        store,
        user_factors=store.user_factors[row],
        user_ids=store.user_ids.take(row),
        user_biases=None if biases is None else biases[row],
        counts=None if counts is None else Counts(counts.users[row], counts.items),
        history=(),
        extras={},
    )
