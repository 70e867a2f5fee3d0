"""The unit of the values that a model was fitted to, by a sample of them.

Values that are folded in should be of the same unit: ratings up to 100 where the fit had those up
to 5 outweigh all else, and shares of 1 hardly count. A few values of one user say less than an
update does, so that only what the fit can hardly have is told, and once for each model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

FEW, _SEVERAL = 20, 10
"""Up to FEW interactions anything may be by chance; but not that all values of several are among
the lowest tenth."""
_LEVELS = 20
"""So many different values are those of a scale of ratings, or weights of kinds of events."""
_ROOM, _FAR = 1.25, 10
"""How much larger than all old values the usual new ones may be, as where old ones have decayed;
and a few amounts, such as counts, of which the sample lacks the largest."""
_BLOCKS, _OF_BLOCK = 64, 256


@dataclass(frozen=True, eq=False)
class ValueScale:
    """The values above 0 of a fit.

    Attributes
    ----------
    least, low, usual, most : float
        The least, the lowest tenth, the median and the largest.
    n_levels : int
        Number of different values.
    mode : float
        The most frequent value.
    told : set of str
        Arguments of which was told that they are of another scale.
    """

    least: float
    low: float
    usual: float
    most: float
    n_levels: int
    mode: float
    told: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> Self | None:
        """The scale of these values; None if there are too few, or only marks of cells."""
        had = values[values > 0]
        return None if len(had) < FEW or had.dtype == bool else cls.of_all(had)

    @classmethod
    def of_all(cls, values: NDArray[np.floating]) -> Self:
        """The scale of values above 0, of which there is one or more."""
        least, low, usual, most = np.quantile(values, [0, 0.1, 0.5, 1]).tolist()
        levels, counts = np.unique(values, return_counts=True)
        return cls(least, low, usual, most, len(levels), float(levels[counts.argmax()]))

    @classmethod
    def of_some(cls, values: NDArray[np.floating]) -> Self | None:
        """The same by blocks at equal distances: values may be mapped from a disk."""
        if len(values) <= _BLOCKS * _OF_BLOCK:
            return cls.of(values)
        begins = np.linspace(0, len(values) - _OF_BLOCK, _BLOCKS).astype(np.int64)
        return cls.of(np.concatenate([values[at : at + _OF_BLOCK] for at in begins.tolist()]))

    @property
    def has_levels(self) -> bool:
        """Whether values are those of a scale, such as ratings, and no amounts."""
        return self.n_levels <= _LEVELS

    @property
    def are_ratings(self) -> bool:
        """Whether values are rather ratings than counts, of which the least is the most frequent.

        They are of few levels, usually of 2 and more.
        """
        return self.has_levels and self.usual >= 2 and self.mode > self.least

    def is_other(self, values: NDArray[np.floating]) -> bool:
        """Whether values are in another unit, most likely.

        The usual one is clearly above all of the fit; or those of the fit are of few levels, as
        ratings are, and these are below nearly all of them, or the usual one is below all. Counts
        of a day may well be below those of a year.
        """
        if not len(values):
            return False
        first, last = float(values.min()), float(values.max())
        is_few, are_low = len(values) < FEW, len(values) >= _SEVERAL and last < self.low
        if self.least <= first and last <= _ROOM * self.most and not are_low:
            return False
        given = values[values > 0]
        if not len(given):
            return False
        usual = float(np.median(given))
        if usual > _ROOM * self.most and (self.has_levels or not is_few):
            return True
        if not self.has_levels:
            return usual > _FAR * self.most or _FAR * last < self.least
        return usual < self.least or are_low

    def is_above_ones(self) -> bool:
        """Whether an item that counts 1, as where no value is given, hardly counts."""
        return self.low > 1 or (self.has_levels and self.usual >= 2)

    def __str__(self) -> str:
        if self.least == self.most:
            return f"that are all {self.least:g}"
        return f"from {self.least:g} to {self.most:g}, usually {self.usual:g}"
