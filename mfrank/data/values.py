"""Conversion of a column of values to numbers, and what they probably mean otherwise."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import shown
from mfrank.arrays.counted import counted
from mfrank.data.columns import BadRow
from mfrank.data.time_units import look_like_times

__all__ = ["Extent", "as_numbers"]

_BELOW, _ABOVE = (-1, -9, -99, -999, -9999), (99, 999, 9999)
"""Values that stand for a missing one in other people's tables."""
_FAR = 9
"""A code above is at least so many times as large as all other values."""

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


@dataclass
class Extent:
    """From where to where values go: enough to tell which may be times or no values.

    Attributes
    ----------
    lowest, highest : float
        Of all; the lowest is above the highest if there are none.
    codes : dict of str to int
        Numbers of values such as -1 and 99, where they were the lowest or highest of their portion.
    least, most : float
        The lowest and highest of the others.
    """

    lowest: float = np.inf
    highest: float = -np.inf
    codes: dict[str, int] = field(default_factory=dict)
    least: float = np.inf
    most: float = -np.inf

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        """That of a column."""
        made = cls()
        made.add(values)
        return made

    def add(self, values: NDArray[Any]) -> None:
        """Take in a column, or a portion of one."""
        if not len(values):
            return
        low, high = float(values.min()), float(values.max())
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        codes = {code for code, of in ((low, _BELOW), (high, _ABOVE)) if code in of}
        if codes:
            for code in codes:
                key = f"{code:.0f}"
                self.codes[key] = self.codes.get(key, 0) + int(np.count_nonzero(values == code))
            others = values[~np.isin(values, list(codes))]
            if not len(others):
                return
            low, high = float(others.min()), float(others.max())
        self.least, self.most = min(self.least, low), max(self.most, high)

    def tell(self) -> None:
        """Log warnings of values that look like times, or like no values."""
        if look_like_times(self.lowest, self.highest):
            _log.warning(
                "values from %.0f to %.0f look like times, and are taken as ratings or counts; "
                "name their column with timestamp=, or ignore it with value=False",
                *(self.lowest, self.highest),
            )
        for code, number in self.missing().items():
            _log.warning(
                "the value %s, in %s, may stand for a missing one, because the others go from %g "
                "to %g; it is taken as it is, so drop these rows if it does",
                *(code, counted(number, "row"), self.least, self.most),
            )

    def missing(self) -> dict[str, int]:
        """Values that may stand for a missing one, and how many there are of each."""
        return {code: n for code, n in self.codes.items() if self._is_code(float(code), n)}

    def to_dict(self) -> Mapping[str, Any]:
        """As types that JSON has, which has no infinite numbers."""
        facts = vars(self).items()
        return {name: own for name, own in facts if isinstance(own, dict) or np.isfinite(own)}

    def _is_code(self, code: float, number: int) -> bool:
        if self.least > self.most:  # there are no others
            return False
        if code < 0:
            alone = self.least >= 0 and self.most > 1
            return alone and (code == -1 or (number > 1 and self.most <= -code))
        return number > 1 and _FAR * max(self.most, -self.least) <= code
