"""The seen items of each user: as rows of either side, and as extras of a saved factor store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR, MadeOfFields, check_csr, check_indptr, is_canonical, lazy, read_only
from mfrank.data import has_zeros, not_in, select, without_zeros
from mfrank.errors import InputValueError, within
from mfrank.store import FactorStore, is_mapped

_ENTRIES_AT_ONCE = 1 << 22
_INDPTR, _INDICES, _POSITIVE = "seen_indptr", "seen_indices", "seen_positive"


@dataclass(frozen=True, eq=False)
class Seen(MadeOfFields):
    """The seen entries, users x items, as rows of either side; built and checked on first use.

    An entry with the stored value 0 (False) is only seen: the model was not fitted to it, but lists
    leave it out like all others.
    """

    matrix: sp.csr_array

    def rows_of(self, side: str) -> CSR:
        """Items of each user, or users of each item; errors as in :func:`check_seen`."""
        return self._of_users if side == "user" else self._of_items

    @lazy
    def checked(self) -> sp.csr_array:
        """The matrix, after :func:`check_seen`."""
        check_seen(self.matrix)
        return self.matrix

    @lazy
    def popularity(self) -> NDArray[np.float64]:
        """Number of users who like each item (values above 0), shape (n_items, 1)."""
        matrix = self.checked
        counts = np.zeros((matrix.shape[1], 1))
        for begin in range(0, matrix.nnz, _ENTRIES_AT_ONCE):
            part = slice(begin, begin + _ENTRIES_AT_ONCE)
            liked = matrix.indices[part][matrix.data[part] > 0]
            counts[:, 0] += np.bincount(liked, minlength=len(counts))
        return read_only(counts)

    @lazy
    def has_only(self) -> bool:
        """Whether there are entries that are only seen."""
        return has_zeros(self.matrix)

    @lazy
    def liked(self) -> Seen:
        """The entries that a fit learns from, without the ones that are only seen."""
        return Seen(without_zeros(self.checked)) if self.has_only else self

    @property
    def positives(self) -> sp.csr_array:
        """The checked matrix of :attr:`liked`."""
        return self.liked.checked

    @property
    def only(self) -> sp.csr_array:
        """The checked entries that are only seen."""
        return select(self.checked, np.flatnonzero(self.checked.data == 0))

    @lazy
    def _of_users(self) -> CSR:
        return CSR.from_scipy(self.checked, dtype=None)

    @lazy
    def _of_items(self) -> CSR:
        return CSR.from_scipy(self.checked.T.tocsr(), dtype=None)


def check_seen(seen: sp.csr_array) -> None:
    """Check that the columns of every row are valid items, ascending and distinct.

    Called before a save, and before scipy or a kernel first reads memory-mapped columns.

    Raises
    ------
    ValueError
        An index array is invalid, or columns are unsorted or repeat.
    """
    check_csr(seen.indptr, seen.indices, *seen.shape, "seen")
    if not is_canonical(seen.indptr, seen.indices):
        raise ValueError("seen.indices must ascend within each row, each item once")


def without_relevant(seen: sp.csr_array, relevance: sp.csr_array) -> sp.csr_array:
    """``seen`` without the zeros where ``relevance`` is above 0; both are canonical.

    An evaluation then ranks held-out items that are only seen in training. No model has learned
    from them, so this is fair.
    """
    zeros = np.flatnonzero(seen.data == 0)
    if not len(zeros):
        return seen
    relevant = select(relevance, np.flatnonzero(relevance.data > 0))
    left = not_in(select(seen, zeros), relevant)
    if len(left) == len(zeros):
        return seen
    kept = np.ones(seen.nnz, dtype=bool)
    kept[zeros] = False
    kept[zeros[left]] = True
    return select(seen, np.flatnonzero(kept))


def pack(store: FactorStore, seen: sp.csr_array) -> FactorStore:
    """Return the store with the pattern, not the values, of ``seen`` (users x items) in its extras.

    Zeros are marked.

    Raises
    ------
    ValueError
        The arrays of ``seen`` were modified since the fit, and :func:`unpack` would refuse them.
    """
    try:
        check_seen(seen)
    except ValueError as error:
        raise InputValueError(
            f"the model's interactions were changed since the fit ({error})",
            "fit anew, or save with `with_seen=False`",
        ) from error
    pattern: dict[str, NDArray[Any]] = {
        _INDPTR: seen.indptr.astype(np.int64, copy=False),
        _INDICES: seen.indices.astype(np.int32, copy=False),
    }
    if not (positive := seen.data != 0).all():
        pattern[_POSITIVE] = positive
    return replace(store, extras={**store.extras, **pattern})


def unpack(store: FactorStore) -> tuple[FactorStore, sp.csr_array | None]:
    """Split a store into the store without the pattern, and the pattern as a bool matrix or None.

    Memory-mapped columns are checked later, by :class:`Seen`: checking them here would read the
    whole file.

    Raises
    ------
    ValueError
        The pattern is damaged.
    """
    if not {_INDPTR, _INDICES} <= set(store.extras):
        return store, None
    extras = dict(store.extras)
    indptr, indices = extras.pop(_INDPTR), extras.pop(_INDICES)
    positive = extras.pop(_POSITIVE, None)
    shape = store.n_users, store.n_items
    try:
        if indptr.dtype != np.int64 or indices.dtype != np.int32:
            raise ValueError(f"offsets are {indptr.dtype}, columns {indices.dtype}")
        # First, because scipy does not check that offsets lie within the columns.
        check_indptr(indptr, indices.size, store.n_users, "seen")
        if positive is None:
            positive = np.ones(indices.size, dtype=bool)
        if positive.dtype != bool or positive.shape != indices.shape:
            raise ValueError("seen_positive must be bool, one for each entry")
        seen = sp.csr_array((positive, indices, indptr), shape)
        if not is_mapped(indices):
            check_seen(seen)
    except ValueError as error:
        raise within("the seen items saved with the model are damaged", error) from error
    return replace(store, extras=extras), seen
