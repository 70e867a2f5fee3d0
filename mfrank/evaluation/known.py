"""The training data as metrics read them: who had what, and how many had each item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.data.groups import Groups, groups_by_popularity

__all__ = ["Known", "KnownLists"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ENTRIES_AT_ONCE = 1 << 22
_CELLS_AT_ONCE = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The training data of an evaluation, on the host; entries are read by blocks.

    Attributes
    ----------
    rows : CSR, shape (n_users, n_items)
        Items of each user.
    item_counts : int64, shape (n_items,)
        Number of users of each item.
    n_users : int
        Number of users with any item.
    excluded : bool
        Whether these items are excluded from the lists.
    groups : Groups
        Of items.
    """

    rows: CSR
    item_counts: Ints
    n_users: int
    excluded: bool
    groups: Groups

    @classmethod
    def of(cls, train: sp.csr_array, groups: Groups | None, *, excluded: bool) -> Known:
        """Count the entries of a canonical matrix; default groups are thirds by popularity."""
        rows = CSR.from_scipy(train, None)
        counts = np.zeros(rows.n_columns, dtype=np.int64)
        for begin, end in rows.blocks(_ENTRIES_AT_ONCE):
            part = rows.indices[rows.indptr[begin] : rows.indptr[end]]
            counts += np.bincount(part, minlength=len(counts))
        active = int(np.count_nonzero(rows.counts))
        chosen = groups or groups_by_popularity(counts, 3)
        return cls(rows, counts, active, excluded, chosen)

    def cosines(self, ids: NDArray[np.int32]) -> Floats:
        """Sum over the ordered pairs of each list's items of the cosine of their users.

        The cosine of items i and j is n_ij / sqrt(n_i n_j), with n_ij the number of users who have
        both. Counts of pairs are made for some of the listed items at a time.
        """
        items = np.unique(ids[ids >= 0]).astype(np.int64)
        scale = np.append(1 / np.sqrt(np.maximum(self.item_counts[items], 1)), 0.0)
        # The end of a list is as an item without users.
        places = np.where(ids >= 0, np.searchsorted(items, ids), len(items))
        sums = np.zeros(len(ids))
        step = max(1, _CELLS_AT_ONCE // (len(items) + 1))
        for begin in range(0, len(items), step):
            end = min(begin + step, len(items))
            both = self._both(items, begin, end)
            for rank, column in enumerate(places.T):
                lists = np.flatnonzero((column >= begin) & (column < end))
                own = column[lists]
                others = np.delete(places[lists], rank, axis=1)
                cosines = both[own[:, None] - begin, others] * scale[others]
                sums[lists] += cosines.sum(axis=1) * scale[own]
        return sums

    def _both(self, items: Ints, begin: int, end: int) -> NDArray[np.float32]:
        """Users who have both of two items, shape (end - begin, len(items) + 1), the last 0."""
        column_of = np.full(self.rows.n_columns, -1, dtype=np.int32)
        column_of[items] = np.arange(len(items), dtype=np.int32)
        both = np.zeros((end - begin, len(items) + 1), dtype=np.float32)
        for first, last in self.rows.blocks(_ENTRIES_AT_ONCE):
            indptr = self.rows.indptr[first : last + 1]
            columns = column_of[self.rows.indices[indptr[0] : indptr[-1]]]
            listed = np.flatnonzero(columns >= 0)
            kept = np.searchsorted(listed, indptr - indptr[0])
            shape = (last - first, len(items) + 1)
            ones = np.ones(len(listed), dtype=np.float32)
            users = sp.csr_array((ones, columns[listed], kept), shape=shape)
            some = users[:, begin:end]
            if some.nnz:
                found = (some.T.tocsr() @ users).tocoo()
                both[found.coords] += found.data
        return both


@dataclass(frozen=True, slots=True, eq=False)
class KnownLists:
    """The lists of U users, and what these users had in training.

    Attributes
    ----------
    users : int64, shape (U,)
    ids : int32, shape (U, K)
        Listed items, best first, distinct; -1 after a list's end.
    relevance : float64, shape (U, K)
        Relevance of each in the test data; 0 where it is not relevant.
    known : Known
    """

    users: Ints
    ids: NDArray[np.int32]
    relevance: Floats
    known: Known

    @property
    def lengths(self) -> Ints:
        """Number of items in each list, int64, shape (U,)."""
        lengths: Ints = np.count_nonzero(self.ids >= 0, axis=1)
        return lengths

    def first(self, cutoff: int) -> KnownLists:
        """The first ranks of each list."""
        ids, relevance = self.ids[:, :cutoff], self.relevance[:, :cutoff]
        return KnownLists(self.users, ids, relevance, self.known)

    def portions(self) -> Iterator[tuple[slice, CSR]]:
        """Go through the lists by blocks, with the items that these users had."""
        entries = np.cumsum(self.known.rows.counts[self.users] + self.ids.shape[1])
        begin = 0
        while begin < len(self.users):
            before = entries[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(entries, before + _ENTRIES_AT_ONCE, "right")))
            yield slice(begin, end), self.known.rows.pick(self.users[begin:end])
            begin = end
