"""Columns of values as numbers, and what they may mean otherwise: times, codes, thousands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import counted, shown
from mfrank.data.columns import BadRow
from mfrank.data.notes import log as _log
from mfrank.data.time_units import look_like_times
from mfrank.errors import InputTypeError, InputValueError, Notice

NAN_AS_WHOLE = (-(2**31), -(2**63))
"""What a missing number becomes where it is made a whole number of 32 or 64 bits."""
_BELOW, _ABOVE = (-1, -9, -99, -999, -9999, *NAN_AS_WHOLE), (99, 999, 9999)
"""Values that stand for a missing one in other people's tables."""
_FIRST = 1000
_MANY = 20
"""The inverse of the share of whole numbers that are too many among rounded ones."""
_FAR = 9
"""A code such as 99 or -99 is at least so many times as large as all other values."""
_FEW, _QUANTITY = 5, 10
"""The inverse of the largest share of returns among quantities, and what some of these exceed."""
_FULL = 20
"""Pairs of users and items from which on it is no accident that there are all of them."""


def as_numbers(values: ArrayLike) -> NDArray[Any]:
    """Convert values to float32 or float64; values with one of these dtypes are unchanged.

    Raises
    ------
    BadRow
        If a value is not a number, such as a date.
    TypeError
        If values are complex.
    ValueError
        If values are not one-dimensional.
    """
    numbers = np.asarray(values)
    if numbers.ndim != 1:
        raise InputValueError(f"`values` must be in one dimension, got shape {numbers.shape}")
    if numbers.dtype.kind == "c":
        raise InputTypeError("`values` must be real numbers, got complex ones")
    if numbers.dtype.kind == "m":
        made = "`column.dt.total_seconds()`"
        raise BadRow(f"`values` must be numbers, got durations, of which {made} makes seconds,", 0)
    if numbers.dtype.kind == "M":
        raise BadRow("`values` must be numbers, got times, which are passed as timestamps,", 0)
    if numbers.dtype in (np.float32, np.float64):
        return numbers
    try:
        return numbers.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        for row, value in enumerate(numbers.tolist()):
            if not _is_number(value):
                raise BadRow(f"`values` must be numbers, got {shown(value)}", row) from error
        raise InputValueError(f"`values` must be numbers: {error}") from error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@dataclass
class Extent:
    """Range of values, from which times and codes of missing values are recognized.

    Attributes
    ----------
    lowest, highest : float
        Range of all values; lowest > highest if there are none.
    codes : dict of str to int
        Counts of values such as -1 and 99 that were the lowest or highest of their portion.
    least, most : float
        Range of the other values.
    wholes, thousandths, ends : int
        Counts of whole values below 1,000; of other values >= 1 with three decimals; and of the
        latter that do not end in 0.
    others : int
        1 if there is any other value, which stops the counting.
    example : float
        The first value with three decimals.
    negatives, rows : int
        Counts of values below 0, and of all.
    """

    lowest: float = np.inf
    highest: float = -np.inf
    codes: dict[str, int] = field(default_factory=dict)
    least: float = np.inf
    most: float = -np.inf
    wholes: int = 0
    thousandths: int = 0
    ends: int = 0
    others: int = 0
    example: float = 0.0
    negatives: int = 0
    rows: int = 0

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self:
        """That of a column."""
        made = cls()
        made.add(values)
        return made

    def add(self, values: NDArray[Any]) -> None:
        """Add a column, or a portion of one."""
        if not len(values):
            return
        self._count_thousands(values)
        low, high = float(values.min()), float(values.max())
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        self.rows += len(values)
        self.negatives += int(np.count_nonzero(values < 0)) if low < 0 else 0
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
        """Warn about values that look like times, or like codes of missing values."""
        if look_like_times(self.lowest, self.highest):
            _log.warning(
                Notice(
                    f"values from {self.lowest:.0f} to {self.highest:.0f} look like times, and are "
                    "taken as ratings or counts; name their column with `timestamp=`, or ignore it "
                    "with `value=False`"
                )
            )
        if self.has_thousands:
            _log.warning(
                "values are whole numbers below 1,000, or have three decimals like %g: if the "
                "point is one between thousands, write them without it",
                self.example,
            )
        for code, number in self.missing().items():
            _log.warning(
                "the value %s, in %s, may stand for a missing one, because the others go from %g "
                "to %g; it is taken as it is, so drop these rows if it does",
                *(code, counted(number, "row"), self.least, self.most),
            )

    def tell_negatives(self) -> None:
        """Warn of a few quantities below 0, which are those of returns."""
        if self.least >= 0 or self.most <= _QUANTITY or _FEW * self.negatives > self.rows:
            return
        _log.warning(
            "%s of %s are below 0, down to %g, as quantities of returns are: they lower the sums "
            "of their pairs of user and item, or count as dislikes; drop these rows if they are "
            "not meant",
            *(f"{self.negatives:,}", counted(self.rows, "value"), self.lowest),
        )

    def _count_thousands(self, values: NDArray[Any]) -> None:
        for part in (values[:_FIRST], values[_FIRST:]):  # nearly always settled by the first
            if self.others or not len(part):
                return
            sizes = np.abs(part.astype(np.float64))
            is_whole = sizes == np.floor(sizes)
            fine = sizes[~is_whole] * 1000
            near, rounding = np.rint(fine), 1e-3 if part.dtype.itemsize > 4 else 0.07
            is_near = (np.abs(fine - near) < rounding) & (fine >= 1000)
            self.others = int(sizes.max() >= 1000 or not is_near.all())
            self.wholes += int(np.count_nonzero(is_whole))
            self.thousandths += len(fine)
            self.ends += int(np.count_nonzero(near % 10))
            if len(fine) and not self.example:
                self.example = float(near[np.argmax(near % 10 > 0)] / 1000)

    @property
    def may_have_thousands(self) -> bool:
        """Whether all values could be from a file that writes 1234 as 1.234."""
        return not self.others and 0 < self.thousandths <= 2 * self.ends

    @property
    def has_thousands(self) -> bool:
        """Whether there are also whole numbers, and more than rounding to three decimals leaves."""
        total = self.wholes + self.thousandths
        return self.may_have_thousands and self.wholes * _MANY >= total

    def missing(self) -> dict[str, int]:
        """Values that may be codes of missing values, with counts."""
        return {code: n for code, n in self.codes.items() if self._is_code(float(code), n)}

    def to_dict(self) -> Mapping[str, Any]:
        """As JSON types, without infinite numbers."""
        facts = vars(self).items()
        return {name: own for name, own in facts if isinstance(own, dict) or np.isfinite(own)}

    def _is_code(self, code: float, number: int) -> bool:
        if self.least > self.most:  # there are no others
            return False
        if code in NAN_AS_WHOLE:
            return True
        if code < 0:
            alone = self.least >= 0 and self.most > 1
            if alone and (code == -1 or (number > 1 and self.most <= -code)):
                return True
        is_far = _FAR * max(self.most, -self.least) <= abs(code)
        return number > 1 and abs(code) > 9 and is_far


