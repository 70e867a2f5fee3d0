"""Memory and time of a fit, estimated before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import DTypeLike

from mfrank.als import epoch_seconds, shared_seconds
from mfrank.arrays import CSR, check_memory, counted, warn_caller
from mfrank.backends import Backend, SolveOptions
from mfrank.data import Counts, Interactions
from mfrank.descent import Batches, Sampling
from mfrank.errors import InputValueError
from mfrank.losses import Loss

_MOST_NUMBERS = 2**28  # per array, 2 GiB in float64; a loss allocates several at once


def check_batch_memory(
    rows: CSR,
    loss: Loss,
    batches: Batches,
    sampling: Sampling,
    backend: Backend,
) -> None:
    """Raise if a batch needs an array of more than 2^28 numbers, too large for most machines.

    ``rows`` are the positives by user, at least one. Some backends allocate a number for each pair
    of positions in a batch.
    """
    longest = int(rows.counts.max())
    by_users = batches.of == "users"
    n_positives = min(sampling.positives or longest, longest) if by_users else 1
    n_negatives = rows.n_columns if sampling.negatives is None else sampling.negatives
    size = min(batches.size, rows.n_rows if by_users else len(rows.indices))
    numbers = size * loss.largest_array(n_positives, n_negatives)
    if backend.list_sums().holds_pairs:
        numbers = max(numbers, size * loss.largest_pair_array(n_positives, n_negatives))
    if numbers > _MOST_NUMBERS:
        raise InputValueError(
            f"a batch of {counted(size, 'list')} of {counted(n_positives, 'positive')} and "
            f"{counted(n_negatives, 'negative')} makes {type(loss).__name__} allocate arrays of "
            f"{numbers:.1e} numbers",
            "lower `batch_size`, or set `positives` and `negatives` to smaller numbers",
        )


def is_on_host(backend: Backend) -> bool:
    """Whether this backend has the factors in the host's memory during a fit."""
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
    """Raise if the fit needs more memory than this process can get.

    ``tables`` copies of all factors, of ``width``, are in memory at once, or one with ``matrices``
    of shape (width, width) in float64. A fit on a GPU is not checked: the GPU's library raises when
    its memory runs out.

    Raises
    ------
    MemoryError
        The message blames the number of factors, or the number of rows if most are empty.
    """
    if not is_on_host(backend):
        return
    n_rows = data.n_users + data.n_items
    needed = bytes_of_fit(n_rows, width, dtype, tables=tables, matrices=matrices)
    work = f"a fit of {counted(width, 'factor')} to {n_rows:,} users and items"
    check_memory(needed, work, of_empty_rows(n_rows, data.nnz) + "lower `factors`")


def bytes_of_fit(n_rows: int, width: int, dtype: DTypeLike, *, tables: float, matrices: int) -> int:
    """Bytes of the tables or matrices of :func:`check_width`, whichever are more."""
    table = n_rows * width * np.dtype(dtype).itemsize
    # A fraction, because an absurd width is too large for a float.
    return max(int(Fraction(tables) * table), table + matrices * width**2 * 8)


def of_empty_rows(n_rows: int, nnz: int) -> str:
    """The start of a remedy, if most of ``n_rows`` users and items have no interactions."""
    most = 2 * nnz  # an entry has one of both
    if n_rows <= 2 * most:
        return ""
    return (
        f"at most {most:,} of them have interactions: if row numbers are raw ids, pass these to "
        "Interactions.from_arrays without a shape, which numbers them; else "
    )


# Warnings about fits that take long, so that nobody waits for them in silence.


_LONG = 60.0
_LONG_LEARNING = 3_600.0
"""A walk is learned in steps whose number is not fixed: most of them may never be needed."""
_MEASURED = 1.0
"""Seconds of batches that are enough to know how long an epoch takes."""
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def warn_if_long(
    counts: Counts, width: int, iterations: int, options: SolveOptions, backend: Backend
) -> None:
    """Warn if an epoch of ALS takes longer than about a minute, except on a GPU."""
    if not is_on_host(backend) or (seconds := epoch_seconds(counts, width, options)) < _LONG:
        return
    remedy = "lower `factors`"
    fewest, side = min((len(counts.items), "items"), (len(counts.users), "users"))
    if width > fewest:
        remedy += f": more than the number of {side}, {fewest:,}, add nothing"
    elif options.solver == "cholesky" and shared_seconds(width) < seconds / 2:
        remedy += ' or pass `solver="auto"`'
    warn_caller(
        f"an epoch with {counted(width, 'factor')} will take about {_told(seconds)}, and "
        f"{counted(iterations, 'epoch')} about {_told(seconds * iterations)}; {remedy}"
    )


@dataclass(slots=True, eq=False)
class Pace:
    """Measures the batches of a fit and warns once if an epoch takes longer than about a minute.

    The first batch is not measured, because it may compile kernels and allocate buffers.

    Attributes
    ----------
    iterations : int
        Epochs of the fit.
    remedy : str
        Advice that ends the warning.
    """

    iterations: int
    remedy: str
    _since: tuple[int, float] | None = None
    _is_told: bool = False

    def __call__(self, done: int, of: int, seconds: float) -> None:
        """After a batch: ``done`` of the ``of`` lists of the epoch took so many seconds."""
        if self._is_told:
            return
        if self._since is None or done <= self._since[0]:  # the first batch of an epoch
            self._since = done, seconds
            return
        lists, spent = done - self._since[0], seconds - self._since[1]
        if spent < _MEASURED or (epoch := spent * of / lists) < _LONG:
            return
        self._is_told = True
        warn_caller(
            f"an epoch takes about {_told(epoch)} by its first {counted(done, 'list')} of {of:,}, "
            f"and {counted(self.iterations, 'epoch')} about {_told(epoch * self.iterations)}; "
            f"{self.remedy}"
        )


def warn_if_steps_are_long(first: float, most: int) -> None:
    """Warn if learning a walk takes an hour or more, at the pace of its first step."""
    if (seconds := first * most) >= _LONG_LEARNING:
        warn_caller(
            f"learning takes up to {counted(most, 'step')}, about {_told(seconds)} by the first; "
            "lower `queries`, or the iterations of the method"
        )


def _told(seconds: float) -> str:
    """Such as "5 minutes": one digit, because more are not known."""
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    number = max(seconds / size, 1.0)
    digit = 10 ** int(np.log10(number))
    return counted(round(number / digit) * digit, unit)
