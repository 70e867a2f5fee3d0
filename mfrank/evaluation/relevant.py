"""The test entries that are relevant, by blocks of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.evaluation.judgements import find, keys

__all__ = ["Relevant", "blocks", "relevant_of"]

_ENTRIES_AT_ONCE = 1 << 22


class Relevant(NamedTuple):
    """The relevant items of some users.

    Attributes
    ----------
    users : int64, shape (U,)
        Those who have a relevant item.
    items : csr_array, shape (U, n_items)
        Test entries above 0 that are not in the training data.
    n_in_train : int
        Number of test entries above 0 that are in the training data.
    """

    users: NDArray[np.int64]
    items: sp.csr_array
    n_in_train: int


def relevant_of(test: sp.csr_array, seen: CSR, requested: NDArray[np.int64]) -> Iterator[Relevant]:
    """Go through the requested users by blocks of about four million entries."""
    entries = np.diff(test.indptr)[requested] + seen.counts[requested]
    ends = np.searchsorted(
        np.cumsum(entries), np.arange(_ENTRIES_AT_ONCE, entries.sum(), _ENTRIES_AT_ONCE)
    )
    for users in np.split(requested, np.unique(ends)):
        cells = CSR.from_scipy(test[users], np.float64)
        values = np.asarray(cells.data)
        _, known = find(keys(seen.pick(users)), keys(cells))
        positive = values > 0
        kept = np.flatnonzero(positive & ~known)
        indptr = np.searchsorted(kept, cells.indptr)
        listed = np.flatnonzero(np.diff(indptr))
        items = sp.csr_array(
            (values[kept], cells.indices[kept], np.append(indptr[listed], indptr[-1])),
            shape=(len(listed), test.shape[1]),
        )
        yield Relevant(users[listed], items, int(np.count_nonzero(positive & known)))


def blocks(
    found: Iterator[Relevant], size: int
) -> Iterator[tuple[NDArray[np.int64], sp.csr_array]]:
    """Blocks of ``size`` users, whatever the sizes of the given blocks; the last may be smaller."""
    users: NDArray[np.int64] = np.empty(0, np.int64)
    rows: sp.csr_array | None = None
    for part in found:
        users = np.concatenate([users, part.users])
        rows = part.items if rows is None else sp.vstack([rows, part.items], format="csr")
        whole = len(users) - len(users) % size
        for begin in range(0, whole, size):
            yield users[begin : begin + size], rows[begin : begin + size]
        users, rows = users[whole:], rows[whole:]
    if rows is not None and len(users):
        yield users, rows
