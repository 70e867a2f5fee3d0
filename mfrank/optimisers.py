"""First-order updates of those rows of a table that a batch touched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mfrank.lists import Array

__all__ = ["SGD", "Adagrad", "Adam", "Optimiser"]

State = dict[str, Array]


class Optimiser(ABC):
    """An update rule, a frozen dataclass of its options."""

    learning_rate: float

    @abstractmethod
    def state(self, table: Array) -> State:
        """What is kept beside a table of rows, by name, before the first update."""

    @abstractmethod
    def update(self, table: Array, rows: Array, slopes: Array, state: State) -> None:
        """Move the rows (each given once) against their slopes; others are left alone."""


@dataclass(frozen=True)
class SGD(Optimiser):
    """Stochastic gradient descent, w <- w - learning_rate m with m <- momentum m + slope.

    Parameters
    ----------
    learning_rate : float, default 0.1
    momentum : float, default 0.0
        In [0, 1); a row's momentum stands still while no batch touches it.
    """

    learning_rate: float = 0.1
    momentum: float = 0.0

    def state(self, table: Array) -> State:
        """See :meth:`Optimiser.state`."""
        return {"momentum": np.zeros_like(table)} if self.momentum else {}

    def update(self, table: Array, rows: Array, slopes: Array, state: State) -> None:
        """See :meth:`Optimiser.update`."""
        if self.momentum:
            slopes = self.momentum * state["momentum"][rows] + slopes
            state["momentum"][rows] = slopes
        table[rows] -= self.learning_rate * slopes


@dataclass(frozen=True)
class Adagrad(Optimiser):
    """Adagrad (Duchi et al. 2011): slopes over the root of the sum of their squares.

    Parameters
    ----------
    learning_rate : float, default 0.05
    epsilon : float, default 1e-10
        Added to the root.
    """

    learning_rate: float = 0.05
    epsilon: float = 1e-10

    def state(self, table: Array) -> State:
        """See :meth:`Optimiser.state`."""
        return {"squares": np.zeros_like(table)}

    def update(self, table: Array, rows: Array, slopes: Array, state: State) -> None:
        """See :meth:`Optimiser.update`."""
        squares = state["squares"][rows] + slopes**2
        state["squares"][rows] = squares
        table[rows] -= self.learning_rate * slopes / (np.sqrt(squares) + self.epsilon)


@dataclass(frozen=True)
class Adam(Optimiser):
    """Adam (Kingma & Ba 2015), lazily: a row's averages count the batches that touched it.

    Parameters
    ----------
    learning_rate : float, default 0.001
    decay_1, decay_2 : float, default 0.9, 0.999
        Of the averages of slopes and of their squares.
    epsilon : float, default 1e-8
        Added to the root.
    """

    learning_rate: float = 1e-3
    decay_1: float = 0.9
    decay_2: float = 0.999
    epsilon: float = 1e-8

    def state(self, table: Array) -> State:
        """See :meth:`Optimiser.state`."""
        return {
            "means": np.zeros_like(table),
            "squares": np.zeros_like(table),
            "updates": np.zeros((len(table), *[1] * (table.ndim - 1)), dtype=np.int64),
        }

    def update(self, table: Array, rows: Array, slopes: Array, state: State) -> None:
        """See :meth:`Optimiser.update`."""
        means = self.decay_1 * state["means"][rows] + (1 - self.decay_1) * slopes
        squares = self.decay_2 * state["squares"][rows] + (1 - self.decay_2) * slopes**2
        state["updates"][rows] += 1
        updates = state["updates"][rows]
        state["means"][rows], state["squares"][rows] = means, squares
        ahead = means / (1 - self.decay_1**updates)
        spread = np.sqrt(squares / (1 - self.decay_2**updates)) + self.epsilon
        table[rows] -= self.learning_rate * ahead / spread
