"""First-order optimizers that update only the rows of a table that a batch touched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from mfrank.arrays.checks import check_above_zero, is_number, shown
from mfrank.arrays.placement import Array
from mfrank.backends import Backend
from mfrank.backends.adam import AdamAverages, AdamRates

__all__ = ["SGD", "Adagrad", "Adam", "Optimizer", "State", "Touched"]

State = dict[str, Array]


class Touched(NamedTuple):
    """What an update reads and writes.

    Attributes
    ----------
    table : shape (n, K)
        Updated in place.
    rows : int64, shape (R,)
        Rows to update, each once.
    gradients : shape (R, K)
        Gradients of the loss by these rows.
    state : dict of arrays
        The optimizer's state of the table, updated in place.
    """

    table: Array
    rows: Array
    gradients: Array
    state: State
    backend: Backend
    n_threads: int = 0


class Optimizer(ABC):
    """An update rule. A subclass is a frozen dataclass of its options.

    Attributes
    ----------
    learning_rate : float
    drifts : bool
        Whether the rule also changes rows that no batch touches. It then skips their steps, and
        :meth:`catch_up` makes up for these before the rows are read.
    """

    learning_rate: float
    drifts: ClassVar[bool] = False

    @abstractmethod
    def state(self, table: Array) -> State:
        """Return the initial state, arrays by name, for a table (n, K)."""

    @abstractmethod
    def update(self, at: Touched) -> None:
        """Take a step down the gradients in the given rows only."""

    def catch_up(  # noqa: B027
        self, table: Array, state: State, rows: Array, backend: Backend
    ) -> None:
        """Apply the steps that rows have missed; does nothing unless the rule :attr:`drifts`."""


def _zeros_beside(table: Array) -> Array:
    # Unlike zeros_like, zeros leaves memory pages unwritten until a row of theirs is touched.
    return np.zeros(table.shape, table.dtype, like=table)


def _check_rate(rule: Optimizer) -> None:
    check_above_zero(learning_rate=rule.learning_rate)


def _check_decay(name: str, value: float) -> None:
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{name} must be in [0, 1), got {shown(value)}")


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: m <- momentum m + gradient, w <- w - learning_rate m.

    Parameters
    ----------
    learning_rate : float, default 0.1
        > 0.
    momentum : float, default 0.0
        Heavy-ball momentum, in [0, 1). A row's m does not change while no batch touches the row.
    """

    learning_rate: float = 0.1
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_rate(self)
        _check_decay("momentum", self.momentum)

    def state(self, table: Array) -> State:
        """See :meth:`Optimizer.state`."""
        return {"momentum": _zeros_beside(table)} if self.momentum else {}

    def update(self, at: Touched) -> None:
        """See :meth:`Optimizer.update`."""
        gradients = at.gradients
        if self.momentum:
            gradients = self.momentum * at.state["momentum"][at.rows] + gradients
            at.state["momentum"][at.rows] = gradients
        at.table[at.rows] -= self.learning_rate * gradients


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011): divides gradients by the root of the sum of their squares.

    Parameters
    ----------
    learning_rate : float, default 0.05
        > 0.
    epsilon : float, default 1e-10
        > 0, added to the root.
    """

    learning_rate: float = 0.05
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        _check_rate(self)
        check_above_zero(epsilon=self.epsilon)

    def state(self, table: Array) -> State:
        """See :meth:`Optimizer.state`."""
        return {"squares": _zeros_beside(table)}

    def update(self, at: Touched) -> None:
        """See :meth:`Optimizer.update`."""
        squares = at.state["squares"][at.rows] + at.gradients**2
        at.state["squares"][at.rows] = squares
        at.table[at.rows] -= self.learning_rate * at.gradients / (np.sqrt(squares) + self.epsilon)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Lazy Adam (Kingma & Ba 2015): a row's averages change only when a batch touches the row.

    The bias correction counts the row's own updates.

    Parameters
    ----------
    learning_rate : float, default 0.001
        > 0.
    decay_1, decay_2 : float, default 0.9, 0.999
        Decay rates of the averages of the gradients and of their squares, in [0, 1).
    epsilon : float, default 1e-8
        > 0, added to the root.
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
        """See :meth:`Optimizer.state`."""
        return {
            "means": _zeros_beside(table),
            "squares": _zeros_beside(table),
            "updates": np.zeros(len(table), dtype=np.int64, like=table),
        }

    def update(self, at: Touched) -> None:
        """See :meth:`Optimizer.update`."""
        rates = AdamRates(self.learning_rate, self.decay_1, self.decay_2, self.epsilon)
        averages = AdamAverages(**at.state)
        at.backend.adam(at.table, at.rows, at.gradients, averages, rates, at.n_threads)
