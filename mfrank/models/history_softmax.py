"""A softmax over what comes next: the last epochs of a fit of :class:`mfrank.AsymmetricALS`.

Squares place all items at once, in closed form; a softmax cares for the order at the top of a list.
From the factors of the one, a few epochs of the other are enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Work, lazy, single_threaded
from mfrank.backends import choose
from mfrank.descent import Adam, CosineDecay, Touched
from mfrank.models.sequence_regression import Sequences, reach_of

Dense = NDArray[np.floating]
Ints = NDArray[np.int64]
Vector = NDArray[np.float64]

_BATCH = 512
"""Places of a step."""
_DRAWN, _POWER = 256, 0.5
"""Items drawn for a step, by this power of their numbers of users."""
_WARM_UP = 50
"""Steps in which the learning rate rises; then it falls as half a cosine."""
_SCALES, _POWERS = [0.25 * 2.0**power for power in range(11)], (0.0, 0.25, 0.5, 1.0)
_CELLS = 1 << 22
"""Scores by which the scale of the start is chosen, at most."""


class SoftmaxItems(NamedTuple):
    """The items among which the softmax of a batch is: those that came next, and drawn ones.

    Attributes
    ----------
    items : int64, shape (C,)
        Ascending.
    log_odds : float64, shape (C,)
        Logarithms of the probabilities to be among them, which scores are lowered by: so the sum
        of exponentials is that of all items in the mean (Bengio & Senecal 2008).
    """

    items: Ints
    log_odds: Vector


class Slopes(NamedTuple):
    """The mean cross-entropy of a batch, and its gradients by x (B, K) and by Q of candidates."""

    loss: float
    by_x: Dense
    by_q: Dense


def cross_entropy(x: Dense, q: Dense, candidates: SoftmaxItems, nexts: Ints) -> Slopes:
    """Of the items that came next, among the candidates; ``q`` has the rows of these."""
    rows, column = np.arange(len(x)), np.searchsorted(candidates.items, nexts)
    scores = x @ q.T
    scores -= candidates.log_odds.astype(x.dtype)
    scores -= scores.max(axis=1, keepdims=True)
    own = scores[rows, column]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1)
    loss = float((np.log(sums) - own).mean(dtype=np.float64))
    scores /= (sums * len(x))[:, None]
    scores[rows, column] -= x.dtype.type(1 / len(x))
    return Slopes(loss, scores @ q, scores.T @ x)


def _loss(scores: Dense, nexts: Ints) -> float:
    """The mean cross-entropy of these among all items."""
    highest = scores.max(axis=1)
    own = scores[np.arange(len(scores)), nexts]
    sums = np.exp(scores - highest[:, None]).sum(axis=1)
    return float((highest - own + np.log(sums)).mean(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class HistorySoftmax:
    """The cross-entropy of what comes next in histories, forward only.

    Attributes
    ----------
    places : csr_array, shape (n_users, n_items)
        Places from the end of each history: 1 is a user's latest item.
    decays, epochs, learning_rate, dropout
        The options of the model.
    """

    places: sp.csr_array
    decays: Sequence[float]
    epochs: int
    learning_rate: float
    dropout: float

    def improved(self, p: Dense, q: Dense) -> tuple[Dense, Dense]:
        """P, shape (len(decays), n_items, factors + 1), and Q after the epochs.

        They are as given if nothing leads anywhere.
        """
        at = np.flatnonzero(self._sequences.before)
        if not (len(at) and p.any() and q.any()):
            return p, q
        work, rng = Work(self.epochs * len(at)), np.random.default_rng(0)
        with single_threaded():  # so that bits do not depend on the number of threads
            tables = self.start(p.reshape(-1, p.shape[2]), q, rng.permutation(at))
            states = [Adam().state(table) for table in tables]
            for epoch in range(self.epochs):
                order = rng.permutation(at)
                for begin in range(0, len(order), _BATCH):
                    batch = order[begin : begin + _BATCH]
                    adam = Adam(self._rate((epoch + begin / len(at)) / self.epochs, len(at)))
                    updates = self._gradients(batch, *tables, rng)
                    for table, state, (rows, slopes) in zip(tables, states, updates, strict=True):
                        adam.update(Touched(table, rows, slopes, state, choose("cpu")))
                    work.advance(len(batch))
        if not all(np.isfinite(table).all() for table in tables):
            raise FloatingPointError(
                f"the softmax diverged with a `learning_rate` of {self.learning_rate:g}; lower it"
            )
        return tables[0].reshape(*p.shape[:2], -1), tables[1]

    def start(self, p: Dense, q: Dense, places: Ints) -> tuple[Dense, Dense]:
        """Both tables at one scale, and a factor more, for popularity.

        The scale, and the power of the numbers of users, are those of the least cross-entropy at
        the first of these places. The factor is read at the shortest decay, whose sum hardly
        depends on the length of a history.
        """
        places = places[: max(1, min(2 * _BATCH, _CELLS // len(q)))]
        columns, values = self.histories(places)
        scores = choose("cpu").sum_items(p, columns, values.astype(p.dtype)) @ q.T
        nexts, popularity = self._sequences.items[places], np.log1p(self._counts)
        losses = {
            (scale, power): _loss(scale * scores + power * popularity.astype(p.dtype), nexts)
            for scale in _SCALES
            for power in _POWERS
        }
        scale, power = min(losses, key=lambda each: losses[each])
        of_p, of_q = (math.sqrt(np.square(each, dtype=np.float64).mean()) for each in (p, q))
        root = math.sqrt(power * popularity.mean())
        leads = np.zeros((len(self.decays), len(q)))
        leads[np.argmin(self.decays)] = root
        of_items = power * popularity / (root or 1.0)
        return (
            np.column_stack([p * math.sqrt(scale * of_q / of_p), leads.ravel()]).astype(p.dtype),
            np.column_stack([q * math.sqrt(scale * of_p / of_q), of_items]).astype(q.dtype),
        )

    def histories(self, places: Ints) -> tuple[Ints, Vector]:
        """The columns and values of the rows of X at some places; those beyond a history are 0.

        Shape (len(places), R), with the sum R of the distances that count at each decay.
        """
        before, items = self._sequences.before[places][:, None], self._sequences.items
        columns, values = [], []
        for number, decay in enumerate(self.decays):
            far = np.arange(min(reach_of(decay), before.max()))
            met = items[np.maximum(places[:, None] - 1 - far, 0)]
            columns.append(number * len(self._counts) + met)
            values.append(np.where(far < before, np.exp(-far / decay), 0.0))
        return np.hstack(columns), np.hstack(values)

    def candidates(self, nexts: Ints, rng: np.random.Generator) -> SoftmaxItems:
        """Items drawn for a batch, and those that came next in it."""
        every, ends = self._counts, self._draws
        drawn = np.searchsorted(ends, rng.random(_DRAWN) * ends[-1], side="right")
        items = np.unique(np.append(np.minimum(drawn, len(ends) - 1), nexts))
        expected = _DRAWN * every[items] ** _POWER / ends[-1]
        expected += len(nexts) * every[items] / self.places.nnz
        return SoftmaxItems(items, np.log(-np.expm1(-expected)))

    def _gradients(
        self, places: Ints, p: Dense, q: Dense, rng: np.random.Generator
    ) -> tuple[tuple[Ints, Dense], tuple[Ints, Dense]]:
        """The rows of P and of Q that a batch touches, with their gradients."""
        backend, nexts = choose("cpu"), self._sequences.items[places]
        columns, values = self.histories(places)
        values = values.astype(p.dtype)
        kept = (rng.random((len(places), p.shape[1]), np.float32) >= self.dropout).astype(p.dtype)
        kept /= p.dtype.type(1 - self.dropout)
        among = self.candidates(nexts, rng)
        x = backend.sum_items(p, columns, values) * kept
        slopes = cross_entropy(x, q[among.items], among, nexts)
        met, by_p, _ = backend.sum_queries(slopes.by_x * kept, len(p), columns, values)
        return (met, by_p), (among.items, slopes.by_q)

    def _rate(self, progress: float, n_places: int) -> float:
        """The learning rate after a part of all steps."""
        steps = progress * self.epochs * n_places / _BATCH
        rising = min(1.0, (steps + 1) / _WARM_UP)
        return self.learning_rate * rising * CosineDecay().multiplier(progress)

    @lazy
    def _sequences(self) -> Sequences:
        return Sequences.of(self.places)

    @lazy
    def _counts(self) -> Vector:
        """Number of users of each item."""
        items, n_items = self.places.indices, self.places.shape[1]
        return np.bincount(items, minlength=n_items).astype(np.float64)

    @lazy
    def _draws(self) -> Vector:
        """Sums of what items are drawn by, up to each."""
        return np.cumsum(self._counts**_POWER)
