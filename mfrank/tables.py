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

from mfrank.arrays import in_one_piece
from mfrank.backends import Backend
from mfrank.distinct import distinct
from mfrank.drawn import Drawn
from mfrank.lists import Array
from mfrank.optimisers import Optimiser, State, Touched
from mfrank.row_sums import Sums, SumsAt, joined
from mfrank.scoring import SCORINGS, Rows, Scoring
from mfrank.trainers import Slopes

__all__ = ["Scored", "Tables"]

Ints = NDArray[np.int64]


class Scored(NamedTuple):
    """Scores of the liked (B, L) and of the other items (B, M) of lists.

    And those of likes, as if they were users, against others: (B, L, M), where they were asked for.
    """

    likes: Array
    others: Array
    between: Array


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
        if self.scoring.distances:
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
            users, items = distinct(drawn.lists.users), drawn.met()
        for name, table in self.by_name().items():
            rows = users if name == "users" else items
            rule.settle(table, self.kept[name], rows)
            if name != "biases":
                self.scoring.confine(Rows(table, rows, self.n_threads))

    def scores(self, drawn: Drawn, *, between: bool = False) -> Scored:
        """Scores of the items of the lists, by their users or, ``between`` items, by likes too."""
        likes, others = drawn.lists.liked_items, drawn.others
        askers = self._askers(drawn, between)
        if drawn.shared:
            of_likes, of_others = self._scores(askers[:, :1], likes), self._scores(askers, others)
        else:
            found, n_likes = self._scores(askers, drawn.items), likes.shape[1]
            of_likes, of_others = found[:, :, :n_likes], found[:, :, n_likes:]
        by_users = in_one_piece(of_likes[:, 0]), in_one_piece(of_others[:, 0])
        return Scored(*by_users, of_others[:, 1:])

    def _askers(self, drawn: Drawn, between: bool) -> Array:
        """Who asks each list: its user and, for scores between items, its likes; (B, W, K)."""
        users: Array = self.users[drawn.lists.users][:, None]
        if between:
            users = np.concatenate([users, self.items[drawn.lists.liked_items]], axis=1)
        return users

    def _scores(self, askers: Array, items: Ints) -> Array:
        """Of askers (B, W, K) against items (B, n), or (n,) for all: (B, W, n)."""
        queries = in_one_piece(askers.reshape(-1, askers.shape[2]))
        if items.ndim == 1:
            rows = self.items[items]
            products = self.backend.product(queries, rows.T, self.n_threads)
            scores = self.scoring.scores(products, queries, rows)
        else:
            scores = self.backend.score(
                queries, self.items, items, self.n_threads, distances=self.scoring.distances
            )
        scores = scores.reshape(*askers.shape[:2], -1)
        if self.temperature != 1:
            scores /= self.temperature
        return scores if self.biases is None else scores + self.biases[items, 0][..., None, :]

    def move(
        self, drawn: Drawn, slopes: Slopes, rule: Optimiser, decay: float, clip: float | None
    ) -> None:
        """Update what the lists touch against the slopes of the mean of their losses.

        Sums of slopes are cut off at ``clip``; ``decay`` times the weights is added to them.
        """
        # By the scores before they are divided by T: of the mean of the losses.
        on_askers, on_items = self._sums(drawn, slopes, len(slopes.loss) * self.temperature)
        if self.biases is not None:
            totals = self.temperature * on_items.sums.totals[:, None]
            self._update("biases", on_items.rows, totals, rule, decay, clip)
        on_users = SumsAt(drawn.lists.users, on_askers.of(np.s_[:, 0]))
        if drawn.users_repeat:
            on_users = self._merged(self.users, *on_users)
        if slopes.between.size:
            on_likes = on_askers.of(np.s_[:, 1:])
            asking = on_likes.values.any(axis=2) | (on_likes.totals != 0)
            likes = drawn.lists.liked_items[asking]
            on_items = joined(on_items, self._merged(self.items, likes, on_likes.of(asking)))
        for name, table, at in (("users", self.users, on_users), ("items", self.items, on_items)):
            rows = Rows(table, at.rows, self.n_threads)
            self._update(name, at.rows, self.scoring.slopes(*at.sums, rows), rule, decay, clip)
            self.scoring.confine(rows)

    def _sums(self, drawn: Drawn, slopes: Slopes, scale: float) -> tuple[Sums, SumsAt]:
        """Of the slopes over the scale: at those who ask the lists (B, W), and at items."""
        between = slopes.between.size > 0
        askers, n_likes = self._askers(drawn, between), slopes.likes.shape[1]
        shape = *askers.shape[:2], n_likes + slopes.others.shape[1]
        by_score = np.empty_like(askers, shape=shape)
        by_likes, by_others = by_score[:, :, :n_likes], by_score[:, :, n_likes:]
        np.divide(slopes.likes, scale, out=by_likes[:, 0])
        np.divide(slopes.others, scale, out=by_others[:, 0])
        if between:
            by_likes[:, 1:] = 0
            np.divide(slopes.between, scale, out=by_others[:, 1:])
        if not drawn.shared:
            return self._sums_of(askers, drawn.items, by_score)
        likes, others = drawn.lists.liked_items, drawn.others
        on_users, at_likes = self._sums_of(askers[:, :1], likes, by_likes[:, :1])
        on_askers, at_others = self._sums_of(askers, others, by_others)
        for sums, more in zip(on_askers, on_users, strict=True):
            sums[:, :1] += more
        return on_askers, joined(at_others, at_likes)

    def _sums_of(self, askers: Array, items: Ints, by_score: Array) -> tuple[Sums, SumsAt]:
        """Of the slopes (B, W, n) of askers against items (B, n) or (n,): at both.

        Only at items that have a slope.
        """
        queries = in_one_piece(askers.reshape(-1, askers.shape[2]))
        by_score = in_one_piece(by_score.reshape(len(queries), -1))
        if items.ndim == 1:
            used = by_score.any(axis=0)
            items, by_score = items[used], by_score[:, used]
            values = self.backend.product(by_score, self.items[items], self.n_threads)
            at_items = self.backend.product(by_score.T, queries, self.n_threads)
            touched, sums, totals = items, at_items, by_score.sum(axis=0)
        else:
            values = self.backend.sum_items(self.items, items, by_score, self.n_threads)
            touched, sums, totals = self.backend.sum_queries(
                queries, len(self.items), items, by_score, self.n_threads
            )
        of_askers = np.einsum("rn->r", by_score).reshape(askers.shape[:2])
        on_askers = Sums(values.reshape(askers.shape), of_askers)
        return on_askers, SumsAt(touched, Sums(sums, totals))

    def _merged(self, table: Array, rows: Ints, sums: Sums) -> SumsAt:
        """Sums at rows of the table (R,), as one at each."""
        values = np.concatenate([sums.values, sums.totals[:, None]], axis=1)
        each = np.ones_like(values, shape=(len(rows), 1))
        touched, merged, _ = self.backend.sum_queries(
            values, len(table), rows[:, None], each, self.n_threads
        )
        return SumsAt(touched, Sums(in_one_piece(merged[:, :-1]), merged[:, -1]))

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
