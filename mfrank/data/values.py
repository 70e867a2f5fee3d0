"""Conversion of a column of values to numbers."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import shown
from mfrank.data.columns import BadRow
from mfrank.data.time_units import look_like_times

__all__ = ["as_numbers", "tell_of_times"]

_log = logging.getLogger("mfrank")


def as_numbers(values: ArrayLike) -> NDArray[Any]:
    """Convert values to float32 or float64; those that have one of these dtypes are unchanged.

    Raises
    ------
    BadRow
        If one of them is not a number, such as a date.
    TypeError
        If they are complex.
    ValueError
        If they are not in one dimension.
    """
    numbers = np.asarray(values)
    if numbers.ndim != 1:
        raise ValueError(f"values must be in one dimension, got shape {numbers.shape}")
    if numbers.dtype.kind == "c":
        raise TypeError("values must be real numbers, got complex ones")
    if numbers.dtype.kind in "mM":
        raise BadRow("values must be numbers, got times, which are passed as timestamps,", 0)
    if numbers.dtype in (np.float32, np.float64):
        return numbers
    try:
        return numbers.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        for row, value in enumerate(numbers.tolist()):
            if not _is_number(value):
                raise BadRow(f"values must be numbers, got {shown(value)}", row) from error
        raise ValueError(f"values must be numbers: {error}") from error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def tell_of_times(lowest: float, highest: float) -> None:
    """Log a warning if values from one to another look like times."""
    if look_like_times(lowest, highest):
        _log.warning(
            "values from %.0f to %.0f look like times, and are taken as ratings or counts; name "
            "their column with timestamp=, or ignore it with value=False",
            *(lowest, highest),
        )
