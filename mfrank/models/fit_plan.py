"""What a fit of ALS will take, told before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mfrank.als.cost import epoch_seconds, tables_at_once
from mfrank.arrays.counted import counted, sized
from mfrank.backends.solve_options import SolveOptions
from mfrank.data.interactions import Interactions
from mfrank.models.als import ALS

__all__ = ["FitPlan"]


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Estimates for a fit on this machine's processor.

    Attributes
    ----------
    epoch : float
        Seconds of an epoch, right within a factor of a few.
    factors, held : int
        Bytes of the model's factors, and of all tables and vectors that a fit holds at once.
    data : int
        Bytes of the interactions, by users and by items.
    state : int
        Bytes of a checkpoint.
    """

    epoch: float
    factors: int
    held: int
    data: int
    state: int

    @classmethod
    def of(cls, model: ALS, data: Interactions) -> Self:
        """Estimate the fit of a model to interactions."""
        width, size = int(model.factors), np.dtype(model.dtype).itemsize
        users, items = data.n_users, data.n_items
        factors = (users + items) * width * size
        rows = data.user_items, data.item_users
        arrays = [array for each in rows for array in (each.indptr, each.indices, each.data)]
        options = SolveOptions(
            model.solver, int(model.cg_steps), model.cg_tolerance, model.n_threads
        )
        return cls(
            epoch_seconds(data.counts, width, options),
            factors,
            int(factors * tables_at_once(users, items, width * size)),
            sum(array.nbytes for array in arrays),
            factors + items * width * size // 2,
        )

    def told(self, epochs: int) -> str:
        """What it takes, in lines of text."""
        return (
            f"memory: about {sized(self.held)} for factors, {sized(self.data)} for "
            "interactions (of a folder of mfrank ingest, less: they are mapped)\n"
            f"disk: {sized(self.factors)} for the model, with a checkpoint "
            f"{sized(self.state)} more\n"
            f"time: about {self.epoch:.2g} seconds an epoch, {self.epoch * epochs:.2g} for "
            f"{counted(epochs, 'epoch')}, within a factor of a few"
        )