_MOST_LEVELS, _HIGHEST_RATING, _FEWEST_RATINGS, _ALL_OF_SAMPLE = 20, 10, 5, 100_000


def look_like_ratings(values: NDArray[Any]) -> bool:
    """Whether values look like ratings: half steps from .5 to 10.

    Of which the lowest is no third, as it is of quantities and counts.
    """
    step = -(-len(values) // _ALL_OF_SAMPLE)
    levels, counts = np.unique(values[:: max(1, step)], return_counts=True)
    if not 3 <= len(levels) <= _MOST_LEVELS or counts.sum() < _FEWEST_RATINGS:
        return False
    in_steps = levels[0] > 0 and levels[-1] <= _HIGHEST_RATING and not (2 * levels % 1).any()
    return bool(in_steps and 3 * counts[0] < counts.sum())


_OF_PART, _FEW_OF_PART = 1_000, 20


@dataclass
class ScalesOfParts:
    """Some values of each part of the data, such as a file, of which one may have another scale.

    Attributes
    ----------
    samples : dict of str to floating-point
        By the names of parts.
    varied : set of str
        Parts that have other values than 1.
    """

    samples: dict[str, NDArray[Any]] = field(default_factory=dict)
    varied: set[str] = field(default_factory=set)

    def add(self, part: str, values: Any) -> None:
        """Add a column of a part, or a portion of one; None if it has no values."""
        if values is None or (values := np.asarray(values)).dtype.kind not in "iuf":
            return
        some = values[:: -(-len(values) // _OF_PART) or 1]
        if part not in self.varied and not ((some == 1).all() and (values == 1).all()):
            self.varied.add(part)
        known = self.samples.get(part, np.empty(0))
        if len(known) < _OF_PART:
            self.samples[part] = np.concatenate([known, some[np.isfinite(some)]])

    def tell(self) -> None:
        """Warn of a part beside one of ratings: without values, of percents, or of shares."""
        enough = {part: some for part, some in self.samples.items() if len(some) >= _FEW_OF_PART}
        rated = [part for part, some in enough.items() if look_like_ratings(some)]
        if len(enough) < 2 or not rated:
            return
        one = min(rated, key=lambda part: float(enough[part].max()))
        least, most = float(enough[one].min()), float(enough[one].max())
        if not (least <= 2 and most >= 4):  # such as those that are liked, beside the others
            return
        for other, some in enough.items():
            if other not in self.varied:
                _log.warning(
                    Notice(
                        f"all values of {other} are 1, as where it has none, and those of {one} "
                        f"look like ratings, from {least:g} to {most:g}: give both values, or read "
                        "them without, by `value=False`"
                    )
                )
                return
            is_above = np.median(some) > 1.25 * most
            if is_above or (some.max() <= 1 and (2 * some % 1).any()):
                _log.warning(
                    f"values of {one} go from {least:g} to {most:g}, and those of {other} from "
                    f"{some.min():g} to {some.max():g}: all are taken as of one scale, so bring "
                    "them to one if they are of two"
                )
                return


def tell_full(values: NDArray[Any], n_users: int, n_items: int) -> None:
    """Warn of cells that are all pairs of users and items, each of the same value.

    A table of all pairs has their ratings in a column that was not read, empty where there are
    none.
    """
    if len(values) < max(_FULL, n_users * n_items) or min(n_users, n_items) < 3:
        return
    if values[0] == values[-1] and values.min() == values.max():
        _log.warning(
            Notice(
                f"each of the {n_users:,} users has each of the {n_items:,} items with the same "
                "value, so that nothing can be learned: if a column has the values, name it with "
                "`value=`, and drop the rows of pairs without one"
            )
        )
