"""Rankings joined with the users' relevant items: the input of every metric.

The arrays are on the device of the rankings (host or GPU); relevance is copied to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, beside, sums_at
from mfrank.data import order_in_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_FEW = 32  # sorting a row costs as much as comparing it with about 40 numbers


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLists:
    """The top ranks of a block of U users, each with at least one relevant item.

    Attributes
    ----------
    relevance : float64, shape (U, K)
        Relevance of the item at each rank, best rank first; 0 if it is not relevant, and for
        padding.
    ideal : float64, shape (U, I)
        The ideal list, as long as the longest cutoff: relevance of the user's relevant items,
        descending, padded with 0.
    n_relevant : int64, shape (U,)
        Number of relevant items of each user, at least 1.
    n_items : int
        Size of the catalog.
    total : float64, shape (U,)
        Sum of the relevance of the user's relevant items.
    """

    relevance: Floats
    ideal: Floats
    n_relevant: Ints
    n_items: int
    total: Floats

    def hits(self, cutoff: int | None) -> NDArray[np.bool_]:
        """Whether the item at each rank up to the cutoff is relevant, shape (U, at most cutoff)."""
        return self.relevance[:, :cutoff] > 0

    def n_hits(self, cutoff: int | None) -> Ints:
        """Number of relevant items up to the cutoff, shape (U,)."""
        counts: Ints = np.count_nonzero(self.relevance[:, :cutoff], axis=1)
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class Standings:
    """Rank of each relevant item of U users among all candidates of its user.

    The E relevant items are grouped by user. Two items tie if their computed scores are equal.

    Attributes
    ----------
    users : int64, shape (E,)
        User of each entry; every user has at least one.
    above, tied : int64, shape (E,)
        Number of candidates with a higher score, and with the same score, including the item.
    relevant_above, relevant_tied : int64, shape (E,)
        The same counts among the user's relevant items only.
    n_relevant, n_candidates : int64, shape (U,)
        Number of relevant items and of all ranked items of each user.
    """

    users: Ints
    above: Ints
    tied: Ints
    relevant_above: Ints
    relevant_tied: Ints
    n_relevant: Ints
    n_candidates: Ints

    def per_entry(self, per_user: Ints) -> Ints:
        """Repeat a per-user value for each entry of that user, shape (E,)."""
        return per_user[self.users]

    def mean(self, per_entry: Floats) -> Floats:
        """Mean over each user's relevant items, shape (U,)."""
        (sums,) = sums_at(self.users, [per_entry], len(self.n_relevant))
        means: Floats = sums / self.n_relevant
        return means


def judge(ids: NDArray[np.int32], relevant: CSR, width: int) -> JudgedLists:
    """Look up the ranked ids, shape (U, at most ``width``), padded with -1, in ``relevant``.

    ``relevant`` has one non-empty row per user: the relevant items, with relevance above 0.
    """
    users = np.arange(relevant.n_rows, like=ids)
    wanted = users[:, None] * relevant.n_columns + ids
    place, found = find(beside(keys(relevant), ids), wanted)
    values = np.asarray(relevant.data, dtype=np.float64)
    return JudgedLists(
        relevance=np.where(found & (ids >= 0), beside(values, ids)[place], 0.0),
        ideal=beside(_descending(relevant, values, width), ids),
        n_relevant=beside(relevant.counts, ids),
        n_items=relevant.n_columns,
        total=beside(np.add.reduceat(values, relevant.indptr[:-1]), ids),
    )


def stand(scores: NDArray[Any], relevant: CSR) -> Standings:
    """Count the candidates that score higher than, and the same as, each relevant item.

    ``scores``, shape (U, N), are NaN for non-candidates; all relevant items are candidates.
    """
    n_candidates = scores.shape[1] - np.isnan(scores).sum(axis=1)
    counts = np.empty((4, len(relevant.indices)), dtype=np.int64, like=scores)
    columns, ends = beside(relevant.indices, scores), relevant.indptr.tolist()
    for u, (begin, end) in enumerate(pairwise(ends)):
        part = slice(begin, end)
        own = scores[u, columns[part]]
        counts[0, part], counts[1, part] = _above_and_tied(scores[u], own)
        counts[2, part], counts[3, part] = _above_and_tied(own, own)
    above, tied, relevant_above, relevant_tied = counts
    return Standings(
        beside(np.repeat(np.arange(relevant.n_rows), relevant.counts), scores),
        above,
        tied,
        relevant_above,
        relevant_tied,
        beside(relevant.counts, scores),
        n_candidates,
    )


def keys(rows: CSR) -> Ints:
    """Key of each stored cell, ``row * n_columns + column``; ascending, because the cells are."""
    return np.repeat(np.arange(rows.n_rows), rows.counts) * rows.n_columns + rows.indices


def hashes(rows: Ints, columns: NDArray[Any], values: Floats, n_rows: int) -> NDArray[np.uint64]:
    """A hash of each row's cells and values, uint64, shape (n_rows,); the order does not matter.

    The sum over a row's cells of the finalizer of SplitMix64 (Steele et al. 2014).
    """
    mixed = columns.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= values.astype(np.float64).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    sums = np.zeros(n_rows, dtype=np.uint64)
    np.add.at(sums, rows, mixed ^ (mixed >> np.uint64(31)))
    return sums


def find(ascending: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Index of each wanted number in ``ascending`` (any if absent), and whether it is there."""
    if not len(ascending):
        return np.zeros_like(wanted), np.zeros_like(wanted, dtype=np.bool_)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, ascending[place] == wanted


def nth_others(excluded: Ints, n: int, wanted: Ints) -> Ints:
    """In each row, the r-th of the numbers 0, 1, 2, ... that are not excluded, from 0.

    Parameters
    ----------
    excluded : int64, shape (E,)
        ``row * n`` plus an excluded number below n, ascending.
    n : int
    wanted : int64, shape (n_rows, k)
        Each r, below n.
    """
    row = np.arange(len(wanted))[:, None]
    owners = excluded // n
    counts = np.bincount(owners, minlength=len(wanted))
    begins = np.cumsum(counts) - counts
    # The r-th number comes after all excluded e_j with e_j - j <= r.
    place = np.arange(len(excluded)) - begins[owners]
    before = owners * (n + 1) + excluded % n - place
    n_before = np.searchsorted(before, row * (n + 1) + wanted, side="right") - begins[:, None]
    found: Ints = wanted + n_before
    return found


def _descending(relevant: CSR, values: Floats, width: int) -> Floats:
    users = np.repeat(np.arange(relevant.n_rows), relevant.counts)
    order = order_in_rows(relevant.indptr, -values)
    ranks = np.arange(len(users)) - np.repeat(relevant.indptr[:-1], relevant.counts)
    kept = ranks < width
    # As wide for all blocks, because sums of wider rows may have other bits.
    ideal = np.zeros((relevant.n_rows, width))
    ideal[users[kept], ranks[kept]] = values[order][kept]
    return ideal


def _above_and_tied(scores: NDArray[Any], own: NDArray[Any]) -> tuple[Ints, Ints]:
    """For each of ``own``, the number of scores above it and equal to it; NaN is neither."""
    if len(own) <= _FEW:
        above: Ints = np.count_nonzero(scores > own[:, None], axis=1)
        return above, np.count_nonzero(scores == own[:, None], axis=1)
    ascending = np.sort(scores[~np.isnan(scores)])
    upper = np.searchsorted(ascending, own, side="right")
    return len(ascending) - upper, upper - np.searchsorted(ascending, own, side="left")
