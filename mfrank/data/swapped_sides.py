"""Whether the users and items of data are likely in each other's place, beside others of the same.

Ids that are unlike tell at once: what is no user is known as an item, and the other way around.
Where numbers overlap, popularity tells: items that had much have much again, whatever their users.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.data.ids import Ids
from mfrank.errors import Notice

_log = logging.getLogger("mfrank")

_FEW = 20
"""Up to so many ids, anything may be by chance."""
_KNOWN, _FEW_KNOWN = 0.5, 0.1
"""The least share of the rows of each side whose ids are known in the other's place, and the
largest one as they are."""
_MOST, _ALIKE, _SURE = 0.8, 0.3, 6.0
"""Of users in the place of items: the least share of rows that are known, the least correlation of
old and new numbers of rows, and its distance from 0 in standard errors."""
_OTHERWISE = 1 / 3
"""The largest part of this correlation that either side may have as it is."""


def tell_swapped(name: str, data: Any, known: tuple[Ids, Ids] | None, counts: Any) -> bool:
    """Warn, and return True, if users and items of an argument are likely in each other's place.

    Parameters
    ----------
    name : str
    data : Interactions
    known : Ids of the users and of the items of the model
    counts : Counts
        Of the model's interactions. Without, nobody knows.
    """
    if known is None or counts is None or data.nnz < _FEW:
        return False
    own = CountedIds(data.user_ids, data.counts.users), CountedIds(data.item_ids, data.counts.items)
    theirs = CountedIds(known[0], counts.users), CountedIds(known[1], counts.items)
    if not are_swapped(*own, *theirs):
        return False
    _log.warning(
        Notice(
            f"users and items of `{name}` are probably in each other's place: those that it has as "
            "users are like items of the model; name the columns with `user=` and `item=`"
        )
    )
    return True


class CountedIds(NamedTuple):
    """The ids of one side, and the number of rows of each."""

    ids: Ids
    counts: NDArray[np.integer]


def are_swapped(
    users: CountedIds, items: CountedIds, known_users: CountedIds, known_items: CountedIds
) -> bool:
    """Whether the users are likely items and the items users, of those that are known."""
    if users.ids.are_numbers != items.ids.are_numbers:
        return False  # of another type than the known ones, which is refused
    there = _Fit.of(users, known_items), _Fit.of(items, known_users)
    here = _Fit.of(users, known_users), _Fit.of(items, known_items)
    are_many = min(fit.n_ids for fit in there) >= _FEW
    are_there = are_many and min(fit.share for fit in there) >= _KNOWN
    if are_there and max(fit.share for fit in here) <= _FEW_KNOWN:
        return True
    popular = there[0]
    if popular.share < _MOST or popular.alike < _ALIKE or popular.errors < _SURE:
        return False
    return max(fit.alike for fit in here) < _OTHERWISE * popular.alike


class _Fit(NamedTuple):
    """How well ids and their numbers of rows fit those of a side.

    ``share`` is that of the rows whose ids are known, ``n_ids`` the number of known ids and
    ``alike`` the correlation of the logarithms of their numbers of rows.
    """

    share: float
    n_ids: int
    alike: float

    @property
    def errors(self) -> float:
        """How many standard errors the correlation is from 0."""
        return float(np.arctanh(min(self.alike, 0.99)) * np.sqrt(max(self.n_ids - 3, 0)))

    @classmethod
    def of(cls, given: CountedIds, known: CountedIds) -> _Fit:
        own = np.flatnonzero(given.counts)
        rows = known.ids.rows(given.ids.labels[own], missing=-1)
        there, counts = rows >= 0, given.counts[own]
        n_ids, total = int(np.count_nonzero(there)), int(counts.sum())
        share = float(counts[there].sum() / total) if total else 0.0
        if n_ids < _FEW:
            return cls(share, n_ids, 0.0)
        both = np.log1p(np.stack([counts[there], known.counts[rows[there]]]))
        spread = both.std(axis=1)
        alike = float(np.corrcoef(both)[0, 1]) if (spread > 0).all() else 0.0
        return cls(share, n_ids, alike)
