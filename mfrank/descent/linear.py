"""Stochastic gradient descent of a linear scorer under any ranking loss.

A document with features x has the score x . w, so gradients g by the scores give X' g by the
weights. In the terms of factorization, documents are items with fixed factors x, and w is the only
user.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import Array
from mfrank.backends import choose
from mfrank.descent.judged_lists import Listed, QueryLists
from mfrank.descent.optimizers import Optimizer, Touched
from mfrank.losses import Loss, Memory, Sizes
from mfrank.store.step import Step

__all__ = ["descend_linear"]

_ONLY_ROW = np.zeros(1, dtype=np.int64)


def descend_linear(
    features: NDArray[np.float64],
    queries: QueryLists,
    loss: Loss,
    weights: NDArray[np.float64],
    rule: Optimizer,
    *,
    iterations: int,
    batch_size: int,
    decay: float,
    random: np.random.Generator,
) -> Iterator[Step]:
    """Run gradient descent on the weights in place; yield after every epoch.

    An epoch visits each query with a relevant document once, in a new random order. The user
    factors of a yielded step are a copy of the weights, its item factors are ``features`` itself.

    Parameters
    ----------
    features : shape (n_documents, n_features)
    queries : QueryLists
    loss : Loss
    weights : shape (1, n_features)
        Initial weights, updated in place.
    rule : Optimizer
    iterations : int
        Epochs.
    batch_size : int
        Queries per batch; gradients are those of the mean of their losses.
    decay : float
        Weight decay: this times the weights is added to the gradients.
    random : numpy.random.Generator
        Draws the order of the queries.

    Raises
    ------
    FloatingPointError
        The loss or the weights are no longer finite: the learning rate is too large.
    """
    sizes = Sizes(queries.n_cells, queries.n_queries, len(features))
    memory, state, backend = loss.memory(sizes), rule.state(weights), choose()
    sums = backend.list_sums()
    for epoch in range(1, iterations + 1):
        began = perf_counter()
        total = 0.0
        order = random.permutation(queries.active)
        for begin in range(0, len(order), batch_size):
            listed = queries.of(order[begin : begin + batch_size], sums)
            with np.errstate(over="ignore", invalid="ignore"):  # the check below raises
                value, gradients = _gradients(
                    features[listed.documents], listed, loss, weights, memory
                )
                rule.update(
                    Touched(weights, _ONLY_ROW, gradients + decay * weights, state, backend)
                )
                # The square also catches weights so large that scores would overflow soon.
                total, length = total + value, float((weights**2).sum())
            if not np.isfinite([total, length]).all():
                raise FloatingPointError(
                    f"the fit diverged in epoch {epoch}: the learning rate "
                    f"{rule.learning_rate:g} is too large; try a tenth of it"
                )
        seconds = perf_counter() - began
        yield Step(epoch, seconds, total / len(order), weights.copy(), features)


def _gradients(
    rows: Array, listed: Listed, loss: Loss, weights: Array, memory: Memory
) -> tuple[float, Array]:
    """Return the sum of the losses, and the gradient of their mean, shape (1, n_features)."""
    found = loss.gradients(listed.lists, *listed.spread(rows @ weights[0]), memory)
    by_document = listed.gather(found.positives, found.negatives)
    gradients: Array = by_document @ rows / len(found.loss)
    return float(found.loss.sum()), gradients[None]
