"""How large the arrays of a batch are, before they are made."""

from __future__ import annotations

from typing import Literal

from mfrank.csr import CSR
from mfrank.descent import Batches
from mfrank.sampling import Sampling
from mfrank.trainers import Loss

__all__ = ["check_room"]

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
