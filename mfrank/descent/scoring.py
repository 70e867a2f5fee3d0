"""Scores of factors: dot products, cosines, or negative squared distances.

All of them, and their gradients, are computed from dot products. With g the gradient of the loss by
the score h of a row p with a row q, the gradient by p is

    dot        h = p . q                                    dP = sum g q
    cosine     h = p . q, where |p| = |q| = 1               dP = sum g q - (p . sum g q) p
    distance   h = -|p - q|^2, where |p|, |q| <= 1          dP = 2 (sum g q - (sum g) p)

and symmetrically for q. After every update, rows are projected to the sphere (cosine) or into the
ball (distance).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from mfrank.arrays.placement import Array
from mfrank.backends import Backend
from mfrank.losses import Scores

__all__ = ["SCORINGS", "Cosine", "Distance", "Rows", "Scoring"]


class Rows(NamedTuple):
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
        Whether scores are distances. Models then store biases with the factors, such that
        p . q + biases ranks as the distances do.
    """

    distances: ClassVar[bool] = False

    def scores(self, products: Array, queries: Array, items: Array) -> Array:
        """Return scores (R, n) from dot products (R, n), which may be overwritten.

        ``queries`` (R, K) and ``items`` (n, K) are the rows that were multiplied.
        """
        return products

    def gradients(self, sums: Array, totals: Array, rows: Rows) -> Array:
        """Return gradients by the rows (R, K); ``sums`` may be overwritten.

        ``sums`` (R, K) and ``totals`` (R,) are those of :class:`mfrank.descent.gradients.Sums`.
        """
        return sums

    def project_rows(self, rows: Rows) -> None:
        """Project rows to the set that this scoring requires, in place."""

    def stored(self, rows: Array, biases: Array) -> Array:
        """Return biases (n,) with which dot products rank as scores + ``biases`` do.

        ``rows`` (n, K) are the factors that the biases (n,) belong to.
        """
        return biases

    def trained(self, rows: Array, stored: Array) -> Array:
        """Invert :meth:`stored`."""
        return stored


class Cosine(Scoring):
    """Cosines: dot products of rows of length 1."""

    def gradients(self, sums: Array, totals: Array, rows: Rows) -> Array:
        """See :meth:`Scoring.gradients`; removes the component along the row."""
        return rows.backend.tangent(rows.table, rows.at, sums, rows.n_threads)

    def project_rows(self, rows: Rows) -> None:
        """See :meth:`Scoring.project_rows`: to length 1."""
        rows.backend.project_rows(rows.table, rows.at, ball=False, n_threads=rows.n_threads)


class Distance(Scoring):
    """Negative squared distances of rows in the unit ball (CML, SML).

    -|p - q|^2 / 2 = p . q - |p|^2 / 2 - |q|^2 / 2, so dot products with biases rank as they do.
    """

    distances: ClassVar[bool] = True

    def scores(self, products: Array, queries: Array, items: Array) -> Array:
        """See :meth:`Scoring.scores`."""
        products *= 2
        products -= _squares(queries)[:, None]
        products -= _squares(items)
        return products

    def gradients(self, sums: Array, totals: Array, rows: Rows) -> Array:
        """See :meth:`Scoring.gradients`."""
        return rows.backend.ball_gradients(rows.table, rows.at, sums, totals, rows.n_threads)

    def project_rows(self, rows: Rows) -> None:
        """See :meth:`Scoring.project_rows`: rows longer than 1, to length 1."""
        rows.backend.project_rows(rows.table, rows.at, ball=True, n_threads=rows.n_threads)

    def stored(self, rows: Array, biases: Array) -> Array:
        """See :meth:`Scoring.stored`."""
        found: Array = (biases - _squares(rows)) / 2
        return found

    def trained(self, rows: Array, stored: Array) -> Array:
        """See :meth:`Scoring.trained`."""
        found: Array = 2 * stored + _squares(rows)
        return found


SCORINGS: dict[Scores, Scoring] = {"dot": Scoring(), "cosine": Cosine(), "distance": Distance()}


def _squares(rows: Array) -> Array:
    found: Array = np.einsum("rk,rk->r", rows, rows)
    return found
