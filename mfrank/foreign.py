"""Arrays that callers bring from any library, as numpy's or as those of the GPU's own library.

What lies in the host's memory becomes a numpy array that shares it; what lies on a GPU stays there,
shared by DLPack or CUDA's array interface. What is no such array (a list, a data frame's column) is
handed on as it is, to be read by whoever asked for it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mfrank import twins
from mfrank.arrays import on_host
from mfrank.read_only import freeze

__all__ = ["as_array", "is_on_gpu", "is_sparse_on_gpu", "sparse_to_host", "take", "to_host"]

_HOST = {1, 3, 11}  # DLPack's names for memory that the processor reads: its own, and pinned
_CUDA = {2, 13}  # of a CUDA device, and managed


def take(given: Any, name: str) -> Any:
    """An array of another library where it is: in numpy, or on the GPU.

    Parameters
    ----------
    given : object
        An array with ``__dlpack__`` or ``__cuda_array_interface__``, or anything else.
    name : str
        The argument it was given as, for errors.

    Returns
    -------
    numpy array, array of the GPU's library (CuPy), or ``given``
        Nothing is copied but, on the GPU, what is not C-contiguous there.

    Raises
    ------
    TypeError
        The library does not give the array away, as torch's that require a gradient.
    ValueError
        It lies on a device that is no CUDA GPU, or on one that CuPy does not reach.
    """
    if isinstance(given, np.ndarray | np.generic):
        return given
    kind = _memory(given)
    if kind is None:
        return given
    if kind not in _HOST | _CUDA:
        raise ValueError(
            f"{name} lies on a device that mfrank does not read ({type(given).__name__}, DLPack's "
            f"device type {kind}): bring it to the host first"
        )
    try:
        return _of_the_gpu(given, name) if kind in _CUDA else _of_the_host(given)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(f"{name} cannot be read as an array: {error}") from error


def as_array(given: Any, name: str) -> Any:
    """As :func:`take`; what is no array becomes numpy's."""
    taken = take(given, name)
    known = isinstance(taken, np.ndarray) or _memory(taken) is not None
    return taken if known else np.asanyarray(taken)


def to_host(given: Any, name: str) -> Any:
    """As :func:`take`; what lies on a GPU is copied to numpy."""
    taken = take(given, name)
    return on_host(taken) if is_on_gpu(taken) else taken


def is_on_gpu(given: Any) -> bool:
    """Whether it is an array that lies on a CUDA device."""
    return not isinstance(given, np.ndarray) and _memory(given) in _CUDA


def is_sparse_on_gpu(matrix: Any) -> bool:
    """Whether it is a sparse matrix of CuPy's."""
    cupy = sys.modules.get("cupyx.scipy.sparse")  # not imported: who has one has imported it
    return cupy is not None and bool(cupy.issparse(matrix))


def sparse_to_host(matrix: Any) -> Any:
    """A sparse matrix of CuPy's as scipy's, by a copy; anything else as it is.

    The copy of a CSR is known as one (:mod:`mfrank.twins`).
    """
    if not is_sparse_on_gpu(matrix):
        return matrix
    here = matrix.get()
    if here.format == "csr":
        for name in ("data", "indices", "indptr"):
            copy = getattr(here, name)
            freeze(copy)  # who keeps it need not copy it, by which it would be known no more
            twins.note(copy, getattr(matrix, name))
    return here


def _memory(given: Any) -> int | None:
    """DLPack's number of the kind of memory; None of what is no array of another library."""
    if isinstance(given, type):
        return None
    if hasattr(type(given), "__dlpack_device__"):
        return int(given.__dlpack_device__()[0])
    return min(_CUDA) if hasattr(type(given), "__cuda_array_interface__") else None


def _of_the_host(given: Any) -> Any:
    # Columns of strings, which DLPack has not, come by numpy's own protocol.
    return np.asarray(given) if hasattr(given, "__array__") else np.from_dlpack(given)


def _of_the_gpu(given: Any, name: str) -> Any:
    from mfrank.cuda import device as gpu  # only who has arrays there needs it

    if reason := gpu.why_unavailable():
        raise ValueError(
            f"{name} lies on a GPU, which cannot be used here: {reason}. Or bring it to the host "
            f"first (torch: {name}.cpu())"
        )
    there = gpu.device().asarray(given)
    return there.reshape(getattr(given, "shape", there.shape))  # a single number stays one
