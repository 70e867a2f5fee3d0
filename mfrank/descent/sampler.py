"""Draws users' lists for ranking losses: all items of a list, or a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import (
    CSR,
    Array,
    changed,
    check_at_least_zero,
    check_choice,
    check_count,
    check_flags,
    distinct,
    key_of,
    lazy,
    random_units,
    tell_idle,
)
from mfrank.backends import ROUNDS, Backend, ItemProbabilities
from mfrank.errors import InputValueError
from mfrank.losses import Lists

# The lists that a batch draws, and their items.


Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Lists of a batch, and their negative items; ``lists.positive_items`` has the positives.

    Attributes
    ----------
    lists : Lists
    negatives : int64, shape (B, M) or (M,)
        Rows of the negative items, arbitrary for padding. A 1-D array is shared by all lists,
        distinct and ascending.
    users_repeat : bool
        Whether several lists may belong to the same user.
    """

    lists: Lists
    negatives: Ints
    users_repeat: bool = False

    @property
    def shared(self) -> bool:
        """Whether all lists share the same negatives."""
        return self.negatives.ndim == 1

    @lazy
    def items(self) -> Ints:
        """Positives, then negatives of each list, shape (B, L + M); not for shared negatives."""
        return np.concatenate([self.lists.positive_items, self.negatives], axis=1)

    def distinct_items(self) -> Ints:
        """Items of all lists, each once, ascending."""
        return distinct(np.concatenate([self.lists.positive_items.ravel(), self.negatives.ravel()]))


# The whole catalog, of which lists may contain a part; samples are weighted by it.

Floats = NDArray[np.float64]


class Catalog(NamedTuple):
    """The catalog of U users' rows; its C columns may be a part of the items.

    Attributes
    ----------
    n_items : int
        Number of items of the whole catalog.
    counts : int64, shape (U,)
        Positives of each user among all items.
    weights : float64, shape (C,)
        Sampling weights of negatives.
    negative_weight : float64, shape (U,)
        Sum of the weights of all items except the user's positives.
    """

    n_items: int
    counts: Ints
    weights: Floats
    negative_weight: Floats

    @classmethod
    def of(cls, rows: CSR, power: float | None) -> Catalog:
        """All columns of the rows, weighted by popularity to the power; None for equal weights."""
        n_items = rows.n_columns
        weights = np.ones(n_items) if power is None else popularity_weights(rows, power)
        return cls(n_items, rows.counts, weights, negative_weight(rows, weights))

    def part(self, users: Ints, items: Ints) -> Catalog:
        """The catalog of these users and these items."""
        return Catalog(
            self.n_items, self.counts[users], self.weights[items], self.negative_weight[users]
        )


def negative_weight(rows: CSR, weights: Floats) -> Floats:
    """For each row, the sum of the weights of the columns without an entry."""
    cumulative = np.concatenate([[0.0], np.cumsum(weights[rows.indices])])
    sums: Floats = weights.sum() - np.diff(cumulative[rows.indptr])
    return sums


def popularity_weights(rows: CSR, power: float) -> Floats:
    """Return each item's number of users, at least 1, to the given power."""
    popularity = np.bincount(rows.indices, minlength=rows.n_columns)
    with np.errstate(over="ignore"):
        weights: Floats = np.maximum(popularity, 1.0) ** power
    if not np.isfinite(weights.sum()):
        raise InputValueError(
            f"`popularity_power` {power:g} overflows float64 for an item with "
            f"{popularity.max():,} users",
            "use a smaller one, such as 0.75",
        )
    return weights


