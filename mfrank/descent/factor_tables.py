"""Factor tables: scores of lists, and updates along the gradients of a loss by these scores.

A loss returns the gradients g by the scores h_u(i) of a batch's lists; the rest of the chain rule
does not depend on the loss. With dot products, h = p_u . q_i / T + b_i:

    dP_u = sum_i g_ui q_i / T        dQ_i = sum_u g_ui p_u / T        db_i = sum_u g_ui

Gradients of other scores use the same sums. Some losses also score a list's positives against its
negatives (:attr:`mfrank.losses.Loss.pair_scores`); the list then has W = 1 + L queries, its user
and its L positives, instead of W = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Array, contracted, distinct, in_one_piece
from mfrank.backends import Backend
from mfrank.descent.optimizers import Optimizer, State, Touched
from mfrank.descent.sampler import Drawn
from mfrank.losses import Gradients, Scores

# Sums of gradients at the rows of a table.


class GradientSums(NamedTuple):
    """For each row, sums over its scores: of g times the other row (..., K), and of g (...).

    g is the gradient of the loss by a score; the other row is the other factor of the score.
    """

    values: Array
    totals: Array

    def of(self, rows: Any) -> GradientSums:
        """Select rows, by any numpy index."""
        return GradientSums(self.values[rows], self.totals[rows])


class SumsAt(NamedTuple):
    """Sums at the rows (R,) of a table; each row appears once."""

    rows: NDArray[np.int64]
    sums: GradientSums


def joined(one: SumsAt, other: SumsAt) -> SumsAt:
    """Add sums at the same rows; rows must be ascending in each. May overwrite ``one``."""
    if not len(one.rows):
        return other
    at = np.searchsorted(one.rows, other.rows)
    new = one.rows[np.minimum(at, len(one.rows) - 1)] != other.rows
    if not new.any():
        one.sums.values[at] += other.sums.values
        one.sums.totals[at] += other.sums.totals
        return one
    rows = np.sort(np.concatenate([one.rows, other.rows[new]]))
    at_one, at_other = np.searchsorted(rows, one.rows), np.searchsorted(rows, other.rows)

    def merged(numbers: Array, others: Array) -> Array:
        every = np.empty_like(numbers, shape=(len(rows), *numbers.shape[1:]))
        every[at_one] = numbers
        every[at_other[new]] = others[new]
        every[at_other[~new]] += others[~new]
        return every

    return SumsAt(rows, GradientSums(*map(merged, one.sums, other.sums)))


# Scores of factors: dot products, cosines, or negative squared distances.
#
# All of them, and their gradients, are computed from dot products. With g the gradient of the
# loss by the score h of a row p with a row q, the gradient by p is
#
#     dot        h = p . q                                    dP = sum g q
#     cosine     h = p . q, where |p| = |q| = 1               dP = sum g q - (p . sum g q) p
#     distance   h = -|p - q|^2, where |p|, |q| <= 1          dP = 2 (sum g q - (sum g) p)
#
# and symmetrically for q. After every update, rows are projected to the sphere (cosine) or into the
# ball (distance).


class FactorRows(NamedTuple):
    """The rows ``at`` (R,) of a table (n, K), and the backend that computes with them."""

    table: Array
    at: Array
    backend: Backend
    n_threads: int = 0


class Scoring:
    """Dot products, and the base class of the other scores.

    Attributes
    ----------
    distances : bool
        Whether scores are distances. Models then store biases with the factors, such that p . q +
        biases ranks like the distances.
    """

    distances: ClassVar[bool] = False

    def scores(self, products: Array, queries: Array, items: Array) -> Array:
        """Return scores (R, n) from dot products (R, n), which may be overwritten.

        ``queries`` (R, K) and ``items`` (n, K) are the multiplied rows.
        """
        return products

    def gradients(self, sums: Array, totals: Array, rows: FactorRows) -> Array:
        """Return gradients by the rows (R, K); ``sums`` may be overwritten.

        ``sums`` (R, K) and ``totals`` (R,) are as in :class:`GradientSums`.
        """
        return sums

    def project_rows(self, rows: FactorRows) -> None:
        """Project rows to the feasible set of this scoring, in place."""

    def stored(self, rows: Array, biases: Array) -> Array:
        """Return biases (n,) with which dot products rank like scores + ``biases``.

        ``rows`` (n, K) are the factors of the biases (n,).
        """
        return biases

    def trained(self, rows: Array, stored: Array) -> Array:
        """Invert :meth:`stored`."""
        return stored


class Cosine(Scoring):
    """Cosines: dot products of rows of length 1."""

    def gradients(self, sums: Array, totals: Array, rows: FactorRows) -> Array:
        """See :meth:`Scoring.gradients`; removes the component along the row."""
        return rows.backend.tangent(rows.table, rows.at, sums, rows.n_threads)

    def project_rows(self, rows: FactorRows) -> None:
        """See :meth:`Scoring.project_rows`: to length 1."""
        rows.backend.project_rows(rows.table, rows.at, ball=False, n_threads=rows.n_threads)


class Distance(Scoring):
    """Negative squared distances of rows in the unit ball (CML, SML).

    -|p - q|^2 / 2 = p . q - |p|^2 / 2 - |q|^2 / 2, so dot products with biases rank equally.
    """

    distances: ClassVar[bool] = True

    def scores(self, products: Array, queries: Array, items: Array) -> Array:
        """See :meth:`Scoring.scores`."""
        products *= 2
        products -= _squares(queries)[:, None]
        products -= _squares(items)
        return products

    def gradients(self, sums: Array, totals: Array, rows: FactorRows) -> Array:
        """See :meth:`Scoring.gradients`."""
        return rows.backend.ball_gradients(rows.table, rows.at, sums, totals, rows.n_threads)

    def project_rows(self, rows: FactorRows) -> None:
        """See :meth:`Scoring.project_rows`: rows longer than 1, to length 1."""
        rows.backend.project_rows(rows.table, rows.at, ball=True, n_threads=rows.n_threads)

    def stored(self, rows: Array, biases: Array) -> Array:
        """See :meth:`Scoring.stored`."""
        shifted: Array = (biases - _squares(rows)) / 2
        return shifted

    def trained(self, rows: Array, stored: Array) -> Array:
        """See :meth:`Scoring.trained`."""
        biases: Array = 2 * stored + _squares(rows)
        return biases


SCORINGS: dict[Scores, Scoring] = {"dot": Scoring(), "cosine": Cosine(), "distance": Distance()}


def _squares(rows: Array) -> Array:
    squares: Array = contracted("rk,rk->r", rows, rows)
    return squares


Ints = NDArray[np.int64]


class ListScores(NamedTuple):
    """Scores of the positives (B, L) and of the negatives (B, M) of lists by their users.

    ``pair_scores`` are the scores of the negatives by each positive, (B, L, M); (B, 0, M) if the
    loss does not use them.
    """

    positives: Array
    negatives: Array
    pair_scores: Array


@dataclass(eq=False)
class FactorTables:
    """Parameters of a fit, updated in place, and the optimizer's state.

    Attributes
    ----------
    users, items : float32 or float64, shape (n_users, K) and (n_items, K)
        Factors, in the feasible set of ``scoring``.
    biases : shape (n_items, 1), optional
        Item biases.
    backend : Backend
        Computes the scores and the sums of gradients.
    scoring : Scoring
        Default dot products.
    temperature : float, default 1.0
        T, which divides the scores before biases are added.
    n_threads : int, default 0
        0 uses every core this process may use.
    states : dict
        Optimizer state by name of the table.
    """

    users: Array
    items: Array
    biases: Array | None
    backend: Backend
    scoring: Scoring = SCORINGS["dot"]
    temperature: float = 1.0
    n_threads: int = 0
    states: dict[str, State] = field(default_factory=dict)

    def by_name(self) -> dict[str, Array]:
        """Return the tables by name; without "biases" if there are none."""
        named = {"users": self.users, "items": self.items, "biases": self.biases}
        return {name: table for name, table in named.items() if table is not None}

    def stored_biases(self) -> tuple[Array | None, Array | None]:
        """Return user and item biases with which p . q ranks as the scores do, None if unneeded."""
        return self._stored(self.users, None), self._stored(self.items, self.biases)

    def _stored(self, table: Array, biases: Array | None) -> Array | None:
        if biases is not None:
            return self.scoring.stored(table, self.temperature * biases[:, 0])
        if self.scoring.distances:
            return self.scoring.stored(table, np.zeros(len(table), table.dtype, like=table))
        return None

    def begin(self, rule: Optimizer) -> None:
        """Create the optimizer state of tables without one."""
        for name, table in self.by_name().items():
            self.states.setdefault(name, rule.state(table))

    def catch_up(self, rule: Optimizer, drawn: Drawn | None = None) -> None:
        """Apply missed steps (:meth:`Optimizer.catch_up`).

        For the rows of the lists, or for all rows by default.
        """
        if not rule.drifts:
            return
        if drawn is None:
            users, items = (np.arange(len(of), like=of) for of in (self.users, self.items))
        else:
            users, items = distinct(drawn.lists.users), drawn.distinct_items()
        for name, table in self.by_name().items():
            rows = users if name == "users" else items
            rule.catch_up(table, self.states[name], rows, self.backend)
            if name != "biases":
                self.scoring.project_rows(FactorRows(table, rows, self.backend, self.n_threads))

    def scores(self, drawn: Drawn, *, pair_scores: bool = False) -> ListScores:
        """Score the items of the lists by their users and, if ``pair_scores``, by positives."""
        positives, negatives = drawn.lists.positive_items, drawn.negatives
        queries = self._queries(drawn, pair_scores)
        if drawn.shared:
            of_positives = self._scores(queries[:, :1], positives)
            of_negatives = self._scores(queries, negatives)
        else:
            scores, n_positives = self._scores(queries, drawn.items), positives.shape[1]
            of_positives, of_negatives = scores[:, :, :n_positives], scores[:, :, n_positives:]
        by_users = in_one_piece(of_positives[:, 0]), in_one_piece(of_negatives[:, 0])
        return ListScores(*by_users, of_negatives[:, 1:])

    def _queries(self, drawn: Drawn, pair_scores: bool) -> Array:
        """Factors of each list's user and, if ``pair_scores``, of its positives: (B, W, K)."""
        queries: Array = self.users[drawn.lists.users][:, None]
        if pair_scores:
            queries = np.concatenate([queries, self.items[drawn.lists.positive_items]], axis=1)
        return queries

    def _scores(self, queries: Array, items: Ints) -> Array:
        """Score queries (B, W, K) with items (B, n), or (n,) for all lists: (B, W, n)."""
        flat = in_one_piece(queries.reshape(-1, queries.shape[2]))
        distances = self.scoring.distances
        if self.temperature != 1 and not distances:
            flat = flat / self.temperature  # far fewer numbers than scores
        if items.ndim == 1:
            rows = self.items[items]
            products = self.backend.product(flat, rows.T, self.n_threads)
            scores = self.scoring.scores(products, flat, rows)
        else:
            scores = self.backend.score(
                flat, self.items, items, self.n_threads, distances=distances
            )
        scores = scores.reshape(*queries.shape[:2], -1)
        if self.temperature != 1 and distances:
            scores /= self.temperature
        if self.biases is not None:
            scores += self.biases[items, 0][..., None, :]
        return scores

    def update(
        self,
        drawn: Drawn,
        gradients: Gradients,
        rule: Optimizer,
        decay: float,
        clip: float | None,
        n_lists: int | None = None,
    ) -> None:
        """Update the rows of the lists' users and items, to lower the mean of the lists' losses.

        The mean is over ``n_lists``, by default the number of these lists; other lists of the batch
        may be on other tables. Gradients by weights are clipped to [-clip, clip]; then ``decay``
        times the weights is added.
        """
        # Of the mean loss, by the scores before they are divided by T.
        scale = 1 / ((n_lists or len(gradients.loss)) * self.temperature)
        on_queries, on_items = self._sums(drawn, gradients, scale)
        if self.biases is not None:
            totals = self.temperature * on_items.sums.totals[:, None]
            self._update_table("biases", on_items.rows, totals, rule, decay, clip)
        on_users = SumsAt(drawn.lists.users, on_queries.of(np.s_[:, 0]))
        if drawn.users_repeat:
            on_users = self._merged(self.users, *on_users)
        if gradients.pair_scores.size:
            on_positives = on_queries.of(np.s_[:, 1:])
            used = on_positives.values.any(axis=2) | (on_positives.totals != 0)
            positives = drawn.lists.positive_items[used]
            on_items = joined(on_items, self._merged(self.items, positives, on_positives.of(used)))
        for name, table, at in (("users", self.users, on_users), ("items", self.items, on_items)):
            rows = FactorRows(table, at.rows, self.backend, self.n_threads)
            by_rows = self.scoring.gradients(*at.sums, rows)
            self._update_table(name, at.rows, by_rows, rule, decay, clip)
            self.scoring.project_rows(rows)

    def _sums(
        self, drawn: Drawn, gradients: Gradients, scale: float
    ) -> tuple[GradientSums, SumsAt]:
        """Sum ``scale`` times the gradients, at the queries (B, W) and at the items."""
        pair_scores = gradients.pair_scores.size > 0
        queries = self._queries(drawn, pair_scores)
        n_lists, n_queries, _ = queries.shape
        n_positives, n_negatives = gradients.positives.shape[1], gradients.negatives.shape[1]
        if not drawn.shared:
            # Zero where positives would score positives: no loss uses such scores.
            shape = n_lists, n_queries, n_positives + n_negatives
            by_score = np.zeros_like(queries, shape=shape)
            by_score[:, 0, :n_positives] = gradients.positives
            by_score[:, 0, n_positives:] = gradients.negatives
            if pair_scores:
                by_score[:, 1:, n_positives:] = gradients.pair_scores
            return self._sums_of(queries, drawn.items, by_score, scale)
        by_negatives = gradients.negatives[:, None]
        if pair_scores:
            by_negatives = np.concatenate([by_negatives, gradients.pair_scores], axis=1)
        on_queries, at_negatives = self._sums_of(queries, drawn.negatives, by_negatives, scale)
        positives, by_positives = drawn.lists.positive_items, gradients.positives[:, None]
        on_users, at_positives = self._sums_of(queries[:, :1], positives, by_positives, scale)
        on_queries.values[:, :1] += on_users.values
        on_queries.totals[:, :1] += on_users.totals
        return on_queries, joined(at_negatives, at_positives)

    def _sums_of(
        self, queries: Array, items: Ints, by_score: Array, scale: float
    ) -> tuple[GradientSums, SumsAt]:
        """Sum gradients by scores (B, W, n) times ``scale``, at the queries (B, W) and the items.

        ``items`` are of shape (B, n), or (n,) for all lists. Items whose gradients are all 0 are
        left out.
        """
        flat = in_one_piece(queries.reshape(-1, queries.shape[2]))
        by_score = in_one_piece(by_score.reshape(len(flat), -1).astype(flat.dtype, copy=False))
        # The scale goes to the factors and the sums: these are fewer numbers than the gradients.
        if items.ndim == 1:
            totals = by_score.sum(axis=0)
            used = totals != 0
            if not used.all():
                used |= by_score.any(axis=0)
                items, totals, by_score = items[used], totals[used], by_score[:, used]
            values = self.backend.product(by_score, self.items[items], self.n_threads)
            sums = self.backend.product(by_score.T, flat * scale, self.n_threads)
        else:
            values = self.backend.sum_items(self.items, items, by_score, self.n_threads)
            items, sums, totals = self.backend.sum_queries(
                flat * scale, len(self.items), items, by_score, self.n_threads
            )
        values *= scale
        of_queries = scale * contracted("rn->r", by_score).reshape(queries.shape[:2])
        on_queries = GradientSums(values.reshape(queries.shape), of_queries)
        return on_queries, SumsAt(items, GradientSums(sums, scale * totals))

    def _merged(self, table: Array, rows: Ints, sums: GradientSums) -> SumsAt:
        """Add up the sums of rows (R,) of the table that appear more than once."""
        values = np.concatenate([sums.values, sums.totals[:, None]], axis=1)
        each = np.ones_like(values, shape=(len(rows), 1))
        touched, merged, _ = self.backend.sum_queries(
            values, len(table), rows[:, None], each, self.n_threads
        )
        return SumsAt(touched, GradientSums(in_one_piece(merged[:, :-1]), merged[:, -1]))

    def _update_table(
        self,
        name: str,
        rows: Ints,
        gradients: Array,
        rule: Optimizer,
        decay: float,
        clip: float | None,
    ) -> None:
        table = self.by_name()[name]
        if clip is not None:
            gradients = np.clip(gradients, -clip, clip)
        if decay:
            gradients = gradients + decay * table[rows]
        gradients = np.ascontiguousarray(gradients, dtype=table.dtype, like=table)
        rule.update(
            Touched(table, rows, gradients, self.states[name], self.backend, self.n_threads)
        )
