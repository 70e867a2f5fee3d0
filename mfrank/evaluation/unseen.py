"""Users whom a model does not know, folded in to be evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

from numpy.typing import ArrayLike

from mfrank.data.interactions import Interactions
from mfrank.data.user_splits import HeldOut
from mfrank.evaluation.user_items import ids_of
from mfrank.retrieval.row_scorer import RowScorer

__all__ = ["folded_in"]


def folded_in(
    model: Any, held_out: HeldOut, train: object, filters: bool, users: ArrayLike | None
) -> tuple[Any, Interactions, ArrayLike]:
    """A function that recommends to users from their fold-in part; that part; and these users."""
    if train is not None or not filters:
        raise ValueError(
            "held-out users are folded in from test.fold_in, which is excluded from the ranking: "
            "leave out train and filter_already_liked_items"
        )
    recommend = getattr(model, "recommend", None)
    if not callable(recommend) or "recalculate_user" not in signature(recommend).parameters:
        raise TypeError(
            "to fold in held-out users, model must have a method recommend(users, user_items, N=, "
            f"recalculate_user=); got {type(model).__name__}"
        )
    known, own = ids_of(model), (held_out.fold_in.user_ids, held_out.fold_in.item_ids)
    for theirs, mine in zip(known or own, own, strict=True):
        if theirs != mine:
            raise ValueError(
                "the model has other users or items than the split of the held-out users: fit it "
                "to split.train, with its ids"
            )
    chosen = held_out.users if users is None else users
    fold_in = held_out.fold_in
    if fold_in.timestamps is None or not isinstance(model, RowScorer):
        return partial(recommend, recalculate_user=True), fold_in, chosen
    return _WithTimes(recommend, fold_in), fold_in, chosen


@dataclass(frozen=True)
class _WithTimes:
    """Lists from interactions: rows of a matrix have no times, and walks begin at the latest."""

    func: Any
    fold_in: Interactions

    def __call__(self, users: ArrayLike, _: Any, N: int) -> Any:
        return self.func(users, self.fold_in, N, recalculate_user=True, by_row=True)
