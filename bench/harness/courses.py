"""NDCG@20 during a fit, against its epochs and its seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from mfrank.data import Interactions
from mfrank.evaluation import NDCG, evaluate

__all__ = ["Course", "Point", "arrival"]


class Point(NamedTuple):
    """Where a fit is after an epoch."""

    epoch: int
    seconds: float
    ndcg: float


@dataclass
class Course:
    """A clock that stands still while an epoch is judged.

    Attributes
    ----------
    train, truth : Interactions
        What is fitted to, and what is to be found.
    patience : float
        Seconds after which a fit is to end.
    every : int
        Epochs from one judgement to the next.
    points : list of Point
    epochs : int
        Done, of however many fits.
    is_over : bool
        Whether patience is at its end.
    """

    train: Interactions
    truth: Interactions
    patience: float = float("inf")
    every: int = 1
    points: list[Point] = field(default_factory=list)
    epochs: int = 0
    is_over: bool = False

    def begin(self) -> None:
        """Start the clock."""
        self._began = perf_counter()

    def watch(self, model: Any) -> bool:
        """Another epoch is done; whether the fit is to end."""
        self.epochs += 1
        seconds = perf_counter() - self._began
        self.is_over = seconds > self.patience
        if self.is_over or self.epochs % self.every == 0:
            found = evaluate(model, self.truth, train=self.train, metrics=NDCG @ 20)
            self.points.append(Point(self.epochs, seconds, float(found[NDCG @ 20].value)))
            self._began = perf_counter() - seconds
        return self.is_over


def arrival(points: list[Point], target: float) -> Point:
    """The first epoch that reaches the target; NaN seconds where none does."""
    never = Point(-1, float("nan"), points[-1].ndcg)
    return next((point for point in points if point.ndcg >= target), never)
