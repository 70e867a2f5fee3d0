"""Stochastic descent of a linear scorer of judged documents under any ranking loss.

A document with features x has the score x . w, so gradients g by the scores become X' g by the
weights. In terms of factorization, documents are items with fixed factors x, and w is the only
user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Array
from mfrank.backends import choose
from mfrank.descent.optimizers import Optimizer, Touched
from mfrank.losses import Lists, ListSums, Loss, Memory, Sizes
from mfrank.store import Step

# Lists of judged documents for ranking losses: all documents of a query, with graded gains.


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QueryBatch:
    """Lists of B queries.

    Attributes
    ----------
    lists : Lists
    documents : int64, shape (n,)
        Documents at the filled places: the positives of all lists, list by list, then the
        negatives.
    """

    lists: Lists
    documents: Ints

    def spread(self, values: Floats) -> tuple[Floats, Floats]:
        """Arrange one value per document (n,) as (B, L) and (B, M), padded with 0."""
        positives = np.zeros(self.lists.gains.shape)
        negatives = np.zeros(self.lists.negatives.shape)
        n_positives = np.count_nonzero(self.lists.positives)
        positives[self.lists.positives] = values[:n_positives]
        negatives[self.lists.negatives] = values[n_positives:]
        return positives, negatives

    def gather(self, positives: Floats, negatives: Floats) -> Floats:
        """Return one value per document (n,); the inverse of :meth:`spread`."""
        return np.concatenate([positives[self.lists.positives], negatives[self.lists.negatives]])


class QueryLists:
    """Lists of all documents of a query: relevant documents are the positives.

    Their gain is 2^relevance - 1.

    Parameters
    ----------
    relevance : float64, shape (n_documents,)
        >= 0; documents above 0 are relevant.
    queries : int64, shape (n_documents,)
        Row of each document's query, from 0 to n_queries - 1.
    n_queries : int
    cutoff : int, optional
        Number of places that count in the ideal DCG; default all.

    Attributes
    ----------
    active : int64
        Queries with at least one relevant document; only these can be drawn.
    n_cells : int
        Number of relevant documents, the cells of the loss's memory.
    """

    def __init__(
        self, relevance: Floats, queries: Ints, n_queries: int, cutoff: int | None = None
    ) -> None:
        order = np.lexsort((-relevance, queries))  # by query, the most relevant first
        self._documents = order
        self._gains = np.expm1(np.log(2) * relevance[order])
        self._sizes = np.bincount(queries, minlength=n_queries)
        self._n_positives = np.bincount(queries, relevance > 0, minlength=n_queries).astype(
            np.int64
        )
        self._begins = np.cumsum(self._sizes) - self._sizes
        self._first_cells = np.cumsum(self._n_positives) - self._n_positives
        places = np.arange(len(order)) - self._begins[queries[order]]
        discounts = 1 / np.log2(2 + places) * (places < (cutoff or len(order)))
        self._ideal = np.bincount(queries[order], self._gains * discounts, minlength=n_queries)
        self.active = np.flatnonzero(self._n_positives)
        self.n_cells = int(self._n_positives.sum())
        self.n_queries = n_queries

    def of(self, queries: Ints, sums: ListSums) -> QueryBatch:
        """Return the lists of the given active queries."""
        begins, sizes = self._begins[queries], self._sizes[queries]
        n_positives = self._n_positives[queries]
        positives, at_positives = _places(begins, n_positives)
        negatives, at_negatives = _places(begins + n_positives, sizes - n_positives)
        gains = np.zeros(positives.shape)
        gains[positives] = self._gains[at_positives[positives]]
        cells = self._first_cells[queries][:, None] + np.arange(positives.shape[1])
        lists = Lists(
            gains=gains,
            negatives=negatives,
            n_positives=n_positives.astype(np.float64),
            n_items=sizes.astype(np.float64),
            ideal=self._ideal[queries],
            cells=np.where(positives, cells, -1),
            users=queries,
            sums=sums,
        )
        filled = np.concatenate([at_positives[positives], at_negatives[negatives]])
        return QueryBatch(lists, self._documents[filled])


def _places(begins: Ints, counts: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Return a mask of the filled places, and rows of consecutive numbers; the width is >= 1."""
    place = np.arange(max(int(counts.max()), 1))
    return place < counts[:, None], begins[:, None] + place


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
        Queries per batch; gradients are of the mean of their losses.
    decay : float
        Weight decay: multiple of the weights that is added to the gradients.
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
    rows: Array, listed: QueryBatch, loss: Loss, weights: Array, memory: Memory
) -> tuple[float, Array]:
    """Return the sum of the losses, and the gradient of their mean, shape (1, n_features)."""
    result = loss.gradients(listed.lists, *listed.spread(rows @ weights[0]), memory)
    by_document = listed.gather(result.positives, result.negatives)
    gradients: Array = by_document @ rows / len(result.loss)
    return float(result.loss.sum()), gradients[None]
