"""A linear item-to-item filter that keeps all directions of the data, not only the strongest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mfrank.arrays.checks import check_count, check_powers
from mfrank.models.item_weights import ItemWeights
from mfrank.models.neighbors import links_of, strongest

__all__ = ["ItemFilter"]


@dataclass(eq=False, repr=False)
class ItemFilter(ItemWeights):
    """Recommend items that share users with the user's items, by a low-pass filter of full rank.

    With the matrix X of ones where a value is above 0, and the numbers d of items of each user and
    e of users of each item, the scores of a user with the row x are x W, where W is

        E^-q X' D^-p X E^-(1 - q),   D = diag(d), E = diag(e),

    with zeros on its diagonal: an item does not recommend itself, as in :class:`mfrank.EASE` and
    :class:`mfrank.ItemKNN`. With p = 1 and q = 1/2 these are the scores that the linear filter of
    GF-CF (Shen et al. 2021) gives to items that the user does not have; to the user's own items it
    adds their diagonal, which matters only with ``filter_already_liked_items=False``.

    Factors keep the strongest directions of the data and the filter keeps them all, so a blend of
    both (:func:`mfrank.blend`) often ranks better than either.

    Parameters
    ----------
    user_power : float, default 1.0
        p, from 0 to 1: how much less the links through a user with many items count.
    item_power : float, default 0.5
        q, from 0 to 1: the smaller q, the more the popularity of a recommended item is divided out.
    neighbors : int, default 200
        Maximum number of links kept for each item, the strongest, >= 1. A link takes 12 bytes.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (n_items, n_items)
        Row i has the links of item i. Do not write to it.
    store : FactorStore
        As that of :class:`mfrank.ItemKNN`.

    Notes
    -----
    The time of a fit grows with the sum of n_u^2 over the users u, who have n_u items each.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.Interactions.from_arrays([0, 0, 1, 1, 2], [5, 6, 6, 7, 5])
    >>> ids, scores = mfrank.ItemFilter().fit(data).recommend(2, N=1)
    >>> ids.tolist(), scores.round(2).tolist()
    ([6], [0.25])
    """

    user_power: float = 1.0
    item_power: float = 0.5
    neighbors: int = 200

    def __post_init__(self) -> None:
        check_powers(user_power=self.user_power, item_power=self.item_power)
        check_count("neighbors", self.neighbors, 1)

    def _weights(self, likes: sp.csr_array) -> sp.csr_array:
        of_users, of_items = (np.maximum(likes.sum(axis=axis), 1.0) for axis in (1, 0))
        left = sp.csr_array(sp.diags_array(of_items**-self.item_power) @ likes.T)
        right = sp.csr_array(
            sp.diags_array(of_users**-self.user_power)
            @ likes
            @ sp.diags_array(of_items ** (self.item_power - 1))
        )
        return strongest(
            lambda part: sp.csr_array(left[part] @ right),
            likes.shape[1],
            self.neighbors,
            links_of(likes),
        )
