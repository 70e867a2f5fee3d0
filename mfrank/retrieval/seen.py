"""Which items each user has, packed into a factor store to be saved, and unpacked again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.store.factors import FactorStore

__all__ = ["pack", "unpack"]

_INDPTR, _INDICES = "seen_indptr", "seen_indices"


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
