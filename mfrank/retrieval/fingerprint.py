"""SHA-256 of a model or a filter, to detect whether the inputs of lists have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import Ids, Interactions
from mfrank.files import dump_json
from mfrank.retrieval.filters import is_nested
from mfrank.store import FactorStore

Named = Iterable[tuple[str, NDArray[Any]]]


def of_store(store: FactorStore) -> str:
    """SHA-256 of the result of a fit (factors, ids, ...), except history and seen items.

    Raises
    ------
    ValueError
        If ids are neither integers nor strings.
    """
    contents = store.to_contents()
    digest = hashlib.sha256(dump_json(contents.metadata["fitter"]).encode())
    _add(digest, sorted(contents.arrays.items()))
    return digest.hexdigest()


def of_filter(values: Any, *, with_values: bool = False) -> str | None:
    """SHA-256 of interactions, a sparse matrix or lists of ids, on the host; None for None.

    ``with_values`` includes the values of matrices.
    """
    if values is None:
        return None
    digest = hashlib.sha256()
    matrix = values
    if isinstance(values, Interactions):
        for ids in (values.user_ids, values.item_ids):
            _add(digest, _ids(ids))
        matrix = values.seen
    is_sparse: bool = sp.issparse(matrix)
    if is_sparse:
        _add(digest, _pattern(matrix))
        if with_values:
            _add(digest, [("data", matrix.data)])
    else:
        for row in values if is_nested(values) else [values]:
            digest.update(repr(np.asarray(row, dtype=object).tolist()).encode())
    return digest.hexdigest()


def of_ids(*sides: Ids) -> str:
    """SHA-256 of ids; raises as :func:`of_store`."""
    digest = hashlib.sha256()
    for ids in sides:
        _add(digest, _ids(ids))
    return digest.hexdigest()


def _pattern(rows: Any) -> Named:
    """Offsets and columns, in the same types however the matrix came about."""
    offsets, columns = rows.indptr.astype(np.int64, copy=False), rows.indices
    return ("indptr", offsets), ("indices", columns.astype(np.int32, copy=False))


def _ids(ids: Ids) -> Named:
    return [("rows", np.array(len(ids)))] if ids.table is None else ids.to_arrays().items()


def _add(digest: Any, arrays: Named) -> None:
    for name, array in arrays:
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1))
