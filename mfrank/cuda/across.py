"""A matrix by columns, of its rows on the device: what lies there need not come from the host."""

from __future__ import annotations

import numpy as np

from mfrank.cuda.device import Array, Device

__all__ = ["BYTES_OF_AN_ENTRY", "by_columns"]

BYTES_OF_AN_ENTRY = 40
"""That it takes for a while: an order, what is sorted by it and what sorting needs besides."""


def by_columns(
    device: Device, indptr: Array, indices: Array, data: Array | None, n_columns: int
) -> tuple[Array, Array, Array | None]:
    """Columns as the rows of a CSR, ascending: ``scipy.sparse.csr_array.T.tocsr()``.

    Returns
    -------
    indptr : int64, shape (n_columns + 1,)
    indices : int32, shape (nnz,)
    data : shape (nnz,), or None where there are no values
    """
    xp = device.xp
    order = xp.argsort(indices, kind="stable")  # rows of a column stay in order
    ends = xp.searchsorted(indices[order], xp.arange(n_columns + 1, dtype=np.int32))
    rows = xp.searchsorted(indptr[1:], order, side="right").astype(np.int32)
    return ends.astype(np.int64), rows, None if data is None else data[order]
