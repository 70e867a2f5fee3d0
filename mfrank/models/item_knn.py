"""The baseline of item-to-item neighbors."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.arrays.checks import check_count
from mfrank.data.interactions import Interactions
from mfrank.models.baseline import Baseline
from mfrank.models.neighbor_lists import NeighborRecommender
from mfrank.models.neighbors import nearest_items
from mfrank.models.parameters import describe
from mfrank.models.popularity import popularity_store
from mfrank.store.extra_rows import pack_neighbors
from mfrank.store.factors import FactorStore

__all__ = ["ItemKNN"]


@dataclass(eq=False, repr=False)
class ItemKNN(NeighborRecommender, Baseline):
    """Recommend the neighbors of a user's items; a baseline that is often hard to beat.

    The score of item j for a user is the sum over the user's items i of their value times the
    cosine of the columns i and j of the interactions, if j is among the nearest ``neighbors`` of i
    (Sarwar et al. 2001). An item that is a neighbor of none of the user's items has score 0 and is
    in no list of theirs. Weights go into the data:
    ``ItemKNN().fit(mfrank.bm25_weight(data))``, ``ItemKNN().fit(mfrank.tfidf_weight(data))``.

    Parameters
    ----------
    neighbors : int, default 100
        Maximum number of neighbors of an item, >= 1.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (n_items, n_items)
        Row i has the cosines of item i with its neighbors. Do not write to it.
    store : FactorStore
        Has the neighbors and the users' rows among its extras. Its factors are those of
        :class:`mfrank.Popularity`, a stand-in by which nothing is ranked: ``Recommender.of(store)``
        and exports of factors refuse it.

    Notes
    -----
    A fit multiplies sparse matrices on one core: its time grows with the sum of n_u^2 over the
    users u, who have n_u items each.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.Interactions.from_arrays([0, 0, 1, 1, 2], [5, 6, 6, 7, 5])
    >>> ids, scores = mfrank.ItemKNN().fit(data).recommend(2, N=1)
    >>> ids.tolist(), scores.round(2).tolist()
    ([6], [0.5])
    """

    neighbors: int = 100

    def __post_init__(self) -> None:
        check_count("neighbors", self.neighbors, 1)

    @property
    def uses_values(self) -> bool:
        """True: cosines and scores are of the values."""
        return True

    def _store_of(self, data: Interactions) -> FactorStore:
        arrays = pack_neighbors(nearest_items(data.user_items, self.neighbors), data.user_items)
        return popularity_store(data, describe(self), **arrays)
