"""Optimizers that update only the rows of a table that a batch touched, and their schedules."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from mfrank.arrays import (
    Array,
    check_above_zero,
    check_at_least_zero,
    check_count,
    is_number,
    key_of,
    on_host,
    shown,
)
from mfrank.backends import AdamAverages, AdamRates, Backend
from mfrank.errors import InputTypeError, InputValueError

State = dict[str, Array]


class Touched(NamedTuple):
    """The arrays of an update.

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
        Whether the rule also changes rows outside a batch. Their steps are skipped, and
        :meth:`catch_up` applies these before the rows are read.
    """

    learning_rate: float
    drifts: ClassVar[bool] = False

    @abstractmethod
    def state(self, table: Array) -> State:
        """Return the initial state, arrays by name, for a table (n, K)."""

    @abstractmethod
    def update(self, at: Touched) -> None:
        """Take a gradient step in these rows only."""

    def catch_up(  # noqa: B027
        self, table: Array, state: State, rows: Array, backend: Backend
    ) -> None:
        """Apply the missed steps of rows; does nothing unless the rule :attr:`drifts`."""


def _zeros_beside(table: Array) -> Array:
    # Unlike zeros_like, zeros does not write a memory page before one of its rows is touched.
    return np.zeros(table.shape, table.dtype, like=table)


def _check_rate(rule: Optimizer) -> None:
    check_above_zero(learning_rate=rule.learning_rate)


def _check_decay(name: str, value: float) -> None:
    if not is_number(value) or not 0 <= value < 1:
        raise InputValueError(f"`{name}` must be in [0, 1), got {shown(value)}")


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: m <- momentum m + gradient, w <- w - learning_rate m.

    Parameters
    ----------
    learning_rate : float, default 0.1
        > 0.
    momentum : float, default 0.0
        Heavy-ball momentum, in [0, 1). A row's m changes only when a batch touches the row.
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


# Learning-rate schedules, as multipliers of the optimizer's learning rate.


class Schedule(ABC):
    """A learning-rate schedule. A subclass is a frozen dataclass of its options."""

    @abstractmethod
    def multiplier(self, progress: float) -> float:
        """Return the learning-rate multiplier at a fraction of the fit, in [0, 1)."""


@dataclass(frozen=True)
class Constant(Schedule):
    """A constant learning rate."""

    def multiplier(self, progress: float) -> float:
        """See :meth:`Schedule.multiplier`."""
        return 1.0


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Multiply the learning rate by ``factor`` at some points of the fit.

    Parameters
    ----------
    at : tuple of float, default (0.5,)
        Points, as fractions of the fit, in (0, 1). Default from the SONG paper: after half of the
        epochs.
    factor : float, default 0.25
        > 0. Default from the SONG paper.
    """

    at: tuple[float, ...] = (0.5,)
    factor: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.at, list | tuple):
            raise InputTypeError(
                "`at` must be a tuple of fractions of the fit, such as (0.5,); got "
                f"{shown(self.at)}"
            )
        if not all(is_number(point) and 0 < point < 1 for point in self.at):
            raise InputValueError(
                f"`at` must be fractions of the fit, in (0, 1); got {shown(self.at)}"
            )
        check_above_zero(factor=self.factor)
        object.__setattr__(self, "at", tuple(self.at))

    def multiplier(self, progress: float) -> float:
        """See :meth:`Schedule.multiplier`."""
        return float(self.factor ** sum(progress >= point for point in self.at))


@dataclass(frozen=True)
class CosineDecay(Schedule):
    """Half a cosine from 1 down to ``last`` (Loshchilov & Hutter 2017, without restarts).

    Parameters
    ----------
    last : float, default 0.0
        Multiplier at the end of the fit, >= 0.
    """

    last: float = 0.0

    def __post_init__(self) -> None:
        check_at_least_zero(last=self.last)

    def multiplier(self, progress: float) -> float:
        """See :meth:`Schedule.multiplier`."""
        return self.last + (1 - self.last) * (1 + math.cos(math.pi * progress)) / 2


# Langevin noise with shrinkage, applied lazily to rows that no batch touches.


