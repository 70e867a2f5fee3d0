"""How large the arrays of a fit and of its batches are, before they are made."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from mfrank.backends import Backend
from mfrank.csr import CSR
from mfrank.descent import Batches
from mfrank.memory import check_memory
from mfrank.sampling import Sampling
from mfrank.trainers import Loss

__all__ = ["check_room", "check_width"]

_MOST_NUMBERS = 2**28  # in an array, of which a loss holds some at once: 2 GiB in float64


def check_room(
    rows: CSR,
    loss: Loss,
    batches: Batches,
    sampling: Sampling,
    ramps: Literal["summed", "held"],
) -> None:
    """Refuse batches of lists that the memory of most machines has no room for.

    Parameters
    ----------
    rows : CSR
        Likes by users.
    loss : Loss
    batches : Batches
    sampling : Sampling
    ramps : {"summed", "held"}
        Whether ramps of all pairs of a list are arrays, as they are without the extension.

    Raises
    ------
    ValueError
        With what to lower.
    """
    longest = int(rows.counts.max(initial=1))
    by_users = batches.of == "users"
    n_likes = min(sampling.likes or longest, longest) if by_users else 1
    n_others = rows.n_columns if sampling.others is None else sampling.others
    size = min(batches.size, max(1, rows.n_rows if by_users else len(rows.indices)))
    numbers = size * loss.numbers(n_likes, n_others)
    if ramps == "held":
        numbers = max(numbers, size * loss.ramp_numbers(n_likes, n_others))
    if numbers > _MOST_NUMBERS:
        raise ValueError(
            f"a batch of {size} lists of {n_likes:,} likes and {n_others:,} others has "
            f"{type(loss).__name__} make arrays of {numbers:.1e} numbers; lower batch_size, or "
            "give likes and others (smaller) numbers"
        )


def check_width(
    n_rows: int, width: int, dtype: DTypeLike, backend: Backend, *, tables: int, matrices: int
) -> None:
    """Refuse factors so wide that this machine, used for nothing else, has no memory for the fit.

    A fit on a GPU is left to the GPU's library, which refuses what it has no memory for.

    Parameters
    ----------
    n_rows : int
        Users and items.
    width : int
    dtype : dtype
    backend : Backend
    tables : int
        Arrays of the factors' shapes that the fit has at once.
    matrices : int
        Float64 matrices of shape (width, width) that it has at once, beside one of the tables.

    Raises
    ------
    MemoryError
    """
    if not isinstance(backend.place(np.empty((1, 1), dtype)), np.ndarray):
        return
    table = n_rows * width * np.dtype(dtype).itemsize
    needed = max(tables * table, table + matrices * width**2 * 8)
    check_memory(needed, f"a fit of {width} factors to {n_rows:,} users and items", "lower factors")
