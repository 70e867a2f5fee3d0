"""The baseline that recommends the same to everybody: the items that most users have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from mfrank.als import Explanation
from mfrank.arrays import check_above_zero, check_count, in_turn
from mfrank.data import Interactions, tell_of_duration, timestamps_of
from mfrank.errors import InputTypeError
from mfrank.models.at_once import fit_at_once, removal_at_once, update_at_once
from mfrank.models.factor_model import (
    Callback,
    FactorModel,
)
from mfrank.models.options import check_backend
from mfrank.models.parameters import describe, refuse_target
from mfrank.models.value_notes import tell_of_liked
from mfrank.retrieval import (
    Answer,
    LikedItems,
    Matrix,
    ModelState,
    OwnRows,
    QueryFactors,
    Raw,
    Recommender,
    Seen,
    given_id,
    of_one_state,
    sides,
)
from mfrank.store import FactorStore


@dataclass(eq=False, repr=False)
class Popularity(FactorModel):
    """Recommend the items with the most users: the baseline that every model has to beat.

    An item's score is its number of users with a value above 0, the same for every user. As in
    every model, seen items are left out, and equal scores are ordered by row.

    Parameters
    ----------
    backend : {"auto", "cpu", "numpy", "reference", "cuda"}, default "auto"
        Where lists are computed, as for :class:`mfrank.ALS`.
    window : float or None, default None
        > 0, in the unit of the timestamps (seconds, if they were dates). Counts only users whose
        latest interaction with the item is at most this long before the latest interaction of all.
        For news or fashions, the baseline to beat is what is popular now. None counts all users.

    Attributes
    ----------
    store : FactorStore
        One factor: 1 for each user, and the number of counted users for each item.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.Interactions.from_arrays([0, 0, 1, 1, 2], [5, 6, 6, 7, 6])
    >>> ids, scores = mfrank.Popularity().fit(data).recommend(2, N=2)
    >>> ids.tolist(), scores.tolist()
    ([5, 7], [1.0, 1.0])
    """

    backend: str = "auto"
    window: float | None = None
    folds_in = True
    _kept = cast("Any", None)  # nothing

    def __post_init__(self) -> None:
        check_backend(self.backend)
        if self.window is not None:
            check_above_zero(window=self.window)

    @in_turn
    def fit(
        self,
        user_items: Any,
        y: None = None,
        *,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Count the users of each item; arguments and errors are as in :meth:`ItemKNN.fit`."""
        refuse_target(y)
        fit_at_once(self, user_items, callback)
        return self

    @in_turn
    def partial_fit(
        self, new: Any = None, *, batch: str | None = None, leave_out: Any = None
    ) -> Self:
        """Count what is new, too; arguments and errors are as in :meth:`ItemKNN.partial_fit`.

        With a window, ``new`` needs timestamps, and what is then older than the window leaves it.
        """
        held = self._now()
        old = None if held.seen is None else held.seen.positives
        update_at_once(self, old, new, batch, leave_out)
        return self

    @in_turn
    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """Remove users and items; the model is then as after a fit without their interactions.

        Parameters and errors are those of :meth:`mfrank.Recommender.remove`. A window ends where it
        did, also if its latest interaction was removed.
        """
        removal_at_once(self, users, items, by_row=by_row)
        return self

    def _store_of(self, data: Interactions) -> FactorStore:
        if self.window is None:
            return popularity_store(data, describe(self))
        times = timestamps_of(data, "Popularity with a window", "window=None")
        tell_of_duration("window", self.window, times)
        return self._within(data, *_timed_likes(data), int(times.max()))

    def _within(
        self,
        data: Interactions,
        users: NDArray[Any],
        items: NDArray[Any],
        times: NDArray[np.int64],
        end: int,
    ) -> FactorStore:
        """The store of likes in the window that ends at a moment, which are kept for updates."""
        late = np.flatnonzero(times >= end - (self.window or 0))
        kept = {"users": users[late], "items": items[late], "times": times[late]}
        arrays = {f"window_{name}": array.astype(np.int64) for name, array in kept.items()}
        return _store(data, items[late], describe(self), **arrays, window_end=np.array([end]))

    def _updated(self, held: ModelState, joined: Interactions, new: Interactions) -> FactorStore:
        """The store of a state after an update; ``joined`` are all interactions, without times."""
        if self.window is None:
            return self._store_of(joined)
        store = held.store
        times = timestamps_of(new, "Popularity with a window", "window=None")
        rows, columns, own = _timed_likes(new)
        users = joined.user_ids.rows(new.user_ids.labels)[rows]
        items = joined.item_ids.rows(new.item_ids.labels)[columns]
        before = [store.extras[f"window_{name}"] for name in ("users", "items", "times")]
        both = [np.concatenate(pair) for pair in zip(before, (users, items, own), strict=True)]
        latest = np.lexsort((both[2], both[1], both[0]))  # of each user and item, at the end
        users, items, own = (each[latest] for each in both)
        ends = np.append((np.diff(users) != 0) | (np.diff(items) != 0), True)
        end = int(max(store.extras["window_end"][0], times.max(initial=0)))
        return self._within(joined, users[ends], items[ends], own[ends], end)

    def _left(
        self, held: ModelState, users: NDArray[np.int64], items: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        """The popularity and the extras of a state of which these rows are left."""
        if self.window is None:
            assert held.seen is not None
            return Seen(held.seen.checked[users][:, items]).popularity[:, 0], {}
        own, theirs, times = (
            held.store.extras[f"window_{name}"] for name in ("users", "items", "times")
        )
        both = np.isin(own, users) & np.isin(theirs, items)
        own, theirs = np.searchsorted(users, own[both]), np.searchsorted(items, theirs[both])
        window = {"users": own, "items": theirs, "times": times[both]}
        extras = {f"window_{name}": array.astype(np.int64) for name, array in window.items()}
        counts = np.bincount(theirs, minlength=len(items)).astype(np.float64)
        return counts, extras | {"window_end": held.store.extras["window_end"].copy()}

    def _folded_users(self, held: ModelState, own: OwnRows) -> QueryFactors:
        return QueryFactors(np.ones((own.rows.shape[0], 1)), None)

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> QueryFactors:
        tell_of_liked(self, own.values, held.store.threshold, given=has_values)
        return QueryFactors(np.ones((1, 1)), None)

    @of_one_state
    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Explanation:
        """The number of users of an item, as the baseline: the user's own items add nothing."""
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        users, items = sides(self.store, by_row=by_row)
        rows = users.rows(userid, "userid"), items.rows(itemid, "itemid")
        score = float(self._scored(users, items, *rows)[0])
        return Explanation(score, [], score, None)

    def similar_items(self, *args: Any, **options: Any) -> Answer:
        """Each item alone: popularity does not define similar items."""
        return self._alike_to_nothing().similar_items(*args, **options)

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """Each user alone, because all users have the same scores."""
        return self._alike_to_nothing().similar_users(*args, **options)

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: an item has the same score for all users."""
        raise InputTypeError(
            "Popularity has one list for all; it cannot rank users for an item:", "use recommend"
        )

    def _alike_to_nothing(self) -> Recommender:
        store = self.store
        nothing = {
            name: np.zeros_like(getattr(store, name)) for name in ("user_factors", "item_factors")
        }
        return Recommender.of(replace(store, **nothing))


def _timed_likes(
    data: Interactions,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """User rows, item rows and times of the values above 0."""
    liked = data.user_items.data > 0
    assert data.timestamps is not None
    return data.entry_users[liked], data.user_items.indices[liked], data.timestamps[liked]


def popularity_store(data: Interactions, fitter: dict[str, Any], **arrays: Any) -> FactorStore:
    """The number of users of each item as a store; ``arrays`` are its extras."""
    return _store(data, data.user_items.indices[data.user_items.data > 0], fitter, **arrays)


def _store(
    data: Interactions, likes: NDArray[Any], fitter: dict[str, Any], **arrays: Any
) -> FactorStore:
    """The number of times that each item is among ``likes``, as a store."""
    popularity = np.bincount(likes, minlength=data.n_items).astype(np.float64)
    return FactorStore(
        np.ones((data.n_users, 1)),
        popularity[:, None],
        data.user_ids,
        data.item_ids,
        counts=data.counts,
        fitter=fitter,
        extras=arrays,
        threshold=data.threshold,
        where=data.where,
        event_weights=data.event_weights,
        weightings=data.weightings,
    )
