"""First-order updates of those rows of a table that a batch touched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from mfrank.amounts import check_above_zero, is_number
from mfrank.backends import AdamAverages, AdamRates, Backend
from mfrank.lists import Array

__all__ = ["SGD", "Adagrad", "Adam", "Optimiser", "State", "Touched"]

State = dict[str, Array]


class Touched(NamedTuple):
    """Rows of a table (n, K), each given once, their slopes (R, K), and what is kept beside it."""

    table: Array
    rows: Array
    slopes: Array
    state: State
    backend: Backend
    n_threads: int = 0


class Optimiser(ABC):
    """An update rule, a frozen dataclass of its options.

    Attributes
    ----------
    learning_rate : float
    drifts : bool
        Whether rows move while no batch touches them: they are then settled before they are read.
    """

    learning_rate: float
    drifts: ClassVar[bool] = False

    @abstractmethod
    def state(self, table: Array) -> State:
        """What is kept beside a table (n, K), by name, before the first update."""

    @abstractmethod
    def update(self, at: Touched) -> None:
        """Move the rows against their slopes; others are left alone."""

    def settle(self, table: Array, state: State, rows: Array | None = None) -> None:  # noqa: B027
        """Make up for what rows, by default all, have missed, if this rule :attr:`drifts`."""


def _zeros_beside(table: Array) -> Array:
    # zeros_like would write them all; these pages come as they are touched.
    return np.zeros(table.shape, table.dtype, like=table)


def _check_rate(rule: Optimiser) -> None:
    check_above_zero(learning_rate=rule.learning_rate)


def _check_decay(name: str, value: float) -> None:
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{name} must be in [0, 1), got {value!r}")


@dataclass(frozen=True)
class SGD(Optimiser):
    """Stochastic gradient descent, w <- w - learning_rate m with m <- momentum m + slope.

    Parameters
    ----------
    learning_rate : float, default 0.1
    momentum : float, default 0.0
        Heavy ball, in [0, 1); a row's momentum stands still while no batch touches it.
    """

    learning_rate: float = 0.1
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self)
        _check_decay("momentum", self.momentum)

    def state(self, table: Array) -> State:
        """See :meth:`Optimiser.state`."""
        return {"momentum": _zeros_beside(table)} if self.momentum else {}

    def update(self, at: Touched) -> None:
        """See :meth:`Optimiser.update`."""
        slopes = at.slopes
        if self.momentum:
            slopes = self.momentum * at.state["momentum"][at.rows] + slopes
            at.state["momentum"][at.rows] = slopes
        at.table[at.rows] -= self.learning_rate * slopes


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

    def __post_init__(self) -> None:
        _check_rate(self)
        check_above_zero(epsilon=self.epsilon)

    def state(self, table: Array) -> State:
        """See :meth:`Optimiser.state`."""
        return {"squares": _zeros_beside(table)}

    def update(self, at: Touched) -> None:
        """See :meth:`Optimiser.update`."""
        squares = at.state["squares"][at.rows] + at.slopes**2
        at.state["squares"][at.rows] = squares
        at.table[at.rows] -= self.learning_rate * at.slopes / (np.sqrt(squares) + self.epsilon)


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

    def __post_init__(self) -> None:
        _check_rate(self)
        _check_decay("decay_1", self.decay_1)
        _check_decay("decay_2", self.decay_2)
        check_above_zero(epsilon=self.epsilon)

    def state(self, table: Array) -> State:
        """See :meth:`Optimiser.state`."""
        return {
            "means": _zeros_beside(table),
            "squares": _zeros_beside(table),
            "updates": np.zeros(len(table), dtype=np.int64, like=table),
        }

    def update(self, at: Touched) -> None:
        """See :meth:`Optimiser.update`."""
        rates = AdamRates(self.learning_rate, self.decay_1, self.decay_2, self.epsilon)
        averages = AdamAverages(**at.state)
        at.backend.adam(at.table, at.rows, at.slopes, averages, rates, at.n_threads)
