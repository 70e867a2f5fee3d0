"""Memory checks before a fit: the size of its factors and of the arrays of a batch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import DTypeLike

from mfrank.arrays.counted import counted
from mfrank.arrays.csr import CSR
from mfrank.arrays.memory import check_memory
from mfrank.backends import Backend
from mfrank.data.interactions import Interactions
from mfrank.descent.engine import Batches
from mfrank.descent.sampler import Sampling
from mfrank.losses import Loss

__all__ = ["check_batch_memory", "check_width", "is_on_host", "of_empty_rows"]

_MOST_NUMBERS = 2**28  # per array, 2 GiB in float64; a loss allocates several at once


def check_batch_memory(
    rows: CSR,
    loss: Loss,
    batches: Batches,
    sampling: Sampling,
    backend: Backend,
) -> None:
    """Raise if a batch needs an array of more than 2^28 numbers, too large for most machines.

    Parameters
    ----------
    rows : CSR
        Positives by user.
    loss : Loss
    batches : Batches
    sampling : Sampling
    backend : Backend
        Some backends allocate a number for each pair of places of a batch.

    Raises
    ------
    ValueError
        The message names the options to lower.
    """
    longest = int(rows.counts.max(initial=1))
    by_users = batches.of == "users"
    n_positives = min(sampling.positives or longest, longest) if by_users else 1
    n_negatives = rows.n_columns if sampling.negatives is None else sampling.negatives
    size = min(batches.size, max(1, rows.n_rows if by_users else len(rows.indices)))
    numbers = size * loss.largest_array(n_positives, n_negatives)
    if backend.list_sums().holds_pairs:
        numbers = max(numbers, size * loss.largest_pair_array(n_positives, n_negatives))
    if numbers > _MOST_NUMBERS:
        raise ValueError(
            f"a batch of {counted(size, 'list')} of {counted(n_positives, 'positive')} and "
            f"{counted(n_negatives, 'negative')} makes {type(loss).__name__} allocate arrays of "
            f"{numbers:.1e} numbers; lower batch_size, or set positives and negatives to smaller "
            "numbers"
        )


def is_on_host(backend: Backend) -> bool:
    """Whether factors lie in the host's memory in a fit by this backend."""
    return isinstance(backend.place(np.empty((1, 1))), np.ndarray)


def check_width(
    data: Interactions,
    width: int,
    dtype: DTypeLike,
    backend: Backend,
    *,
    tables: float,
    matrices: int,
) -> None:
    """Raise if the fit needs more memory than this process may ever have.

    A fit on a GPU is not checked: the GPU's library raises when its memory runs out.

    Parameters
    ----------
    data : Interactions
    width : int
        Number of latent factors.
    dtype : dtype
    backend : Backend
    tables : float
        Copies of all factors, (n_rows, width), that are in memory at once.
    matrices : int
        Float64 matrices of shape (width, width) that are in memory at once, next to one table.

    Raises
    ------
    MemoryError
        The message names the factors, or the rows if most of them are empty.
    """
    if not is_on_host(backend):
        return
    n_rows = data.n_users + data.n_items
    table = n_rows * width * np.dtype(dtype).itemsize
    # A fraction, because an absurd width is too large for a float.
    needed = max(int(Fraction(tables) * table), table + matrices * width**2 * 8)
    work = f"a fit of {counted(width, 'factor')} to {n_rows:,} users and items"
    check_memory(needed, work, of_empty_rows(n_rows, data.nnz) + "lower factors")


def of_empty_rows(n_rows: int, nnz: int) -> str:
    """The first part of a remedy, if most of ``n_rows`` users and items have no interactions."""
    most = 2 * nnz  # an entry has one of both
    if n_rows <= 2 * most:
        return ""
    return (
        f"at most {most:,} of them have interactions: if row numbers are raw ids, pass these to "
        "Interactions.from_arrays without a shape, which numbers them; else "
    )
