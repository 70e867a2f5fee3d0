"""Time and memory of an ALS fit, estimated before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import Self

import numpy as np

from mfrank.als import epoch_seconds, tables_at_once
from mfrank.arrays import counted, sized
from mfrank.backends import choose
from mfrank.backends.sharded import Sharded
from mfrank.cluster import Cluster, connected
from mfrank.data import Interactions
from mfrank.models.als import ALS
from mfrank.models.als_setup import solve_options
from mfrank.store import is_mapped


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Estimates for a fit on this machine's processor.

    Attributes
    ----------
    epoch : float
        Seconds of an epoch, accurate within a factor of a few.
    factors, held : int
        Bytes of the model's factors, and of all tables and vectors of a fit at its peak.
    data : int
        Bytes of the interactions, by users and by items.
    mapped : bool
        Whether the interactions are memory-mapped from a folder.
    state : int
        Bytes of a checkpoint.
    """

    epoch: float
    factors: int
    held: int
    data: int
    mapped: bool
    state: int

    @classmethod
    def of(cls, model: ALS, data: Interactions) -> Self:
        """Estimate the fit of a model to interactions."""
        width, size = int(model.factors), np.dtype(model.dtype).itemsize
        users, items = data.n_users, data.n_items
        factors = (users + items) * width * size
        rows = data.user_items, data.item_users
        arrays = [array for each in rows for array in (each.indptr, each.indices, each.data)]
        return cls(
            epoch_seconds(data.counts, width, solve_options(model)),
            factors,
            int(factors * tables_at_once(users, items, width * size)),
            sum(array.nbytes for array in arrays),
            is_mapped(data.user_items.indices),
            factors + items * width * size // 2,
        )

    def told(self, epochs: int) -> str:
        """The estimates as lines of text."""
        interactions = (
            f"; {sized(self.data)} of interactions are mapped from their folder"
            if self.mapped
            else f", {sized(self.data)} for interactions"
        )
        return (
            f"memory: about {sized(self.held)} for factors{interactions}\n"
            f"disk: {sized(self.factors)} for the model, with a checkpoint "
            f"{sized(self.state)} more\n"
            f"time: about {self.epoch:.2g} seconds an epoch, {self.epoch * epochs:.2g} for "
            f"{counted(epochs, 'epoch')}, within a factor of a few"
        )


def told_of_cluster(model: ALS, data: Interactions, cluster: Cluster) -> str:
    """Cost of an epoch on a checked cluster, as text; asks the cluster for its workers.

    Raises
    ------
    ConnectionError, ValueError
        As in a fit on the cluster.
    """
    options, dtype = solve_options(model), np.dtype(model.dtype)
    with connected(cluster) as engine:
        there = Sharded(choose(model.backend), model.backend, engine)
        halves = [
            there.shipped(rows, int(model.factors), dtype, options)
            for rows in (data.user_rows(dtype), data.item_rows(dtype))
        ]
        task = max(half.task for half in halves)
        free = "" if isinf(there.free) else f", of {sized(int(there.free))} that are free"
        few = "; that is too little: take fewer workers, or fewer factors" * (task > there.free)
        return (
            f"cluster: {counted(there.n_workers, 'worker')}; an epoch is "
            f"{counted(sum(half.tasks for half in halves), 'task')}, for which this process sends "
            f"{sized(sum(half.sent for half in halves))} and gets "
            f"{sized(sum(half.back for half in halves))}\n"
            f"memory of a worker: about {sized(task)}{free}{few}"
        )
