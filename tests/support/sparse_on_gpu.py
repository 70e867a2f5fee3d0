"""A stand-in for the sparse matrices of CuPy, whose arrays lie on the emulated GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from emulated_gpu import DeviceArray

__all__ = ["SparseOnGPU", "known_as_cupys"]


class SparseOnGPU:
    """A CSR or CSC matrix with what mfrank asks of CuPy's."""

    ndim = 2

    def __init__(self, matrix: Any) -> None:
        self.shape, self.format = matrix.shape, matrix.format
        self.data, self.indices, self.indptr = (
            DeviceArray(np.array(each)) for each in (matrix.data, matrix.indices, matrix.indptr)
        )

    def tocsr(self) -> SparseOnGPU:
        if self.format == "csr":
            return self
        return SparseOnGPU(self._read(lambda array: array.on_host).tocsr())

    def get(self) -> Any:
        return self._read(DeviceArray.get)

    def _read(self, read: Any) -> Any:
        make = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}[self.format]
        arrays = tuple(map(read, (self.data, self.indices, self.indptr)))
        return make(arrays, shape=self.shape, copy=False)


@contextmanager
def known_as_cupys() -> Iterator[None]:
    """While it is entered, these are the sparse matrices that CuPy has."""
    known = SimpleNamespace(issparse=lambda matrix: isinstance(matrix, SparseOnGPU))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupyx.scipy.sparse", known)
        yield
