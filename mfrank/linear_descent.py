"""Stochastic descent of a linear scorer under any ranking loss.

A document scores x . w: it is an item whose factors x are given and stay, for a single user w. So
slopes g of the loss in the scores become X' g.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import choose
from mfrank.lists import Array
from mfrank.optimisers import Optimiser, State, Touched
from mfrank.query_lists import Listed, QueryLists
from mfrank.steps import Step
from mfrank.trainers import Loss, Memory, Sizes

__all__ = ["descend_linear"]

_ONLY_ROW = np.zeros(1, dtype=np.int64)


def descend_linear(
    features: NDArray[np.float64],
    queries: QueryLists,
    loss: Loss,
    weights: NDArray[np.float64],
    rule: Optimiser,
    *,
    iterations: int,
    batch_size: int,
    decay: float,
    random: np.random.Generator,
) -> Iterator[Step]:
    """Descend from the weights, in place; yield after every epoch.

    An epoch visits each query that has something relevant once, in an order of its own. A step's
    user factors are a copy of the weights, its item factors the features.

    Parameters
    ----------
    features : shape (n_documents, n_features)
    queries : QueryLists
    loss : Loss
    weights : shape (1, n_features), written to
    rule : Optimiser
    iterations, batch_size : int
        Epochs; queries of a batch, over whose losses is averaged.
    decay : float
        Weight decay, added to the slopes.

    Raises
    ------
    FloatingPointError
        Loss or weights are not finite any more.
    """
    sizes = Sizes(queries.n_cells, queries.n_queries, len(features))
    memory, state = loss.memory(sizes), rule.state(weights)
    for epoch in range(1, iterations + 1):
        began = perf_counter()
        total = 0.0
        order = random.permutation(queries.active)
        for begin in range(0, len(order), batch_size):
            listed = queries.of(order[begin : begin + batch_size])
            with np.errstate(over="ignore", invalid="ignore"):  # told below, with the remedy
                value, slopes = _slopes(features[listed.documents], listed, loss, weights, memory)
                _move(weights, slopes, decay, rule, state)
                # Weights whose squares overflow are no scores' either, if features are large.
                total, length = total + value, float((weights**2).sum())
            if not np.isfinite([total, length]).all():
                raise FloatingPointError(
                    f"the fit diverges in epoch {epoch}: the learning rate "
                    f"{rule.learning_rate:g} is too large for it; a tenth of it may do"
                )
        seconds = perf_counter() - began
        yield Step(epoch, seconds, total / len(order), weights.copy(), features)


def _slopes(
    rows: Array, listed: Listed, loss: Loss, weights: Array, memory: Memory
) -> tuple[float, Array]:
    """Sum of the queries' losses, and the slopes of their mean by the weights, (1, n_features)."""
    found = loss.slopes(listed.lists, *listed.spread(rows @ weights[0]), memory)
    by_document = listed.gather(found.likes, found.others)
    slopes: Array = by_document @ rows / len(found.loss)
    return float(found.loss.sum()), slopes[None]


def _move(weights: Array, slopes: Array, decay: float, rule: Optimiser, state: State) -> None:
    rule.update(Touched(weights, _ONLY_ROW, slopes + decay * weights, state, choose()))
