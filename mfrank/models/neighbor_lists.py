"""Recommendations from the nearest neighbors of a user's items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data.interactions import Interactions
from mfrank.retrieval.queries import Rows
from mfrank.retrieval.row_scorer import RowScorer
from mfrank.retrieval.sides import Matrix, Raw, Side, given_rows
from mfrank.store import extra_rows
from mfrank.store.factors import FactorStore

__all__ = ["NeighborRecommender"]


class _Neighborhood(NamedTuple):
    """Cosines of items with their neighbors, and the values of users by which they are summed."""

    near: sp.csr_array
    values: sp.csr_array


class NeighborRecommender(RowScorer):
    """A recommender by the neighbors of items, which the store has in its extras.

    Similar items are an item's neighbors, by their cosine.
    """

    @property
    def similarity(self) -> sp.csr_array:
        """Cosines of each item with its neighbors, float64, shape (n_items, n_items)."""
        return self._fitted().near

    def _parts_of(self, store: FactorStore) -> _Neighborhood:
        try:
            near, values = extra_rows.unpack_neighbors(store.extras, store.n_users, store.n_items)
            if near.shape[0] != store.n_items:
                raise ValueError(f"there must be {store.n_items} rows of neighbors")
        except (KeyError, ValueError) as error:
            raise ValueError(f"the neighbors saved with the store are damaged: {error}") from error
        return _Neighborhood(near, values)

    def _fitted(self) -> _Neighborhood:
        parts: _Neighborhood = self._now().parts
        return parts

    def _rows_of(self, users: Rows) -> sp.csr_array:
        return extra_rows.pick(self._fitted().values, users, "values")

    def _rows_given(
        self, userid: Raw, user_items: Matrix, users: Side, items: Side
    ) -> sp.csr_array:
        given = given_rows(user_items, userid, users, items, "user_items")
        try:
            given = sp.csr_array(given.astype(np.float64))
            given.eliminate_zeros()  # what is only seen
            return Interactions.from_sparse(given).user_items
        except (TypeError, ValueError) as error:
            raise type(error)(f"user_items: {error}") from None

    def _scores_of(self, rows: sp.csr_array, n_threads: int) -> NDArray[Any]:
        return np.asarray((rows @ self.similarity).toarray())

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        cosines = np.asarray(self.similarity[items].toarray())
        cosines[cosines == 0] = -np.inf  # no neighbors
        cosines[np.arange(len(items)), items] = 1
        return cosines
