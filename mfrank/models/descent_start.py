"""The start of a descent: positives, initial factors and biases; whether it can be divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from mfrank.als import first_biases, first_factors, random_factors, spectral_factors
from mfrank.arrays import CSR
from mfrank.backends import Backend, Factors
from mfrank.data import Interactions
from mfrank.descent import SCORINGS, FactorRows, FactorTables, Optimizer
from mfrank.errors import InputValueError
from mfrank.losses import Loss, Scores, Sizes
from mfrank.models.factor_model import refuse_no_likes
from mfrank.models.options import check_no_dislikes
from mfrank.store import FactorStore


def positives_of(data: Interactions, dtype: DTypeLike) -> CSR:
    """Every user's positives, as a CSR without values; ValueError for dislikes or no positives."""
    check_no_dislikes("user_items", data.user_items.data)
    refuse_no_likes(data)
    return data.user_rows(dtype).pattern()


@dataclass(frozen=True, slots=True)
class FirstTables:
    """Initialization of a fit's tables; see the parameters of :class:`mfrank.Descent`."""

    factors: int
    dtype: DTypeLike
    init: Literal["spectral", "random"]
    scores: Scores
    temperature: float
    item_biases: bool
    n_threads: int

    def of(
        self,
        data: Interactions,
        start: FactorStore | None,
        random: np.random.Generator,
        backend: Backend,
    ) -> FactorTables:
        """Initial factors and biases, on the backend's device."""
        scoring = SCORINGS[self.scores]
        users, items = self._factors(data, start, random, backend)
        for table in (users, items):
            scoring.project_rows(FactorRows(table, np.arange(len(table)), backend, self.n_threads))
        biases: Any = None
        if self.item_biases:
            untrained = scoring.stored(items, np.zeros(len(items), items.dtype))
            stored = first_biases(data, start, untrained)
            biases = scoring.trained(items, stored)[:, None] / self.temperature
            biases = backend.place(biases)
        users, items = map(backend.place, (users, items))
        return FactorTables(
            users, items, biases, backend, scoring, self.temperature, self.n_threads
        )

    def _factors(
        self,
        data: Interactions,
        start: FactorStore | None,
        random: np.random.Generator,
        backend: Backend,
    ) -> tuple[Factors, Factors]:
        width, dtype, n_threads = self.factors, self.dtype, self.n_threads
        if start is not None:
            return first_factors(data, width, dtype, random, start, backend, n_threads)
        if self.init == "spectral":
            rows = data.user_rows(dtype), data.item_rows(dtype)
            return spectral_factors(*rows, width, random, dtype, backend, n_threads)
        users, items = (
            random_factors((n, width), random, dtype) for n in (data.n_users, data.n_items)
        )
        users[data.counts.users == 0] = 0  # nothing is known of them
        return users, items


# Whether a descent can be divided into tasks.


_ROWS = 3


def check_rotates(loss: Loss, optimizer: Optimizer) -> None:
    """Raise ValueError unless users and items can be trained in blocks.

    In blocks, a list has items of only a part of the catalog, and a task has only some table rows.
    """
    name = type(loss).__name__
    if not loss.decomposes:
        raise InputValueError(
            f"`cluster` cannot fit {name}, which needs lists of the whole catalog, and workers "
            "have a part of the items each",
            "use BPR, BCE or SampledSoftmax, or leave `cluster` out",
        )
    if loss.memory(Sizes(1, 1, 1)):
        raise InputValueError(
            f"`cluster` cannot fit {name}, which keeps a memory between batches, and workers take "
            "turns",
            "leave `cluster` out",
        )
    state = optimizer.state(np.zeros((_ROWS, 2)))
    if optimizer.drifts or any(array.shape[:1] != (_ROWS,) for array in state.values()):
        raise InputValueError(
            f"`cluster` cannot use {type(optimizer).__name__}, which keeps more than a state of "
            "each row, and workers have some rows each",
            "use Adam, Adagrad or SGD, or leave `cluster` out",
        )
