"""How scores come from factors: dot products, cosines, or distances.

All are made of dot products, as are their slopes. With slopes g of a loss in the scores h of rows p
against rows q,

    dot        h = p . q                                    dP = sum g q
    cosine     h = p . q, where |p| = |q| = 1               dP = sum g q - (p . sum g q) p
    distance   h = -|p - q|^2, where |p|, |q| <= 1          dP = 2 (sum g q - (sum g) p)

and likewise for q. Where rows are bounded, every step is drawn back to the sphere or into the ball.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np

from mfrank import native
from mfrank.lists import Array

__all__ = ["SCORINGS", "Cosine", "Distance", "Rows", "Scores", "Scoring", "on_sphere"]

Scores = Literal["dot", "cosine", "distance"]


class Rows(NamedTuple):
    """Rows of a table (n, K): those numbered ``at`` (R,).

    As many threads may go over them as ``n_threads`` says, 0 being all.
    """

    table: Array
    at: Array
    n_threads: int = 1


class Scoring:
    """Dot products, and the surface of the other kinds of scores.

    Attributes
    ----------
    distances : bool
        Whether scores are distances: then dot products that rank alike have biases.
    """

    distances: ClassVar[bool] = False

    def scores(self, products: Array, queries: Array, items: Array) -> Array:
        """Scores from dot products (R, n), which they may take the place of.

        Of queries (R, K) and items (n, K).
        """
        return products

    def slopes(self, sums: Array, totals: Array, rows: Rows) -> Array:
        """Slopes in rows (R, K), which may take the place of the sums.

        From sums of g times the rows they were scored with, (R, K), and of g, (R,).
        """
        return sums

    def confine(self, rows: Rows) -> None:
        """Draw rows back to where they are kept, in place."""

    def stored(self, rows: Array, biases: Array) -> Array:
        """Biases with which dot products rank rows (n, K) as scores + biases (n,) do."""
        return biases

    def trained(self, rows: Array, stored: Array) -> Array:
        """Biases of which ``stored`` are the stored ones."""
        return stored


class Cosine(Scoring):
    """Cosines, as dot products of rows that are kept at length 1."""

    def slopes(self, sums: Array, totals: Array, rows: Rows) -> Array:
        """See :meth:`Scoring.slopes`; what goes along the row is lost."""
        if native.takes(rows.table):
            sums = np.ascontiguousarray(sums)
            native.ext.slide(rows.table, rows.at, sums, rows.n_threads)
            return sums
        own = rows.table[rows.at]
        own *= np.einsum("rk,rk->r", sums, own)[:, None]
        sums -= own
        return sums

    def confine(self, rows: Rows) -> None:
        """See :meth:`Scoring.confine`."""
        if native.takes(rows.table):
            native.ext.confine(rows.table, rows.at, False, rows.n_threads)
            return
        own = rows.table[rows.at]
        lengths = np.sqrt(_squares(own))
        own /= np.where(lengths > 0, lengths, 1)[:, None]
        rows.table[rows.at] = own


class Distance(Scoring):
    """Squared distances, negative, of rows that are kept in the unit ball (CML, SML).

    -|p - q|^2 / 2 = p . q - |p|^2 / 2 - |q|^2 / 2: dot products with biases rank as they do.
    """

    distances: ClassVar[bool] = True

    def scores(self, products: Array, queries: Array, items: Array) -> Array:
        """See :meth:`Scoring.scores`."""
        products *= 2
        products -= _squares(queries)[:, None]
        products -= _squares(items)
        return products

    def slopes(self, sums: Array, totals: Array, rows: Rows) -> Array:
        """See :meth:`Scoring.slopes`."""
        if native.takes(rows.table):
            sums = np.ascontiguousarray(sums)
            native.ext.pull(rows.table, rows.at, np.ascontiguousarray(totals), sums, rows.n_threads)
            return sums
        sums -= totals[:, None] * rows.table[rows.at]
        sums *= 2
        return sums

    def confine(self, rows: Rows) -> None:
        """See :meth:`Scoring.confine`."""
        if native.takes(rows.table):
            native.ext.confine(rows.table, rows.at, True, rows.n_threads)
            return
        own = rows.table[rows.at]
        outside = _lengths(own)[:, 0] > 1
        rows.table[rows.at[outside]] = on_sphere(own[outside])

    def stored(self, rows: Array, biases: Array) -> Array:
        """See :meth:`Scoring.stored`."""
        found: Array = (biases - _squares(rows)) / 2
        return found

    def trained(self, rows: Array, stored: Array) -> Array:
        """See :meth:`Scoring.trained`."""
        found: Array = 2 * stored + _squares(rows)
        return found


SCORINGS: dict[Scores, Scoring] = {"dot": Scoring(), "cosine": Cosine(), "distance": Distance()}


def on_sphere(rows: Array) -> Array:
    """Rows divided by their lengths; those of length 0 stay."""
    lengths = _lengths(rows)
    scaled: Array = (rows / np.where(lengths > 0, lengths, 1)).astype(rows.dtype)
    return scaled


def _lengths(rows: Array) -> Array:
    """In float64, shape (R, 1)."""
    found: Array = np.sqrt((rows.astype(np.float64) ** 2).sum(1, keepdims=True))
    return found


def _squares(rows: Array) -> Array:
    found: Array = np.einsum("rk,rk->r", rows, rows)
    return found
