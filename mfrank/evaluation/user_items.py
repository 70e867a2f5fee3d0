"""The interactions that an evaluation is given, as matrices in the rows of the model."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from mfrank.arrays.csr_checks import all_finite, checked_rows
from mfrank.arrays.interop import sparse_to_host
from mfrank.data.alignment import aligned
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.retrieval.candidates import HasUserItems
from mfrank.retrieval.fitted import Fitted
from mfrank.retrieval.seen import Seen
from mfrank.store.factors import FactorStore

__all__ = ["UserItems", "ids_of", "ids_of_rows", "in_rows_of", "matrix_of", "threshold_of"]

UserItems: TypeAlias = HasUserItems | sp.sparray | sp.spmatrix
Data = TypeVar("Data", UserItems, UserItems | None)


def ids_of_rows(model: Any, train: UserItems | None) -> tuple[Ids, Ids] | None:
    """The ids that name the rows of an evaluation: the model's, else those of ``train``.

    A model that was fitted to a matrix only numbers its rows. If ``train`` are the interactions of
    that matrix, the rows have their ids.
    """
    own, theirs = ids_of(model), ids_of(train)
    if own is None or theirs is None:
        return own or theirs
    seen = getattr(model, "seen", None)
    if isinstance(train, Interactions) and isinstance(seen, Seen):
        numbered = all(ids.table is None for ids in own)
        if numbered and _same_cells(seen.matrix, train.user_items):
            return theirs
    return own


def _same_cells(one: sp.csr_array, other: sp.csr_array) -> bool:
    return one.shape == other.shape and (
        one is other
        or (np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices))
    )


def ids_of(fitted: Any) -> tuple[Ids, Ids] | None:
    """The ids that name the rows of a model or of its training data; None if it has none."""
    users, items = getattr(fitted, "user_ids", None), getattr(fitted, "item_ids", None)
    return (users, items) if isinstance(users, Ids) and isinstance(items, Ids) else None


def threshold_of(model: Any, train: Any) -> float | None:
    """What the data of a model's fit were cut by, as far as it is known."""
    for each in (model, train):
        if isinstance(each, Fitted | FactorStore | Interactions) and each.threshold is not None:
            return each.threshold
    return None


def in_rows_of(data: Data, ids: tuple[Ids, Ids] | None, name: str) -> Data:
    """Interactions in the rows of these ids; anything else as it is."""
    return data if ids is None or not isinstance(data, Interactions) else aligned(data, *ids, name)


def matrix_of(rows: UserItems, name: str) -> sp.csr_array:
    """The users x items matrix, canonical and finite; errors begin with the name."""
    matrix = rows.user_items if isinstance(rows, HasUserItems) else sparse_to_host(rows)
    if not sp.issparse(matrix):
        raise TypeError(
            f"{name} must be Interactions or a scipy sparse matrix, got {type(rows).__name__}"
        )
    canonical = checked_rows(matrix, name)
    if not canonical.has_canonical_format:
        canonical = canonical.copy()
        canonical.sum_duplicates()
    if not all_finite(canonical.data):
        raise ValueError(f"{name} must have finite values, got NaN or infinity")
    return canonical
