"""The baseline that recommends the same to everybody: the items that most users have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_above_zero
from mfrank.backends import Factors
from mfrank.data.interactions import Interactions
from mfrank.data.splits import timestamps_of
from mfrank.data.time_units import tell_of_duration
from mfrank.models.baseline import Baseline
from mfrank.models.option_checks import check_backend
from mfrank.models.parameters import describe
from mfrank.retrieval.answers import Answer
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.sides import Matrix, Raw, given_ids, given_rows, is_single, sides
from mfrank.store.factors import FactorStore

__all__ = ["Popularity", "popularity_store"]


@dataclass(eq=False, repr=False)
class Popularity(Baseline):
    """Recommend the items that most users have; the least that a model has to beat.

    An item's score is the number of users with a value above 0 for it, the same for every user.
    As in every model, a user's own items are left out, and equal scores are ordered by row.

    Parameters
    ----------
    backend : {"auto", "cpu", "reference", "cuda"}, default "auto"
        Where lists are computed, as for :class:`mfrank.ALS`.
    window : float or None, default None
        > 0, in the unit of the timestamps (seconds, where they were dates). Counts only users whose
        latest interaction with the item is at most that long before the latest interaction of all:
        where news or fashions come and go, the baseline to beat is what is popular now. None counts
        all users.

    Attributes
    ----------
    store : FactorStore
        Has one factor: 1 for each user, and for each item the number of users that count.

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

    def __post_init__(self) -> None:
        check_backend(self.backend)
        if self.window is not None:
            check_above_zero(window=self.window)

    def _store_of(self, data: Interactions) -> FactorStore:
        if self.window is None:
            return popularity_store(data, describe(self))
        times = timestamps_of(data, "Popularity with a window", "window=None")
        tell_of_duration("window", self.window, times)
        late = times >= int(times.max()) - self.window
        likes = data.user_items.indices[late & (data.user_items.data > 0)]
        return _store(data, likes, describe(self))

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """The factor of any user, 1: shape (1,) for one user, (len(userid), 1) for many."""
        userid = given_ids(userid, "userid")
        rows = given_rows(user_items, userid, *sides(self.store, by_row=by_row), "user_items")
        same = np.ones((rows.shape[0], 1))
        return same[0] if is_single(userid) else same

    def similar_items(self, *args: Any, **options: Any) -> Answer:
        """Each item alone: the number of its users does not say which others it is like."""
        return self._alike_to_nothing().similar_items(*args, **options)

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """Each user alone, as all have the same scores."""
        return self._alike_to_nothing().similar_users(*args, **options)

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: an item has the same score for all users."""
        raise TypeError("Popularity has one list for all; it cannot rank users for an item")

    def _alike_to_nothing(self) -> Recommender:
        store = self.store
        nothing = {
            name: np.zeros_like(getattr(store, name)) for name in ("user_factors", "item_factors")
        }
        return Recommender.of(replace(store, **nothing))


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
    )