NegativeSampling = Literal["uniform", "popularity", "in-batch"]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sampling:
    """Which items a list contains.

    Parameters
    ----------
    positives : int or None, default 10
        Maximum number of positives, drawn without replacement; None uses all.
    negatives : int or None, default 300
        Number of negatives, drawn with replacement; None uses all.
    negative_sampling : {"uniform", "popularity", "in-batch"}, default "uniform"
        Distribution of the negatives: uniform, proportional to their number of users to the
        ``power``, or uniform over the positives of the batch's lists.
    power : float, default 0.75
        Exponent of the popularity, >= 0.
    shared : bool, default False
        Whether the lists of a batch share one sample, from which each list excludes its own user's
        positives.
    """

    positives: int | None = 10
    negatives: int | None = 300
    negative_sampling: NegativeSampling = "uniform"
    power: float = 0.75
    shared: bool = False

    def __post_init__(self) -> None:
        for name in ("positives", "negatives"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1)
                object.__setattr__(self, name, int(getattr(self, name)))
        check_choice("negative_sampling", self.negative_sampling, get_args(NegativeSampling))
        if self.negatives is None and self.negative_sampling != "uniform":
            raise InputValueError(
                f"`negative_sampling={self.negative_sampling!r}` draws a sample, but "
                "`negatives=None` uses all items",
                "set `negatives` to a number",
            )
        check_flags(shared_negatives=self.shared)
        if self.shared and self.negative_sampling == "in-batch":
            raise InputValueError(
                "`shared_negatives=True` draws one sample per batch, but "
                '`negative_sampling="in-batch"` draws one per list',
                'use "uniform" or "popularity"',
            )
        check_at_least_zero(popularity_power=self.power)
        if self.shared and self.negatives is None:
            tell_idle(
                "`shared_negatives` has no effect, as `negatives=None` uses all items:",
                "leave it out, or set `negatives` to a number",
            )
        if self.negative_sampling != "popularity" and changed(self, "power"):
            tell_idle(
                "`popularity_power` has no effect, as "
                f"`negative_sampling={self.negative_sampling!r}` does not read popularity:",
                "leave it out, or use `negative_sampling='popularity'`",
            )

    def catalog(self, rows: CSR) -> Catalog:
        """The catalog of rows that have all items."""
        by_popularity = self.negative_sampling == "popularity" and len(rows.indices)
        return Catalog.of(rows, self.power if by_popularity else None)


class _BatchUsers(NamedTuple):
    """Rows (B,) of the lists' users and their numbers of positives, on the backend and the host.

    The host copies save waiting for a GPU.
    """

    host_users: Ints
    host_counts: Ints
    users: Ints
    counts: Ints


