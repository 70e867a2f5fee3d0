"""Langevin noise with shrinkage, lazy on rows that no batch touches."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero, check_at_least_zero, check_count
from mfrank.arrays import on_host
from mfrank.lists import Array
from mfrank.optimisers import Optimiser, State, Touched
from mfrank.streams import key_of, random_normals

__all__ = ["Langevin"]


@dataclass(frozen=True)
class Langevin(Optimiser):
    """SGLB (Ustimenko & Prokhorenkova 2021): gradient steps that shrink and shake the weights.

        w <- (1 - learning_rate shrinkage) w - learning_rate slope + sqrt(2 learning_rate / T) e

    with e standard normal, for every weight at every step. Small steps draw, in the long run, from
    the density exp(-T (L + shrinkage / 2 |w|^2)): with scores linear in the weights its peak is
    near the global minimum of L, however many local ones there are. Factors of users and items are
    not linear in each other, so there this holds for one side while the other stands still.

    L is what the slopes are those of, a mean over the batch: to keep the density of a sum over n
    users, T is to be n times as large.

    Rows that a batch does not touch would only shrink and shake. They are left alone, and settled
    when they are next updated, by one draw that has the same law as all the steps they missed:

        w <- r^k w + sqrt(2 learning_rate / T (1 - r^2k) / (1 - r^2)) e,  r = 1 - learning_rate
        shrinkage

    What reads rows in between reads them as they were last settled: an engine whose slopes should
    be taken where the weights are calls :meth:`settle` for a batch's rows before it scores them,
    and for all rows before factors are shown or kept.

    Parameters
    ----------
    learning_rate : float, default 0.1
        > 0, with ``learning_rate * shrinkage`` < 1.
    shrinkage : float, default 0.001
        gamma >= 0 (CatBoost's ``model_shrink_rate``).
    temperature : float, default 10000.0
        T > 0, an inverse temperature: the larger, the less noise (CatBoost's
        ``diffusion_temperature``). Without any, this is SGD with weight decay.
    random_state : int, default 0
        Seed of the noise. Tables draw apart: a number made from the table a fit begins with goes
        into the seed.
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
                "learning_rate * shrinkage must be below 1, or a step takes more than the whole "
                f"weight; got {self.learning_rate} * {self.shrinkage}"
            )
        check_count("random_state", self.random_state, 0)

    def state(self, table: Array) -> State:
        """Steps so far, the step to which each row is settled, and where the noise stands."""
        mark = zlib.crc32(on_host(table).tobytes())
        return {
            "steps": np.zeros(1, dtype=np.int64),
            "settled": np.zeros(len(table), dtype=np.int64, like=table),
            "draws": np.array([mark, 0], dtype=np.int64),
        }

    def update(self, at: Touched) -> None:
        """See :meth:`mfrank.optimisers.Optimiser.update`; rows are settled first."""
        self.settle(at.table, at.state, at.rows)
        kept = 1 - self.learning_rate * self.shrinkage
        noise = self._drawn(at.slopes.shape, at.state, at.table)
        step = np.sqrt(2 * self.learning_rate / self.temperature) * noise
        at.table[at.rows] = kept * at.table[at.rows] - self.learning_rate * at.slopes + step
        at.state["steps"] += 1
        at.state["settled"][at.rows] = at.state["steps"][0]

    def settle(self, table: Array, state: State, rows: Array | None = None) -> None:
        """Make up for the steps that rows, by default all, have missed; exact in law."""
        if rows is None:
            rows = np.arange(len(table), like=table)
        missed = state["steps"][0] - state["settled"][rows]
        behind, missed = rows[missed > 0], missed[missed > 0]
        if not len(behind):
            return
        loss = self.learning_rate * self.shrinkage
        missed = missed.reshape(-1, *[1] * (table.ndim - 1))
        # log1p and expm1: 1 - r^2k would be all rounding where learning_rate shrinkage is small.
        faded = np.exp(missed * np.log1p(-loss))
        steps = np.expm1(2 * missed * np.log1p(-loss)) / (loss * (loss - 2)) if loss else missed
        spread = np.sqrt(2 * self.learning_rate / self.temperature * steps)
        noise = self._drawn((len(behind), *table.shape[1:]), state, table)
        table[behind] = faded * table[behind] + spread * noise
        state["settled"][behind] = state["steps"][0]

    def _drawn(self, shape: tuple[int, ...], state: State, beside: Array) -> Array:
        """Standard normal numbers that no other call of any table gets."""
        mark, draws = (int(number) for number in state["draws"])
        state["draws"][1] += 1
        return random_normals(key_of(self.random_state, mark, draws), shape, beside)
