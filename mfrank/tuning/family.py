"""What a family of models is: axes, rungs, and what a trial takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

from mfrank.models.als import ALS
from mfrank.models.baseline import Baseline
from mfrank.models.descent import Descent
from mfrank.tuning.axes import Axis, Point
from mfrank.tuning.facts import Facts

__all__ = ["Family", "Model", "Setting", "short"]

Model: TypeAlias = ALS | Descent | Baseline


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What is the same for all trials: facts of the training part, maximum width, seed, threads.

    ``memory`` is the most bytes that a fit may take.
    """

    facts: Facts
    factors: int
    seed: int
    n_threads: int
    memory: float = math.inf

    def width(self, share: int) -> int:
        """Factors of a rung: a share of the maximum, at least 1, at most the users or the items."""
        data = self.facts.data
        return max(1, min(self.factors // share, data.n_users, data.n_items))


class Family(ABC):
    """A kind of model, its axes and its rungs."""

    name: str
    first_values: tuple[float, ...]
    axes: tuple[Axis, ...]
    rungs: int = 3

    @property
    def uses_values(self) -> bool:
        """Whether its models read the values of interactions."""
        return False

    @abstractmethod
    def model(self, point: Point, rung: int, setting: Setting) -> Model:
        """The unfitted model of a point."""

    @abstractmethod
    def work(self, rung: int, setting: Setting) -> float:
        """About the seconds of a trial: only their ratios between rungs matter for long."""

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """About the most bytes that a fit holds beside the data."""
        return 0

    def fits(self, rung: int, setting: Setting) -> bool:
        """Whether a fit takes no more memory than it may."""
        return self.bytes_needed(rung, setting) <= setting.memory

    @property
    def first(self) -> Point:
        """The point that is tried first: near what was found best on the development splits."""
        values = zip(self.axes, self.first_values, strict=True)
        return tuple(axis.place(value) for axis, value in values)

    def values(self, point: Point) -> dict[str, float]:
        """The values on the axes."""
        return {axis.name: axis.at(place) for axis, place in zip(self.axes, point, strict=True)}


def short(value: float) -> float:
    """Three digits, so that a model prints well."""
    return float(f"{value:.3g}")
