"""Time and memory of an ALS fit, estimated before it begins."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isinf
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mfrank.als import epoch_seconds
from mfrank.arrays import counted, sized
from mfrank.backends import choose
from mfrank.backends.sharded import Sharded
from mfrank.cluster import Cluster, connected
from mfrank.data import Interactions
from mfrank.models.als import ALS
from mfrank.models.als_setup import MATRICES, set_up, solve_options, tables_of_fit
from mfrank.models.cost import bytes_of_fit
from mfrank.store import is_mapped


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Estimates for a fit on this machine's processor.

    Attributes
    ----------
    epoch : float
        Seconds of an epoch, accurate within a factor of a few.
    factors, held : int
        Bytes of the model's factors; and of all tables, vectors, matrices and features of a fit at
        its peak.
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
    def of(
        cls,
        model: ALS,
        user_items: Any,
        *,
        user_features: Any = None,
        item_features: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        cluster: Cluster | None = None,
        has_best: bool = False,
    ) -> Self:
        """Estimate the fit of a model with these arguments; ``has_best``: with early stopping.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`mfrank.ALS.fit`.
        """
        given = {"user_features": user_features, "item_features": item_features}
        setup = set_up(model, user_items, checkpoint=checkpoint, cluster=cluster, features=given)
        data, features, options = setup.data, setup.features, setup.options
        width, size = int(model.factors), np.dtype(model.dtype).itemsize
        users, items = data.n_users, data.n_items
        factors = (users + items) * width * size
        tables = tables_of_fit(model, data, features, has_best=has_best)
        held = bytes_of_fit(users + items, width, model.dtype, tables=tables, matrices=MATRICES)
        return cls(
            epoch_seconds(data.counts, width, options),
            factors,
            held + sum(map(_size, (features.users, features.items))),
            _size(data.user_items) + _size(data.item_users),
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


def _size(rows: sp.csr_array | None) -> int:
    return 0 if rows is None else sum(a.nbytes for a in (rows.indptr, rows.indices, rows.data))


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
