"""Stochastic descent: any ranking loss over the factors of users and items.

Scores are p_u . q_i + b_i. A batch draws lists of some users, the loss gives slopes in the scores,
and the chain rule is the same for every loss:

    dP_u = sum_i g_ui q_i        dQ_i = sum_u g_ui p_u        db_i = sum_u g_ui

This is the specification, in numpy: batch by batch, no loop over users.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

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
    users, items : float, shape (n_users, K) and (n_items, K)
    biases : float, shape (n_items,), optional
    """

    users: Array
    items: Array
    biases: Array | None = None
    kept: dict[str, State] = field(default_factory=dict)

    def scores(self, drawn: Drawn) -> tuple[Array, Array]:
        """Scores of the liked and of the other items of the lists."""
        users = self.users[drawn.lists.users]
        return self._scores(users, drawn.like_items), self._scores(users, drawn.other_items)

    def _scores(self, users: Array, items: NDArray[np.int64]) -> Array:
        scores: Array = np.einsum("bk,bnk->bn", users, self.items[items])
        return scores if self.biases is None else scores + self.biases[items]

    def move(
        self, drawn: Drawn, on_likes: Array, on_others: Array, rule: Optimiser, decay: float
    ) -> None:
        """Update what the lists touch against the slopes of their scores.

        ``decay`` is that of the weights, added to the slopes of touched rows.
        """
        at, users = drawn.lists.users, self.users[drawn.lists.users]
        items = np.concatenate([drawn.like_items, drawn.other_items], axis=1)
        slopes = np.concatenate([on_likes, on_others], axis=1)
        by_user = np.einsum("bn,bnk->bk", slopes, self.items[items])
        places = np.flatnonzero(slopes)
        touched, row = np.unique(items.ravel()[places], return_inverse=True)
        weights = slopes.ravel()[places]
        by_item = np.zeros((len(touched), users.shape[1]), dtype=users.dtype)
        np.add.at(by_item, row, weights[:, None] * users[places // items.shape[1]])
        self._update("users", self.users, at, by_user + decay * users, rule)
        self._update("items", self.items, touched, by_item + decay * self.items[touched], rule)
        if self.biases is not None:
            by_bias = np.bincount(row, weights, minlength=len(touched))
            slope = by_bias.astype(users.dtype) + decay * self.biases[touched]
            self._update("biases", self.biases, touched, slope, rule)

    def _update(self, name: str, table: Array, rows: Array, slopes: Array, rule: Optimiser) -> None:
        if name not in self.kept:
            self.kept[name] = rule.state(table)
        rule.update(table, rows, slopes, self.kept[name])


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