class ListDrawer:
    """Draws the lists of a batch.

    Parameters
    ----------
    rows : CSR
        Observed cells by users; each is a positive of gain 1, whatever its value.
    sampling : Sampling
    backend : Backend
        Draws the lists, in its memory. All backends draw the same lists.
    cutoff : int, optional
        Number of places that count in the ideal DCG; default all.
    n_threads : int, default 0
        0 uses every core this process may use.
    catalog : Catalog, optional
        Required if the rows have only a random part of the items. The numbers in :class:`Lists` are
        then of the complete lists, and negatives represent all negatives: the sum over a sample of
        x / (expected count) has the sum of x over all negatives as its mean.
    """

    def __init__(
        self,
        rows: CSR,
        sampling: Sampling,
        backend: Backend,
        cutoff: int | None = None,
        n_threads: int = 0,
        catalog: Catalog | None = None,
    ) -> None:
        self._rows, self._sampling, self._counts = rows, sampling, rows.counts
        self._backend, self._n_threads = backend, n_threads
        whole = sampling.catalog(rows) if catalog is None else catalog
        self._n_items, weights, self._probabilities = whole.n_items, whole.weights, None
        most = int(whole.counts.max(initial=0))
        discounts = 1 / np.log2(2 + np.arange(most))
        if cutoff is not None:
            discounts[cutoff:] = 0
        ideal = np.concatenate([[1.0], np.cumsum(discounts)])
        if sampling.negative_sampling == "popularity" and len(rows.indices):
            self._probabilities = ItemProbabilities.of(weights)
        self._weights, self._total_weight = weights, weights.sum()
        self._least_weight = weights.min(initial=np.inf)
        self._ideal, self._log_weights, self._negative_weight, self._indptr, self._indices = (
            backend.place(array)
            for array in (ideal, np.log(weights), whole.negative_weight, rows.indptr, rows.indices)
        )
        self._totals, self._log_shares = backend.place(whole.counts), None
        if catalog is not None:
            here = np.maximum(negative_weight(rows, weights), self._least_weight)
            share = here / np.maximum(whole.negative_weight, self._least_weight)
            self._log_shares = backend.place(np.log(share))

    def of_users(self, users: Ints, key: int) -> Drawn:
        """Draw one list per user (B,). Users must be distinct and have a positive each."""
        batch = self._batch(users)
        width = int(batch.host_counts.max(initial=1))
        if self._sampling.positives is None:
            place = np.arange(width, like=batch.users)
            first = self._indptr[batch.users][:, None]
            cells = np.where(place < batch.counts[:, None], first + place, -1)
        else:
            cells = self._backend.draw_positives(
                self._rows, batch.users, min(width, self._sampling.positives), key, self._n_threads
            )
        return self._drawn(batch, cells, key, users_repeat=False)

    def of_cells(self, cells: Ints, key: int) -> Drawn:
        """Draw one list per observed cell (B,), with this cell as its only positive."""
        users = np.searchsorted(self._rows.indptr, cells, side="right") - 1
        placed = self._backend.place(cells)[:, None]
        return self._drawn(self._batch(users), placed, key, users_repeat=True)

    def _batch(self, users: Ints) -> _BatchUsers:
        counts, place = self._counts[users], self._backend.place
        return _BatchUsers(users, counts, place(users), place(counts))

    def _drawn(self, batch: _BatchUsers, cells: Ints, key: int, *, users_repeat: bool) -> Drawn:
        filled, users = cells >= 0, batch.users
        positives = np.where(filled, self._indices[cells], 0).astype(np.int64)
        negatives, valid, log_expected_counts = self._negatives(
            batch, positives, filled, key_of(key, 1)
        )
        lists = Lists(
            gains=filled.astype(np.float64),
            negatives=valid,
            n_positives=self._totals[users].astype(np.float64),
            n_items=np.full_like(users, self._n_items, dtype=np.float64),
            ideal=self._ideal[self._totals[users]],
            cells=cells,
            users=users,
            log_expected_counts=log_expected_counts,
            positive_items=positives,
            sums=self._backend.list_sums(self._n_threads),
        )
        return Drawn(lists, negatives, users_repeat)

    def _negatives(
        self, batch: _BatchUsers, positives: Ints, filled: Bools, key: int
    ) -> tuple[Ints, Bools, NDArray[np.float64] | None]:
        """Return items, whether each fills a place, and the log of their expected counts."""
        n_items, count = self._rows.n_columns, self._sampling.negatives
        if count is None:
            every, valid = np.arange(n_items, like=batch.users), ~self._positive_mask(batch)
            return every, valid, self._of_whole(batch, None, valid)
        if self._sampling.shared:
            items, valid, log_expected_counts = self._shared(batch, count, key)
            return items, valid, self._of_whole(batch, log_expected_counts, valid)
        if self._sampling.negative_sampling == "in-batch":
            items, valid, log_expected_counts = self._from_pool(
                batch, positives[filled], count, key
            )
            return items, valid, self._of_whole(batch, log_expected_counts, valid)
        items, valid = self._backend.draw_negatives(
            self._rows, batch.users, count, key, self._probabilities, self._n_threads
        )
        # If this is a part of the catalog, ``rest`` is of all of it: items are rarely in the part,
        # but then drawn more often. The bound avoids a division by 0 for users with all items.
        rest = np.maximum(self._negative_weight[batch.users], self._least_weight)[:, None]
        log_expected_counts = np.log(count / rest)
        if self._probabilities is not None:
            log_expected_counts = log_expected_counts + self._log_weights[items]
        return items, valid, np.broadcast_to(log_expected_counts, items.shape)

    def _of_whole(
        self, batch: _BatchUsers, log_expected_counts: Array | None, valid: Bools
    ) -> Array | None:
        """Log expected counts over all random parts of the catalog, of which this is one."""
        if self._log_shares is None:
            return log_expected_counts
        shares: Array = np.broadcast_to(self._log_shares[batch.users][:, None], valid.shape)
        return shares if log_expected_counts is None else log_expected_counts + shares

    def _shared(
        self, batch: _BatchUsers, count: int, key: int
    ) -> tuple[Ints, Bools, NDArray[np.float64]]:
        """Draw one sample for all lists; return its distinct items and log inclusion chances."""
        places, n_items = random_units(key, np.arange(count)), self._rows.n_columns
        if self._probabilities is None:
            drawn = (places * n_items).astype(np.int64)
        else:
            drawn = np.searchsorted(self._probabilities.cumulative, places, side="right")
        items = distinct(drawn)
        with np.errstate(divide="ignore"):  # log1p(-1) if there is only one item
            missed = count * np.log1p(-self._weights[items] / self._total_weight)
        probabilities = np.log(-np.expm1(missed))  # of being drawn at least once
        items, log_expected_counts = map(self._backend.place, (items, probabilities))
        valid = ~self._contained(batch, items)
        return items, valid, np.broadcast_to(log_expected_counts, valid.shape)

    def _positive_mask(self, batch: _BatchUsers) -> Bools:
        """Return which items are positives of each user, shape (B, n_items)."""
        shape = len(batch.users), self._rows.n_columns
        mask = np.zeros(shape, dtype=np.bool_, like=batch.users)
        mask[self._entries(batch)] = True
        return mask

    def _entries(self, batch: _BatchUsers) -> tuple[Ints, NDArray[np.int32]]:
        """Return list and item of each of the users' positives, shape (nnz,) each."""
        counts = batch.host_counts
        lists = np.repeat(np.arange(len(counts)), counts)
        first = self._rows.indptr[batch.host_users] - (np.cumsum(counts) - counts)
        items = self._rows.indices[np.arange(len(lists)) + first[lists]]
        return self._backend.place(lists), self._backend.place(items)

    def _from_pool(
        self, batch: _BatchUsers, pool: Ints, count: int, key: int
    ) -> tuple[Ints, Bools, NDArray[np.float64]]:
        """Draw negatives from ``pool``, the positives of all lists, each by its frequency."""
        items, times = np.unique(pool, return_counts=True)
        allowed = ~self._contained(batch, items)
        weights = allowed * times
        totals = weights.sum(axis=1, keepdims=True)
        cumulative = np.cumsum(weights / np.maximum(totals, 1), axis=1)
        # Offsets make the rows one ascending sequence, so that a single search is enough.
        row = np.arange(len(allowed), like=items)[:, None]
        offsets = 2.0 * row
        positions = np.arange(len(allowed) * count, like=items).reshape(-1, count) * ROUNDS
        wanted = random_units(key, positions) * cumulative[:, -1:] + offsets
        at = np.searchsorted((cumulative + offsets).ravel(), wanted.ravel(), side="right")
        at = at.reshape(wanted.shape) - len(items) * row
        at = np.minimum(at, len(items) - 1)
        valid = np.take_along_axis(allowed, at, axis=1)  # none for a user without allowed items
        expected = count * times[at] / np.maximum(totals, 1)
        return items[at], valid, np.log(expected)

    def _contained(self, batch: _BatchUsers, items: Ints) -> Bools:
        """Return which of the ascending items are positives of each user, (B, len(items))."""
        lists, own = self._entries(batch)
        at = np.minimum(np.searchsorted(items, own), len(items) - 1)
        is_listed = items[at] == own
        mask = np.zeros((len(batch.users), len(items)), dtype=np.bool_, like=items)
        mask[lists[is_listed], at[is_listed]] = True
        return mask
