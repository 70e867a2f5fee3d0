"""What popularity alone gets on the test part of an evaluation: the least that a model must beat.

The lists of popularity are those of :class:`mfrank.Popularity`: the items with the most users, for
everybody, without what each user had. As their order is the same for all users, they are read off
it, without scoring the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.data import Interactions, kth_largest
from mfrank.evaluation.cold import store_of
from mfrank.evaluation.inputs import UserItems, matrix_of
from mfrank.evaluation.judgements import keys, nth_others
from mfrank.retrieval import Seen
from mfrank.store import has_counts

Ints = NDArray[np.int64]

_WINDOWS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Shares of the interactions, the latest ones, within which popularity may be counted."""
_LATEST = 0.1
"""The share of the training interactions by which the window is chosen."""
_TOP = 20
_TRAINING = "the training data"


@dataclass(frozen=True, slots=True, eq=False)
class ItemUsers:
    """Where the number of users of each item comes from; they are counted when they are needed.

    Attributes
    ----------
    held : Seen, or int64 of shape (n_items,)
        Interactions, or the counts themselves.
    of : str
        Whose interactions these are.
    train : Interactions or None
        The training data, if they are Interactions.
    """

    held: Seen | Ints
    of: str
    train: Interactions | None = None

    @classmethod
    def known(cls, model: Any, train: UserItems | None, *, folded_in: bool) -> Self | None:
        """From the training data, else from what the model holds; None if there is nothing.

        With ``folded_in``, ``train`` is of other users than the fit, so the model comes first.
        """
        if train is not None and not folded_in:
            return cls._of(train, _TRAINING)
        seen, store = getattr(model, "seen", None), store_of(model)
        if isinstance(seen, Seen):
            return cls(
                seen.filtered, _TRAINING if seen.left_out is None else "what lists leave out"
            )
        if store is not None and has_counts(store):
            return cls(store.known_counts.items, _TRAINING)
        return None if train is None else cls._of(train, "the fold-in part")

    @classmethod
    def _of(cls, train: UserItems, name: str) -> Self:
        if isinstance(train, Interactions):
            return cls(Seen(train.user_items), name, train)
        return cls(Seen(matrix_of(train, "train")), name)

    @property
    def counts(self) -> Ints:
        """Users of each item with a value above 0, int64, shape (n_items,)."""
        if isinstance(self.held, Seen):
            return self.held.popularity[:, 0].astype(np.int64)
        return self.held

    def windows(self) -> dict[str, tuple[str, Ints]]:
        """The counts of all interactions and, if they have times, of the latest; with a name."""
        found = {"all": (self.of, self.counts)}
        latest = None if self.train is None else recent(self.train)
        if latest is not None:
            told = f"the latest {100 * latest.share:g} % of {self.of}"
            found["recent"] = (told, latest.counts)
        return found


# Popularity within a window, chosen on the training data alone.


class RecentWindow(NamedTuple):
    """The number of users of each item within the latest interactions.

    Attributes
    ----------
    counts : int64, shape (n_items,)
    share : float
        Share of the interactions in the window.
    """

    counts: Ints
    share: float


def recent(train: Interactions) -> RecentWindow | None:
    """Count within the window whose 20 top items had the most of the latest tenth of the data.

    None without timestamps, or if counting all interactions is best there.
    """
    times = train.timestamps
    if times is None or len(times) < 1 / _LATEST:
        return None
    cut = kth_largest(times, round(_LATEST * len(times)))
    later = _within(train, cut)

    def met(counts: Ints) -> int:
        return int(later[np.argsort(-counts, kind="stable")[:_TOP]].sum())

    found = {1.0: met(_within(train, int(times.min()), cut))}
    n_before = int((times < cut).sum())
    for share in _WINDOWS:
        if share * n_before >= 1:
            begin = kth_largest(times, round(share * n_before), cut)
            found[share] = met(_within(train, begin, cut))
    best = max(found, key=found.__getitem__)
    if best == 1:
        return None
    return RecentWindow(_within(train, kth_largest(times, round(best * len(times)))), best)


def _within(train: Interactions, begin: int, end: int | None = None) -> Ints:
    """Users of each item, by values above 0 and times from ``begin`` to before ``end``."""
    times = train.timestamps
    assert times is not None
    chosen = (train.user_items.data > 0) & (times >= begin)
    if end is not None:
        chosen &= times < end
    return np.bincount(train.user_items.indices[chosen], minlength=train.n_items)


# Its lists.


@dataclass(frozen=True, slots=True, eq=False)
class PopularItems:
    """A model that lists the items with the most users; ``seen`` is as of another model."""

    counts: Ints
    seen: Any

    def ranker(self, seen: CSR) -> PopularityRanker:
        """Its lists, without these entries."""
        order = np.argsort(-self.counts, kind="stable")
        order = order[: np.count_nonzero(self.counts)]
        places = np.full(len(self.counts), len(order))
        places[order] = np.arange(len(order))
        return PopularityRanker(order, places, self.counts, seen)


@dataclass(frozen=True, slots=True, eq=False)
class PopularityRanker:
    """See :class:`mfrank.evaluation.rankers.Ranker`."""

    order: Ints
    places: Ints
    counts: Ints
    seen: CSR

    def lists(self, users: Ints, k: int) -> NDArray[np.int32]:
        """The first k items of the order that a user did not have."""
        rows = self.seen.pick(users)
        own = np.repeat(np.arange(len(users)), rows.counts)
        ranked = self.places[rows.indices]
        had = np.sort((own * len(self.counts) + ranked)[ranked < len(self.order)])
        wanted = np.broadcast_to(np.arange(k), (len(users), k))
        found = nth_others(had, len(self.counts), wanted)
        listed = np.append(self.order, -1)
        return listed[np.minimum(found, len(self.order))].astype(np.int32)

    def scores(self, users: Ints) -> NDArray[Any]:
        """The counts."""
        scores = np.tile(self.counts.astype(np.float64), (len(users), 1))
        scores[np.divmod(keys(self.seen.pick(users)), len(self.counts))] = np.nan
        return scores

    def of_items(self, users: Ints, items: NDArray[np.int32]) -> NDArray[Any]:
        """The counts of some items."""
        counts = self.counts[items].astype(np.float64)
        return np.where(counts > 0, counts, -np.inf)
