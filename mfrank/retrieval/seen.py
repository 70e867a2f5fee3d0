"""Which items each user has: rows of either side, and packed into a factor store to be saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.csr import CSR
from mfrank.pickles import MadeOfFields
from mfrank.store.factors import FactorStore

__all__ = ["Seen", "pack", "unpack"]

_INDPTR, _INDICES = "seen_indptr", "seen_indices"


@dataclass(frozen=True, eq=False)
class Seen(MadeOfFields):
    """Users x items as rows of either side, made when first asked for and kept."""

    matrix: sp.csr_array

    def rows_of(self, side: str) -> CSR:
        """Items of users, or users of items."""
        return self._of_users if side == "user" else self._of_items

    @cached_property
    def _of_users(self) -> CSR:
        return CSR.from_scipy(_canonical(self.matrix), dtype=None)

    @cached_property
    def _of_items(self) -> CSR:
        return CSR.from_scipy(_canonical(self.matrix.T.tocsr()), dtype=None)


def _canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Sorted rows without duplicates, in arrays of its own where they are not."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def pack(store: FactorStore, seen: sp.csr_array) -> FactorStore:
    """The store with the pattern of ``seen`` (users x items) among its extras, not its values."""
    pattern: dict[str, NDArray[Any]] = {
        _INDPTR: seen.indptr.astype(np.int64, copy=False),
        _INDICES: seen.indices.astype(np.int32, copy=False),
    }
    return replace(store, extras={**store.extras, **pattern})


def unpack(store: FactorStore) -> tuple[FactorStore, sp.csr_array | None]:
    """The store without the pattern, and the pattern as a bool matrix; None if there is none.

    Raises
    ------
    ValueError
        If the pattern is damaged.
    """
    if not {_INDPTR, _INDICES} <= set(store.extras):
        return store, None
    extras = dict(store.extras)
    indptr, indices = extras.pop(_INDPTR), extras.pop(_INDICES)
    shape = store.n_users, store.n_items
    try:
        seen = sp.csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape)
        if not isinstance(indices, np.memmap):  # A map would be read from end to end.
            seen.check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the seen items saved with the model are damaged: {error}") from error
    return replace(store, extras=extras), seen
