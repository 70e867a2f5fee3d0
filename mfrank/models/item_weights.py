"""Linear models whose scores are a user's items times weights between items."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import scipy.sparse as sp

from mfrank.data import cells
from mfrank.data.interactions import Interactions
from mfrank.models.baseline import Baseline
from mfrank.models.neighbor_lists import NeighborRecommender
from mfrank.models.parameters import describe
from mfrank.models.popularity import popularity_store
from mfrank.retrieval.sides import Matrix, Raw, Side
from mfrank.store.extra_rows import pack_neighbors
from mfrank.store.factors import FactorStore

__all__ = ["ItemWeights"]


class ItemWeights(NeighborRecommender, Baseline):
    """A model of which items users have: values above 0 count as 1, others as 0."""

    @abstractmethod
    def _weights(self, likes: sp.csr_array) -> sp.csr_array:
        """Weights between items, from a matrix of ones, float64, shape (n_users, n_items)."""

    def _store_of(self, data: Interactions) -> FactorStore:
        likes = _likes(data.user_items)
        return popularity_store(data, describe(self), **pack_neighbors(self._weights(likes), likes))

    def _rows_given(
        self, userid: Raw, user_items: Matrix, users: Side, items: Side
    ) -> sp.csr_array:
        return _likes(super()._rows_given(userid, user_items, users, items))


def _likes(rows: sp.csr_array) -> sp.csr_array:
    liked = cells.select(rows, np.flatnonzero(rows.data > 0))
    return sp.csr_array((np.ones(liked.nnz), liked.indices, liked.indptr), liked.shape)
