"""What a supervised PageRank has learned so far, of the steps of its method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.models.factor_model import Callback
from mfrank.pagerank import Tuned
from mfrank.progress import follow
from mfrank.steps import Record

__all__ = ["Learned"]


@dataclass(slots=True, eq=False)
class Learned:
    """Weights that the method would answer with now, and a record of each complete step."""

    weights: NDArray[np.float64]
    history: list[Record]

    def take_up(self, steps: Iterator[Tuned], callback: Callback | None, total: int | None) -> None:
        """Learn step after step; with ``total``, the most of them, on a progress bar."""
        counted = map(_Counted.of, steps)
        for tuned in (one.tuned for one in (follow(counted, total) if total else counted)):
            self.history.append(tuned.record())
            if tuned.is_best:
                self.weights = tuned.weights
            if callback and callback(tuned.step - 1, tuned.seconds, tuned.loss):
                break


class _Counted(NamedTuple):
    """A step as a progress bar counts it."""

    epoch: int
    objective: float
    tuned: Tuned

    @classmethod
    def of(cls, tuned: Tuned) -> Self:
        return cls(tuned.step, tuned.loss, tuned)
