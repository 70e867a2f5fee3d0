"""Transposing a CSR on the device, so that its transpose need not be copied from the host."""

from __future__ import annotations

import numpy as np

from mfrank.arrays.device import Array, Device

__all__ = ["BYTES_OF_AN_ENTRY", "by_columns"]

BYTES_OF_AN_ENTRY = 40
"""Temporary memory per entry: the sort order, the sorted arrays and the sort's own workspace."""


def by_columns(
    device: Device, indptr: Array, indices: Array, data: Array | None, n_columns: int
) -> tuple[Array, Array, Array | None]:
    """The transpose as a CSR with ascending indices: ``scipy.sparse.csr_array.T.tocsr()``.

    Returns
    -------
    indptr : int64, shape (n_columns + 1,)
    indices : int32, shape (nnz,)
    data : shape (nnz,), or None if ``data`` is None
    """
    xp = device.xp
    order = xp.argsort(indices, kind="stable")  # stable: ascending rows
    ends = xp.searchsorted(indices[order], xp.arange(n_columns + 1, dtype=np.int32))
    rows = xp.searchsorted(indptr[1:], order, side="right").astype(np.int32)
    return ends.astype(np.int64), rows, None if data is None else data[order]