@dataclass(frozen=True)
class Langevin(Optimizer):
    """SGLB (Ustimenko & Prokhorenkova 2021): gradient steps with shrinkage and Gaussian noise.

        w <- (1 - learning_rate shrinkage) w - learning_rate dL/dw + sqrt(2 learning_rate / T) e

    with e standard normal, for every weight at every step. With small steps, the weights converge
    in distribution to the density exp(-T (L + shrinkage / 2 |w|^2)). If scores are linear in the
    weights, its peak is near the global minimum of L, even if L has local minima. Dot products are
    linear in the factors of one side, so this holds for factors while the other side is fixed.

    L is the mean loss of a batch. For the density of a sum over n users, multiply T by n.

    For a row outside the batch, a step is only shrinkage and noise. Such steps are skipped; before
    the row's next update, one draw replaces the k missed steps:

        w <- r^k w + sqrt(2 learning_rate / T (1 - r^2k) / (1 - r^2)) e,  r = 1 - learning_rate
        shrinkage

    At a constant learning rate, this has the same distribution as the k steps. Under a schedule,
    all missed steps use the current learning rate.

    Until then, the table has the row of its last update. The engine therefore calls
    :meth:`catch_up` for a batch's rows before scoring them, and for all rows before returning the
    factors.

    Parameters
    ----------
    learning_rate : float, default 0.1
        > 0, with ``learning_rate * shrinkage`` < 1.
    shrinkage : float, default 0.001
        Shrinkage rate >= 0 (CatBoost's ``model_shrink_rate``).
    temperature : float, default 10000.0
        T > 0, an inverse temperature: larger is less noise (CatBoost's ``diffusion_temperature``).
        Without noise, this is SGD with weight decay.
    random_state : int, default 0
        Seed of the noise, >= 0. It is combined with a checksum of each table's initial values, so
        that tables get independent noise.
    """

    drifts: ClassVar[bool] = True

    learning_rate: float = 0.1
    shrinkage: float = 1e-3
    temperature: float = 1e4
    random_state: int = 0

    def __post_init__(self) -> None:
        check_above_zero(learning_rate=self.learning_rate, temperature=self.temperature)
        check_at_least_zero(shrinkage=self.shrinkage)
        if not self.learning_rate * self.shrinkage < 1:
            raise InputValueError(
                "`learning_rate` * `shrinkage` must be below 1, or a step would remove the whole "
                f"weight; got {self.learning_rate} * {self.shrinkage}"
            )
        check_count("random_state", self.random_state, 0)

    def state(self, table: Array) -> State:
        """See :meth:`mfrank.descent.optimizers.Optimizer.state`.

        ``steps`` is the number of steps so far, ``caught_up`` the number of steps applied to each
        row, and ``draws`` the table's checksum and its number of noise draws.
        """
        checksum = zlib.crc32(on_host(table).tobytes())
        return {
            "steps": np.zeros(1, dtype=np.int64),
            "caught_up": np.zeros(len(table), dtype=np.int64, like=table),
            "draws": np.array([checksum, 0], dtype=np.int64),
        }

    def update(self, at: Touched) -> None:
        """See :meth:`mfrank.descent.optimizers.Optimizer.update`; rows catch up first."""
        self.catch_up(at.table, at.state, at.rows, at.backend)
        shrunk = 1 - self.learning_rate * self.shrinkage
        noise = self._drawn(at.gradients.shape, at.state, at.table, at.backend)
        step = np.sqrt(2 * self.learning_rate / self.temperature) * noise
        at.table[at.rows] = shrunk * at.table[at.rows] - self.learning_rate * at.gradients + step
        at.state["steps"] += 1
        at.state["caught_up"][at.rows] = at.state["steps"][0]

    def catch_up(self, table: Array, state: State, rows: Array, backend: Backend) -> None:
        """Replace the missed steps of rows by one draw from the same distribution."""
        missed = state["steps"][0] - state["caught_up"][rows]
        behind, missed = rows[missed > 0], missed[missed > 0]
        if not len(behind):
            return
        loss = self.learning_rate * self.shrinkage
        missed = missed.reshape(-1, *[1] * (table.ndim - 1))
        # 1 - r^2k would cancel to rounding error for small learning_rate * shrinkage.
        faded = np.exp(missed * np.log1p(-loss))
        steps = np.expm1(2 * missed * np.log1p(-loss)) / (loss * (loss - 2)) if loss else missed
        spread = np.sqrt(2 * self.learning_rate / self.temperature * steps)
        noise = self._drawn((len(behind), *table.shape[1:]), state, table, backend)
        table[behind] = faded * table[behind] + spread * noise
        state["caught_up"][behind] = state["steps"][0]

    def _drawn(
        self, shape: tuple[int, ...], state: State, beside: Array, backend: Backend
    ) -> Array:
        """Draw standard normal numbers, independent of those of all other calls and tables."""
        checksum, draws = (int(number) for number in state["draws"])
        state["draws"][1] += 1
        key = key_of(self.random_state, checksum, draws)
        return backend.list_sums().normals(key, shape, beside)
