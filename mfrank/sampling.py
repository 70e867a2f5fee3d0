"""Lists of users for ranking losses: all of their items, or a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.amounts import check_at_least_zero, check_count
from mfrank.backends import ROUNDS, Backend, Chances
from mfrank.choices import check_choice
from mfrank.csr import CSR
from mfrank.distinct import distinct
from mfrank.drawn import Drawn
from mfrank.lists import Lists
from mfrank.streams import key_of, random_units

__all__ = ["ListDrawer", "Negatives", "Sampling"]

Negatives = Literal["uniform", "popularity", "in-batch"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sampling:
    """What a list holds of its user's items.

    Parameters
    ----------
    likes, others : int or None
        Most likes, drawn without replacement, and number of other items, drawn with replacement;
        None takes all.
    negatives : {"uniform", "popularity", "in-batch"}
        How others are drawn: alike, by their number of users to the ``power``, or from the likes of
        the other users of the batch.
    power : float
        >= 0.
    shared : bool
        Whether the lists of a batch share one sample, from which each leaves out its own likes.
    """

    likes: int | None = 10
    others: int | None = 300
    negatives: Negatives = "uniform"
    power: float = 0.75
    shared: bool = False

    def __post_init__(self) -> None:
        for name in ("likes", "others"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1)
                object.__setattr__(self, name, int(getattr(self, name)))
        check_choice("negatives", self.negatives, get_args(Negatives))
        if self.others is None and self.negatives != "uniform":
            raise ValueError(
                f"negatives={self.negatives!r} says how to draw, but others=None takes all items; "
                "give others a number"
            )
        check_choice("shared_others", self.shared, (True, False))
        if self.shared and self.negatives == "in-batch":
            raise ValueError(
                'shared_others=True draws one sample for all lists, negatives="in-batch" one for '
                "each; take uniform or popularity with it"
            )
        check_at_least_zero(popularity_power=self.power)


class _Asked(NamedTuple):
    """Users of lists (B,): rows and numbers of likes on the host, and where the backend has them.

    What the host knows need not be waited for.
    """

    host: Ints
    host_counts: Ints
    users: Ints
    counts: Ints


class ListDrawer:
    """Draws lists of users' rows.

    Parameters
    ----------
    rows : CSR
        Observed cells by users; each counts as a like of gain 1.
    sampling : Sampling
    backend : Backend
        Where numbers are drawn, and lists are kept; all draw the same.
    cutoff : int, optional
        Places that count in the ideal gain; default all.
    """

    def __init__(
        self,
        rows: CSR,
        sampling: Sampling,
        backend: Backend,
        cutoff: int | None = None,
        n_threads: int = 0,
    ) -> None:
        self._rows, self._sampling, self._counts = rows, sampling, rows.counts
        self._backend, self._n_threads = backend, n_threads
        most = int(self._counts.max(initial=0))
        discounts = 1 / np.log2(2 + np.arange(most))
        if cutoff is not None:
            discounts[cutoff:] = 0
        ideal = np.concatenate([[1.0], np.cumsum(discounts)])
        self._weights, self._chances = np.ones(rows.n_columns), None
        if sampling.negatives == "popularity" and len(rows.indices):
            self._weights = _by_popularity(rows, sampling.power)
            self._chances = Chances.of(self._weights)
        self._weight, self._least = self._weights.sum(), self._weights.min(initial=np.inf)
        passed = np.concatenate([[0.0], np.cumsum(self._weights[rows.indices])])
        other_weight = self._weight - np.diff(passed[rows.indptr])
        self._ideal, self._log_weights, self._other_weight, self._indptr, self._indices = (
            backend.place(array)
            for array in (ideal, np.log(self._weights), other_weight, rows.indptr, rows.indices)
        )

    def of_users(self, users: Ints, key: int) -> Drawn:
        """A list for each of some users, who like something and are given once."""
        asked = self._asked(users)
        width = int(asked.host_counts.max(initial=1))
        if self._sampling.likes is None:
            place = np.arange(width, like=asked.users)
            first = self._indptr[asked.users][:, None]
            cells = np.where(place < asked.counts[:, None], first + place, -1)
        else:
            cells = self._backend.draw_likes(
                self._rows, asked.users, min(width, self._sampling.likes), key, self._n_threads
            )
        return self._drawn(asked, cells, key, users_repeat=False)

    def of_cells(self, cells: Ints, key: int) -> Drawn:
        """A list for each of some observed cells, its only like."""
        users = np.searchsorted(self._rows.indptr, cells, side="right") - 1
        placed = self._backend.place(cells)[:, None]
        return self._drawn(self._asked(users), placed, key, users_repeat=True)

    def _asked(self, users: Ints) -> _Asked:
        counts, place = self._counts[users], self._backend.place
        return _Asked(users, counts, place(users), place(counts))

    def _drawn(self, asked: _Asked, cells: Ints, key: int, *, users_repeat: bool) -> Drawn:
        filled, users = cells >= 0, asked.users
        likes = np.where(filled, self._indices[cells], 0).astype(np.int64)
        others, there, log_chances = self._others(asked, likes, filled, key_of(key, 1))
        lists = Lists(
            gains=filled.astype(np.float64),
            others=there,
            n_likes=asked.counts.astype(np.float64),
            n_items=np.full_like(users, self._rows.n_columns, dtype=np.float64),
            ideal=self._ideal[asked.counts],
            cells=cells,
            users=users,
            log_chances=log_chances,
            liked_items=likes,
            n_threads=self._n_threads,
        )
        return Drawn(lists, others, users_repeat)

    def _others(
        self, asked: _Asked, likes: Ints, filled: Bools, key: int
    ) -> tuple[Ints, Bools, NDArray[np.float64] | None]:
        """Items, whether each may stand, and log expected numbers of times they are drawn."""
        n_items, count = self._rows.n_columns, self._sampling.others
        if count is None:
            return np.arange(n_items, like=asked.users), ~self._like_mask(asked), None
        if self._sampling.shared:
            return self._shared(asked, count, key)
        if self._sampling.negatives == "in-batch":
            return self._from_pool(asked, likes[filled], count, key)
        items, there = self._backend.draw_others(
            self._rows, asked.users, count, key, self._chances, self._n_threads
        )
        # Of a user who likes all items none is drawn.
        rest = np.maximum(self._other_weight[asked.users], self._least)[:, None]
        log_chances = np.log(count / rest)
        if self._chances is not None:
            log_chances = log_chances + self._log_weights[items]
        return items, there, np.broadcast_to(log_chances, items.shape)

    def _shared(
        self, asked: _Asked, count: int, key: int
    ) -> tuple[Ints, Bools, NDArray[np.float64]]:
        """One sample for all lists, each of its items once."""
        places, n_items = random_units(key, np.arange(count)), self._rows.n_columns
        if self._chances is None:
            drawn = (places * n_items).astype(np.int64)
        else:
            drawn = np.searchsorted(self._chances.cumulative, places, side="right")
        items = distinct(drawn)
        with np.errstate(divide="ignore"):  # where there is but one item
            missed = count * np.log1p(-self._weights[items] / self._weight)
        chances = np.log(-np.expm1(missed))  # of being drawn at all
        items, log_chances = map(self._backend.place, (items, chances))
        there = ~self._among(asked, items)
        return items, there, np.broadcast_to(log_chances, there.shape)

    def _like_mask(self, asked: _Asked) -> Bools:
        """Whether users like items, shape (B, n_items)."""
        shape = len(asked.users), self._rows.n_columns
        mask = np.zeros(shape, dtype=np.bool_, like=asked.users)
        mask[self._entries(asked)] = True
        return mask

    def _entries(self, asked: _Asked) -> tuple[Ints, NDArray[np.int32]]:
        """List and item of everything that the users like."""
        counts = asked.host_counts
        lists = np.repeat(np.arange(len(counts)), counts)
        first = self._rows.indptr[asked.host] - (np.cumsum(counts) - counts)
        items = self._rows.indices[np.arange(len(lists)) + first[lists]]
        return self._backend.place(lists), self._backend.place(items)

    def _from_pool(
        self, asked: _Asked, pool: Ints, count: int, key: int
    ) -> tuple[Ints, Bools, NDArray[np.float64]]:
        """Others from the likes of the batch, a chance for each time they are there."""
        items, times = np.unique(pool, return_counts=True)
        allowed = ~self._among(asked, items)
        weights = allowed * times
        totals = weights.sum(axis=1, keepdims=True)
        cumulative = np.cumsum(weights / np.maximum(totals, 1), axis=1)
        # Rows one after another, so that one search serves all of them.
        row = np.arange(len(allowed), like=items)[:, None]
        offsets = 2.0 * row
        positions = np.arange(len(allowed) * count, like=items).reshape(-1, count) * ROUNDS
        wanted = random_units(key, positions) * cumulative[:, -1:] + offsets
        at = np.searchsorted((cumulative + offsets).ravel(), wanted.ravel(), side="right")
        at = at.reshape(wanted.shape) - len(items) * row
        at = np.minimum(at, len(items) - 1)
        there = np.take_along_axis(allowed, at, axis=1) & (totals > 0)
        expected = count * times[at] / np.maximum(totals, 1)
        return items[at], there, np.log(expected)

    def _among(self, asked: _Asked, items: Ints) -> Bools:
        """Whether users like the items, shape (B, len(items)); items ascend."""
        lists, own = self._entries(asked)
        at = np.minimum(np.searchsorted(items, own), len(items) - 1)
        found = items[at] == own
        liked = np.zeros((len(asked.users), len(items)), dtype=np.bool_, like=items)
        liked[lists[found], at[found]] = True
        return liked


def _by_popularity(rows: CSR, power: float) -> NDArray[np.float64]:
    """Numbers of users of the items to a power; one of no user is worth as much as of one."""
    popularity = np.bincount(rows.indices, minlength=rows.n_columns)
    with np.errstate(over="ignore"):
        weights: NDArray[np.float64] = np.maximum(popularity, 1.0) ** power
    if not np.isfinite(weights.sum()):
        raise ValueError(
            f"popularity_power {power:g} makes chances that no float64 holds of an item of "
            f"{popularity.max():,} users; take a smaller one, such as 0.75"
        )
    return weights
