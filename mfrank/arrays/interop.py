"""Conversion of arrays of any library to numpy or, on a GPU, to CuPy; read-only arrays.

An array in host memory becomes a numpy array that shares its memory. An array on a GPU stays there
and is shared through DLPack or CUDA's array interface. Anything else, such as a list or a column of
a data frame, is returned unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import device as device_copies
from mfrank.arrays.csr_checks import checked
from mfrank.arrays.placement import on_host, readable
from mfrank.errors import InputTypeError, InputValueError, within

# Read-only arrays, so that stored data cannot be changed from outside.


def read_only(array: Any) -> NDArray[Any]:
    """A read-only view of the array, which is copied if it is not contiguous and aligned.

    A GPU array is returned unchanged: CuPy has no read-only arrays.
    """
    if not isinstance(array, np.ndarray):
        on_gpu: NDArray[Any] = array
        return on_gpu
    view = readable(array).view()
    view.flags.writeable = False
    return view


def read_only_rows(rows: sp.csr_array, name: str) -> sp.csr_array:
    """A new matrix on read-only views of the arrays of a canonical CSR.

    Raises
    ------
    ValueError
        Its arrays are damaged, or the columns of a row do not strictly ascend.
    """
    own = checked(rows, name)
    if own.format != "csr" or not own.has_canonical_format:
        raise InputValueError(f"`{name}` must be a CSR with strictly ascending columns in each row")
    own.data, own.indices, own.indptr = map(read_only, (own.data, own.indices, own.indptr))
    return own


def unshared(array: NDArray[Any]) -> NDArray[Any]:
    """The array if nothing can write to its memory, else a copy."""
    return array.copy() if any(view.flags.writeable for view in _views(array)) else array


def freeze(array: NDArray[Any]) -> None:
    """Make an array read-only, and the arrays it is a view of; the caller must own them all."""
    for view in _views(array):
        view.flags.writeable = False


def _views(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The array, the array it is a view of, and so on."""
    view: Any = array
    while isinstance(view, np.ndarray):
        yield view
        view = view.base


_HOST = {1, 3, 11}  # DLPack's device types of host memory: plain, pinned by CUDA or ROCm
_CUDA = {2, 13}  # DLPack's device types of CUDA memory: on a device, managed


def take(given: Any, name: str) -> Any:
    """Convert an array of another library to numpy or, if it lies on a GPU, to CuPy.

    Arrays have ``__dlpack__`` or ``__cuda_array_interface__``; anything else is returned as it is.
    Memory is shared; only GPU arrays that are not C-contiguous, or are on a GPU other than the
    current one, are copied.

    Raises
    ------
    TypeError
        The library does not export the array, such as a torch tensor that requires a gradient.
    ValueError
        It lies on a device other than a CUDA GPU, CuPy cannot use the GPU, or it is a numpy array
        with masked values.
    """
    if isinstance(given, np.ma.MaskedArray):
        return _unmasked(given, name)
    if isinstance(given, np.ndarray | np.generic):
        return given
    kind = _memory(given)
    if kind is None:
        return given
    if kind not in _HOST | _CUDA:
        raise InputValueError(
            f"`{name}` lies on a device that mfrank does not read ({type(given).__name__}, "
            f"DLPack's device type {kind}):",
            "copy it to the host first",
        )
    try:
        return _of_the_gpu(given, name) if kind in _CUDA else _of_the_host(given)
    except (BufferError, RuntimeError, TypeError) as error:
        raise InputTypeError(f"`{name}` cannot be read as an array: {error}") from error


def as_array(given: Any, name: str) -> Any:
    """Like :func:`take`, but anything that is not an array is converted to numpy."""
    taken = take(given, name)
    known = isinstance(taken, np.ndarray) or _memory(taken) is not None
    if known:
        return taken
    try:
        return np.asanyarray(taken)
    except ValueError as error:  # lists of several lengths
        raise within(f"`{name}` must be an array", error) from error


def to_host(given: Any, name: str) -> Any:
    """Like :func:`take`, but GPU arrays are copied to numpy."""
    taken = take(given, name)
    return on_host(taken) if is_on_gpu(taken) else taken


def is_on_gpu(given: Any) -> bool:
    """Whether ``given`` is an array on a CUDA device."""
    return not isinstance(given, (np.ndarray, int, str)) and _memory(given) in _CUDA


def is_sparse_on_gpu(matrix: Any) -> bool:
    """Whether ``matrix`` is a CuPy sparse matrix."""
    cupy = sys.modules.get("cupyx.scipy.sparse")  # its matrices exist only if it was imported
    return cupy is not None and bool(cupy.issparse(matrix))


def sparse_to_host(matrix: Any) -> Any:
    """Copy a CuPy sparse matrix to scipy; return anything else unchanged.

    The arrays of a CSR are registered as copies (:mod:`mfrank.arrays.device`).
    """
    if not is_sparse_on_gpu(matrix):
        return matrix
    here = matrix.get()
    if here.format == "csr":
        for name in ("data", "indices", "indptr"):
            copy = getattr(here, name)
            freeze(copy)  # so that no owner copies it, which would lose the registration
            device_copies.register_copy(copy, getattr(matrix, name))
    return here


def _unmasked(given: np.ma.MaskedArray[Any, Any], name: str) -> Any:
    """The values of a masked array; raise if any is masked, as comparisons would skip it."""
    if np.ma.is_masked(given):
        raise InputValueError(
            f"`{name}` has masked values",
            f"drop them with {name}.compressed(), or give them a value with {name}.filled(value)",
        )
    return given.data


def _memory(given: Any) -> int | None:
    """DLPack's device type of an array; None for anything else."""
    if isinstance(given, type):
        return None
    if hasattr(type(given), "__dlpack_device__"):
        try:
            return int(given.__dlpack_device__()[0])
        except TypeError:  # of a type that DLPack lacks, as Arrow's text before version 26
            return min(_HOST) if hasattr(given, "__array__") else None
    return min(_CUDA) if hasattr(type(given), "__cuda_array_interface__") else None


def _of_the_host(given: Any) -> Any:
    # numpy's own protocol first: DLPack has no strings.
    return np.asarray(given) if hasattr(given, "__array__") else np.from_dlpack(given)


def _of_the_gpu(given: Any, name: str) -> Any:
    from mfrank.arrays import device as gpu  # needed only for arrays on a GPU

    if reason := gpu.why_unavailable():
        raise InputValueError(
            f"`{name}` lies on a GPU, which cannot be used here: {reason}",
            f"Or copy it to the host first (torch: {name}.cpu())",
        )
    there = gpu.device().asarray(given)
    return there.reshape(getattr(given, "shape", there.shape))  # a scalar stays zero-dimensional
