"""Langevin noise with shrinkage, applied lazily to rows that no batch touches."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays.checks import check_above_zero, check_at_least_zero, check_count
from mfrank.arrays.placement import Array, on_host
from mfrank.arrays.random import key_of
from mfrank.backends import Backend
from mfrank.descent.optimizers import Optimizer, State, Touched

__all__ = ["Langevin"]


@dataclass(frozen=True)
class Langevin(Optimizer):
    """SGLB (Ustimenko & Prokhorenkova 2021): gradient steps with shrinkage and Gaussian noise.

        w <- (1 - learning_rate shrinkage) w - learning_rate dL/dw + sqrt(2 learning_rate / T) e

    with e standard normal, for every weight at every step. With small steps the weights converge in
    distribution to the density exp(-T (L + shrinkage / 2 |w|^2)). If scores are linear in the
    weights, its peak is near the global minimum of L even if L has local minima. Dot products are
    linear in the factors of one side only, so for factors this holds while the other side is fixed.

    L is the mean loss of a batch. For the density of a sum over n users, multiply T by n.

    For a row that no batch touches, a step is only shrinkage and noise. Such steps are skipped;
    before the row's next update, one draw replaces the k steps that it missed:

        w <- r^k w + sqrt(2 learning_rate / T (1 - r^2k) / (1 - r^2)) e,  r = 1 - learning_rate
        shrinkage

    At a constant learning rate this has the same distribution as the k steps. Under a schedule, all
    missed steps use the learning rate of the moment when they are made up for.

    Until then the table contains the row as of its last update. An engine therefore calls
    :meth:`catch_up` for a batch's rows before it scores them, and for all rows before it returns
    the factors.

    Parameters
    ----------
    learning_rate : float, default 0.1
        > 0, with ``learning_rate * shrinkage`` < 1.
    shrinkage : float, default 0.001
        Shrinkage rate >= 0 (CatBoost's ``model_shrink_rate``).
    temperature : float, default 10000.0
        T > 0, an inverse temperature: the larger, the less noise (CatBoost's
        ``diffusion_temperature``). Without noise, this is SGD with weight decay.
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
            raise ValueError(
                "learning_rate * shrinkage must be below 1, or a step would remove the whole "
                f"weight; got {self.learning_rate} * {self.shrinkage}"
            )
        check_count("random_state", self.random_state, 0)

    def state(self, table: Array) -> State:
        """See :meth:`mfrank.descent.optimizers.Optimizer.state`.

        ``steps`` counts the steps so far, ``caught_up`` has the number of steps that each row has
        taken or made up for, and ``draws`` the table's checksum and its number of noise draws.
        """
        mark = zlib.crc32(on_host(table).tobytes())
        return {
            "steps": np.zeros(1, dtype=np.int64),
            "caught_up": np.zeros(len(table), dtype=np.int64, like=table),
            "draws": np.array([mark, 0], dtype=np.int64),
        }

    def update(self, at: Touched) -> None:
        """See :meth:`mfrank.descent.optimizers.Optimizer.update`; rows catch up first."""
        self.catch_up(at.table, at.state, at.rows, at.backend)
        kept = 1 - self.learning_rate * self.shrinkage
        noise = self._drawn(at.gradients.shape, at.state, at.table, at.backend)
        step = np.sqrt(2 * self.learning_rate / self.temperature) * noise
        at.table[at.rows] = kept * at.table[at.rows] - self.learning_rate * at.gradients + step
        at.state["steps"] += 1
        at.state["caught_up"][at.rows] = at.state["steps"][0]

    def catch_up(self, table: Array, state: State, rows: Array, backend: Backend) -> None:
        """Replace the steps that rows have missed by one draw from the same distribution."""
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
        mark, draws = (int(number) for number in state["draws"])
        state["draws"][1] += 1
        key = key_of(self.random_state, mark, draws)
        return backend.list_sums().normals(key, shape, beside)
