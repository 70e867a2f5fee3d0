"""Rankings joined to what the users chose: all that a metric reads.

It lies where the rankings do, on the host or on a GPU; what the users chose comes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import beside, sums_at
from mfrank.csr import CSR

__all__ = ["JudgedLists", "Standings", "find", "judge", "keys", "stand"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_FEW = 32  # to sort a row costs as much as to compare it with some 40 numbers


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLists:
    """The first ranks of a block of U users, each of whom has at least one relevant item.

    Attributes
    ----------
    relevance : float64, shape (U, K)
        Relevance of the item at each rank, best rank first; 0 where the item is not relevant or
        the list has ended.
    ideal : float64, shape (U, I)
        Relevance of the user's relevant items, descending, padded with 0: the best list there is.
        Ranks beyond the longest cutoff are left out.
    n_relevant : int64, shape (U,)
        Relevant items of each user, at least 1.
    n_items : int
        Size of the catalogue.
    """

    relevance: Floats
    ideal: Floats
    n_relevant: Ints
    n_items: int

    def hits(self, cutoff: int | None) -> NDArray[np.bool_]:
        """Whether each rank up to the cutoff holds a relevant item, shape (U, at most cutoff)."""
        return self.relevance[:, :cutoff] > 0

    def n_hits(self, cutoff: int | None) -> Ints:
        """Relevant items among the ranks up to the cutoff, shape (U,)."""
        counts: Ints = np.count_nonzero(self.relevance[:, :cutoff], axis=1)
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class Standings:
    """Where each relevant item of U users stands among all its user's candidates.

    The E entries are grouped by user. Two items tie where their computed scores are equal.

    Attributes
    ----------
    users : int64, shape (E,)
        User of each entry; every user has at least one.
    above, tied : int64, shape (E,)
        Candidates with a higher score, and with the same score, the item itself included.
    relevant_above, relevant_tied : int64, shape (E,)
        The same counts over the user's relevant items alone.
    n_relevant, n_candidates : int64, shape (U,)
        Relevant items, and all items ranked, of each user.
    """

    users: Ints
    above: Ints
    tied: Ints
    relevant_above: Ints
    relevant_tied: Ints
    n_relevant: Ints
    n_candidates: Ints

    def per_entry(self, per_user: Ints) -> Ints:
        """Repeat each user's number for each entry of that user."""
        return per_user[self.users]

    def mean(self, per_entry: Floats) -> Floats:
        """Mean over each user's relevant items, shape (U,)."""
        (sums,) = sums_at(self.users, [per_entry], len(self.n_relevant))
        means: Floats = sums / self.n_relevant
        return means


def judge(ids: NDArray[np.int32], relevant: CSR, width: int) -> JudgedLists:
    """Look the ranked ids (U, at most ``width``; -1 where a list has ended) up in ``relevant``.

    ``relevant`` holds the users' relevant items with relevance above 0, one row a user, none empty.
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
    )


def stand(scores: NDArray[Any], relevant: CSR) -> Standings:
    """Count for each relevant item what scores higher than it and what scores the same.

    ``scores`` (U, N) are NaN where an item is no candidate; relevant items are all candidates.
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
    """One number a stored cell, ``row * n_columns + column``; ascending, as the cells are."""
    return np.repeat(np.arange(rows.n_rows), rows.counts) * rows.n_columns + rows.indices


def find(ascending: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Place of each wanted number among the ascending ones (any place if absent), and if it is."""
    if not len(ascending):
        return np.zeros_like(wanted), np.zeros_like(wanted, dtype=np.bool_)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, ascending[place] == wanted


def _descending(relevant: CSR, values: Floats, width: int) -> Floats:
    users = np.repeat(np.arange(relevant.n_rows), relevant.counts)
    order = np.lexsort((-values, users))  # stable within a user, whose entries stay together
    ranks = np.arange(len(users)) - np.repeat(relevant.indptr[:-1], relevant.counts)
    kept = ranks < width
    ideal = np.zeros((relevant.n_rows, min(width, int(relevant.counts.max(initial=0)))))
    ideal[users[kept], ranks[kept]] = values[order][kept]
    return ideal


def _above_and_tied(scores: NDArray[Any], own: NDArray[Any]) -> tuple[Ints, Ints]:
    """How many scores are above each of one's own, and how many equal it; NaN is neither."""
    if len(own) <= _FEW:
        above: Ints = np.count_nonzero(scores > own[:, None], axis=1)
        return above, np.count_nonzero(scores == own[:, None], axis=1)
    ascending = np.sort(scores[~np.isnan(scores)])
    upper = np.searchsorted(ascending, own, side="right")
    return len(ascending) - upper, upper - np.searchsorted(ascending, own, side="left")
