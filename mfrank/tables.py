"""Factors that descend: their scores, and a step down the slopes of a loss in the scores.

A batch draws lists of some users, the loss gives slopes g in the scores h_u(i), and the chain rule
is the same for every loss. With dot products, h = p_u . q_i / T + b_i:

    dP_u = sum_i g_ui q_i / T        dQ_i = sum_u g_ui p_u / T        db_i = sum_u g_ui

Other scores make other slopes of the same sums (:mod:`mfrank.scoring`). A loss that takes scores of
liked items against others too has the likes ask as if they were users.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Backend
from mfrank.drawn import Drawn
from mfrank.lists import Array
from mfrank.optimisers import Optimiser, State, Touched
from mfrank.scoring import SCORINGS, Rows, Scoring
from mfrank.trainers import Slopes

__all__ = ["Tables"]

Ints = NDArray[np.int64]


class _Sums(NamedTuple):
    """At rows (R,) of a table: sums of g times the rows they were scored with, (R, K).

    In a last column sums of g, where they are taken.
    """

    rows: Ints
    values: Array


@dataclass(eq=False)
class Tables:
    """Parameters that descend, written in place, and what the optimiser keeps beside them.

    Attributes
    ----------
    users, items : float32 or float64, shape (n_users, K) and (n_items, K)
        Where the scoring keeps its rows.
    biases : shape (n_items, 1), optional
    backend : Backend
        Where scores are computed and slopes summed.
    scoring : Scoring
        Default dot products.
    temperature : float
        T, what scores are divided by, biases not.
    kept : dict
        The optimiser's state of each table.
    """

    users: Array
    items: Array
    biases: Array | None
    backend: Backend
    scoring: Scoring = SCORINGS["dot"]
    temperature: float = 1.0
    n_threads: int = 0
    kept: dict[str, State] = field(default_factory=dict)

    def by_name(self) -> dict[str, Array]:
        """The tables there are."""
        named = {"users": self.users, "items": self.items, "biases": self.biases}
        return {name: table for name, table in named.items() if table is not None}

    def stored_biases(self) -> tuple[Array | None, Array | None]:
        """Biases of users and of items, if any, with which p . q ranks as the scores do."""
        return self._stored(self.users, None), self._stored(self.items, self.biases)

    def _stored(self, table: Array, biases: Array | None) -> Array | None:
        if biases is not None:
            return self.scoring.stored(table, self.temperature * biases[:, 0])
        if self.scoring.takes_lengths:
            return self.scoring.stored(table, np.zeros(len(table), table.dtype, like=table))
        return None

    def begin(self, rule: Optimiser) -> None:
        """Make the optimiser's state, where it is not there yet."""
        for name, table in self.by_name().items():
            self.kept.setdefault(name, rule.state(table))

    def settle(self, rule: Optimiser, drawn: Drawn | None = None) -> None:
        """Bring the rows that a batch reads, or all, to where the rule has them by now."""
        if not rule.drifts:
            return
        if drawn is None:
            users, items = (np.arange(len(of), like=of) for of in (self.users, self.items))
        else:
            users, items = np.unique(drawn.lists.users), drawn.met()
        for name, table in self.by_name().items():
            rows = users if name == "users" else items
            rule.settle(table, self.kept[name], rows)
            if name != "biases":
                self.scoring.confine(Rows(table, rows, self.n_threads))

    def scores(self, drawn: Drawn) -> tuple[Array, Array]:
        """Scores of the liked and of the other items of the lists."""
        likes, others = (
            self._scores(self.users, drawn.lists.users, items)
            for items in (drawn.lists.liked_items, drawn.others)
        )
        if self.biases is None:
            return likes, others
        biases = self.biases[:, 0]
        return likes + biases[drawn.lists.liked_items], others + biases[drawn.others]

    def between(self, drawn: Drawn) -> Array:
        """Scores of each list's likes, as if they were users, against its others: (B, L, M)."""
        return self._scores(self.items, drawn.lists.liked_items, drawn.others)

    def _scores(self, table: Array, rows: Ints, items: Ints) -> Array:
        """Of rows (B,) or (B, L) of a table against items (B, n), or (n,) for all: without biases.

        Of the shape of rows, and n.
        """
        queries = table[rows.ravel()]
        if items.ndim == 1:
            products = self.backend.product(queries, self.items[items].T, self.n_threads)
        else:
            products = self.backend.score(queries, self.items, items, self.n_threads)
            items = items.reshape(len(items), *[1] * (rows.ndim - 1), -1)
        products = products.reshape(*rows.shape, -1)
        scores = self.scoring.scores(
            products, Rows(table, rows[..., None]), Rows(self.items, items)
        )
        return scores if self.temperature == 1 else scores / self.temperature

    def move(
        self, drawn: Drawn, slopes: Slopes, rule: Optimiser, decay: float, clip: float | None
    ) -> None:
        """Update what the lists touch against the slopes of the mean of their losses.

        Sums of slopes are cut off at ``clip``; ``decay`` times the weights is added to them.
        """
        # By the scores before they are divided by T: of the mean of the losses.
        scale = len(slopes.loss) * self.temperature
        on_users, on_items = self._sums_of_lists(drawn, slopes, scale)
        if drawn.users_repeat:
            on_users = self._merged(self.users, on_users)
        if self.biases is not None:
            totals = self.temperature * on_items.values[:, -1:]
            self._update("biases", on_items.rows, totals, rule, decay, clip)
        if slopes.between.size:
            parts = self._sums_between(drawn, slopes.between, scale)
            on_items = self._merged(self.items, on_items, *parts)
        for name, table, on in (("users", self.users, on_users), ("items", self.items, on_items)):
            width, rows = table.shape[1], Rows(table, on.rows, self.n_threads)
            sums, totals = on.values[:, :width], on.values[:, width:]
            self._update(name, on.rows, self.scoring.slopes(sums, totals, rows), rule, decay, clip)
            self.scoring.confine(rows)

    def _sums_of_lists(self, drawn: Drawn, slopes: Slopes, scale: float) -> tuple[_Sums, _Sums]:
        """Of the slopes over the scale: at the users of the lists, in their order, and at items."""
        users, likes = drawn.lists.users, drawn.lists.liked_items
        if not drawn.shared:
            items = np.concatenate([likes, drawn.others], axis=1)
            by_score = np.empty_like(self.users, shape=items.shape)
            width = likes.shape[1]
            by_score[:, :width], by_score[:, width:] = slopes.likes, slopes.others
            by_score /= scale
            return self._sums(self.users, users, items, by_score)
        by_likes, at_likes = self._sums(self.users, users, likes, slopes.likes / scale)
        by_others, at_others = self._sums(self.users, users, drawn.others, slopes.others / scale)
        on_users = _Sums(users, by_likes.values + by_others.values)
        return on_users, self._merged(self.items, at_likes, at_others)

    def _sums(self, table: Array, rows: Ints, items: Ints, by_score: Array) -> tuple[_Sums, _Sums]:
        """Of the slopes of rows (R,) of a table against items (B, n) or (n,): at rows, at items.

        As many rows, one after the other, ask each of the B lists. Only at items that have a slope.
        """
        by_score = np.ascontiguousarray(by_score, dtype=table.dtype, like=table)
        queries = table[rows]
        if items.ndim == 1:
            used = by_score.any(axis=0)
            items, by_score = items[used], by_score[:, used]
            on_rows = self.backend.product(by_score, self.items[items], self.n_threads)
        else:
            on_rows = self.backend.sum_items(self.items, items, by_score, self.n_threads)
        if self.scoring.takes_lengths or self.biases is not None:
            ones = np.ones_like(queries, shape=(len(queries), 1))
            queries = np.append(queries, ones, axis=1)
            on_rows = np.append(on_rows, by_score.sum(1, keepdims=True), axis=1)
        if items.ndim == 1:
            at_items = items, self.backend.product(by_score.T, queries, self.n_threads)
        else:
            at_items = self.backend.sum_queries(
                queries, len(self.items), items, by_score, self.n_threads
            )
        return _Sums(rows, on_rows), _Sums(*at_items)

    def _sums_between(self, drawn: Drawn, by_score: Array, scale: float) -> tuple[_Sums, _Sums]:
        """Of the slopes (B, L, M) of likes against others over the scale: at likes, at others."""
        likes = drawn.lists.liked_items.ravel()
        by_score = by_score.reshape(len(likes), -1)
        at_likes, at_others = self._sums(self.items, likes, drawn.others, by_score)
        asking = (by_score != 0).any(axis=1)
        on_likes, on_others = at_likes.values[asking], at_others.values
        on_likes /= scale
        on_others /= scale
        return _Sums(likes[asking], on_likes), _Sums(at_others.rows, on_others)

    def _merged(self, table: Array, *parts: _Sums) -> _Sums:
        """The parts' sums as one at each row of the table."""
        rows = np.concatenate([part.rows for part in parts])
        values = np.concatenate([part.values for part in parts])
        each = np.ones_like(values, shape=(len(rows), 1))
        return _Sums(
            *self.backend.sum_queries(values, len(table), rows[:, None], each, self.n_threads)
        )

    def _update(
        self,
        name: str,
        rows: Ints,
        slopes: Array,
        rule: Optimiser,
        decay: float,
        clip: float | None,
    ) -> None:
        table = self.by_name()[name]
        if clip is not None:
            slopes = np.clip(slopes, -clip, clip)
        if decay:
            slopes = slopes + decay * table[rows]
        slopes = np.ascontiguousarray(slopes, dtype=table.dtype, like=table)
        rule.update(Touched(table, rows, slopes, self.kept[name], self.backend, self.n_threads))
