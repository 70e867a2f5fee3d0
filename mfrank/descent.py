"""Stochastic descent: any ranking loss over the factors of users and items.

Scores are p_u . q_i + b_i. A batch draws lists of some users, the loss gives slopes in the scores,
and the chain rule is the same for every loss:

    dP_u = sum_i g_ui q_i        dQ_i = sum_u g_ui p_u        db_i = sum_u g_ui

Batch by batch, without a loop over users: losses and optimisers are numpy's, scores and sums are
the backend's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.backends import Backend
from mfrank.csr import CSR
from mfrank.lists import Array
from mfrank.optimisers import Optimiser, State
from mfrank.sampling import Drawn, ListDrawer
from mfrank.steps import Step
from mfrank.trainers import Loss, Memory

__all__ = ["Tables", "descend"]


@dataclass(eq=False)
class Tables:
    """Parameters that descend, written in place, and what the optimiser keeps beside them.

    Attributes
    ----------
    users, items : float32 or float64, shape (n_users, K) and (n_items, K)
    backend : Backend
        Where scores are computed and slopes summed.
    biases : shape (n_items,), optional
    """

    users: Array
    items: Array
    backend: Backend
    biases: Array | None = None
    n_threads: int = 0
    kept: dict[str, State] = field(default_factory=dict)

    def scores(self, drawn: Drawn) -> tuple[Array, Array]:
        """Scores of the liked and of the other items of the lists."""
        users = self.users[drawn.lists.users]
        return self._scores(users, drawn.like_items), self._scores(users, drawn.other_items)

    def _scores(self, users: Array, items: NDArray[np.int64]) -> Array:
        scores = self.backend.score(users, self.items, items, self.n_threads)
        return scores if self.biases is None else scores + self.biases[items]

    def move(
        self, drawn: Drawn, on_likes: Array, on_others: Array, rule: Optimiser, decay: float
    ) -> None:
        """Update what the lists touch against the slopes of their scores.

        ``decay`` is that of the weights, added to the slopes of touched rows.
        """
        at, users = drawn.lists.users, self.users[drawn.lists.users]
        by_list = _slopes_by_list(drawn, on_likes, on_others, self.items)
        touched, by_item = _touched_columns(by_list)
        on_users = self.backend.product(
            CSR.from_scipy(by_list, users.dtype), self.items, self.n_threads
        )
        on_items = self.backend.product(by_item, users, self.n_threads)
        self._update("users", self.users, at, on_users + decay * users, rule)
        self._update("items", self.items, touched, on_items + decay * self.items[touched], rule)
        if self.biases is not None:
            on_biases = self.backend.product(by_item, np.ones((len(at), 1), users.dtype))[:, 0]
            slopes = on_biases + decay * self.biases[touched]
            self._update("biases", self.biases, touched, slopes, rule)

    def _update(self, name: str, table: Array, rows: Array, slopes: Array, rule: Optimiser) -> None:
        if name not in self.kept:
            self.kept[name] = rule.state(table)
        rule.update(table, rows, slopes, self.kept[name])


def _slopes_by_list(drawn: Drawn, on_likes: Array, on_others: Array, items: Array) -> sp.csr_array:
    """Slopes that are not 0 as a matrix of lists and items; an item may stand in a row twice."""
    places = np.concatenate([drawn.like_items, drawn.other_items], axis=1)
    slopes = np.concatenate([on_likes, on_others], axis=1)
    filled = slopes != 0
    indptr = np.concatenate([[0], np.cumsum(filled.sum(1))])
    values = slopes[filled].astype(items.dtype)
    return sp.csr_array((values, places[filled], indptr), shape=(len(slopes), len(items)))


def _touched_columns(by_list: sp.csr_array) -> tuple[NDArray[np.int64], CSR]:
    """Columns that have entries, and these as rows over the lists, in the lists' order."""
    columns = by_list.tocsc()
    touched = np.flatnonzero(np.diff(columns.indptr))
    indptr = np.append(columns.indptr[touched], columns.indptr[-1]).astype(np.int64)
    indices = columns.indices.astype(np.int32)
    return touched, CSR(indptr, indices, columns.data, by_list.shape[0])


def descend(
    drawer: ListDrawer,
    counts: NDArray[np.int64],
    loss: Loss,
    memory: Memory,
    tables: Tables,
    rule: Optimiser,
    *,
    iterations: int,
    batch_size: int,
    decay: float,
    random: np.random.Generator,
) -> Iterator[Step]:
    """Descend from the tables as they are, in place; yield copies after every epoch.

    An epoch visits each user who likes something once, in an order of its own.

    Parameters
    ----------
    drawer : ListDrawer
    counts : int64, shape (n_users,)
        Likes of each user.
    loss, memory
        The loss, and what it remembers.
    rule : Optimiser
    iterations, batch_size : int
        Epochs; users of a batch, over whose losses is averaged.
    decay : float
        Weight decay, added to the slopes of the rows that a batch touches.

    Raises
    ------
    FloatingPointError
        A loss is not finite any more: the learning rate is too large. The last step's factors are
        whole.
    """
    active = np.flatnonzero(counts)
    for epoch in range(1, iterations + 1):
        began = perf_counter()
        total = 0.0
        order = random.permutation(active)
        for begin in range(0, len(order), batch_size):
            drawn = drawer.draw(order[begin : begin + batch_size], random)
            slopes = loss.slopes(drawn.lists, *tables.scores(drawn), memory)
            total += float(slopes.loss.sum())
            if not np.isfinite(total):
                raise FloatingPointError(
                    f"the loss of epoch {epoch} is not finite: the learning rate "
                    f"{rule.learning_rate:g} is too large for it"
                )
            size = len(slopes.loss)
            tables.move(drawn, slopes.likes / size, slopes.others / size, rule, decay)
        yield Step(
            epoch,
            perf_counter() - began,
            total / max(len(active), 1),
            tables.users.copy(),
            tables.items.copy(),
        )
