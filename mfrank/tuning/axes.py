"""Points of the unit cube, and the hyper-parameters that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Axis", "Point", "near", "spread_out"]

Point = tuple[float, ...]
"""A place on each axis, from 0 to 1."""

_STEP = 0.1
"""Standard deviation of a step from a good point, as a part of an axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of a hyper-parameter, in units that depend on the data, logarithmic or not."""

    name: str
    low: float
    high: float
    logarithmic: bool = True

    def at(self, place: float) -> float:
        """The value at a place from 0 to 1."""
        if self.logarithmic:
            return self.low * math.exp(place * math.log(self.high / self.low))
        return self.low + place * (self.high - self.low)

    def place(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def spread_out(n_axes: int, number: int, seed: int) -> Point:
    """The point of this number, from 0, of a sequence that fills the cube evenly (Sobol's)."""
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(n_axes, rng=np.random.default_rng(seed)).random_base2(number.bit_length())
    return tuple(map(float, points[number]))


def near(point: Point, number: int, seed: int) -> Point:
    """A random point around a good one."""
    steps = np.random.default_rng((seed, number)).normal(0, _STEP, len(point))
    return tuple(map(float, np.clip(np.add(point, steps), 0, 1)))
