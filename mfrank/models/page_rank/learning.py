"""The state of learning a supervised PageRank: best weights so far and history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.models.durations import warn_if_steps_are_long
from mfrank.models.factor_model import Callback
from mfrank.models.progress import follow
from mfrank.pagerank import Tuned
from mfrank.store.step import Record

__all__ = ["Learned"]


@dataclass(slots=True, eq=False)
class Learned:
    """The best weights so far and a record of each complete step."""

    weights: NDArray[np.float64]
    history: list[Record]

    def take_up(
        self, steps: Iterator[Tuned], callback: Callback | None, most: int, *, show_progress: bool
    ) -> None:
        """Run the steps, of which there are at most ``most``."""
        counted: Iterator[_Counted] = map(_Counted.of, steps)
        for _, _, tuned in follow(counted, most, unit="step") if show_progress else counted:
            if not self.history:
                warn_if_steps_are_long(tuned.seconds, most)
            self.history.append(tuned.record())
            if tuned.is_best:
                self.weights = tuned.weights
            if callback and callback(tuned.step - 1, tuned.seconds, tuned.loss):
                break


class _Counted(NamedTuple):
    """A step with the attributes that the progress bar reads."""

    epoch: int
    objective: float
    tuned: Tuned

    @classmethod
    def of(cls, tuned: Tuned) -> Self:
        return cls(tuned.step, tuned.loss, tuned)
