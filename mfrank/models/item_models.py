"""Item-to-item models: linear filters, nearest neighbors, and their lists."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import Explanation
from mfrank.arrays import check_at_least_zero, check_count, check_powers, in_turn
from mfrank.data import Interactions, cells
from mfrank.errors import unreadable, within
from mfrank.models.at_once import fit_at_once, removal_at_once, update_at_once
from mfrank.models.factor_model import Callback, restored
from mfrank.models.item_links import (
    changes,
    few,
    linked,
    marked,
    nearest_items,
    relinked,
    unit_columns,
)
from mfrank.models.parameters import FitFacts, Parameters, describe, fit_of, refuse_target
from mfrank.models.popularity import Popularity, popularity_store
from mfrank.models.value_notes import tell_of_liked
from mfrank.retrieval import (
    LikedItems,
    Matrix,
    ModelState,
    OwnRows,
    Raw,
    Rows,
    RowScorer,
    given_id,
    of_one_state,
    sides,
)
from mfrank.store import IMPORTED, FactorStore, OwnClasses, pack_neighbors
from mfrank.store import contents as extra_rows

# Recommendations from the nearest neighbors of a user's items.


class Neighborhood(NamedTuple):
    """Cosines of items with their neighbors, and the values of users by which they are summed."""

    near: sp.csr_array
    values: sp.csr_array


class NeighborRecommender(Parameters, RowScorer):
    """A model of weights between items, which are in the extras of its store.

    A subclass defines the weights (:meth:`_weights`). Unless it ``uses_values``, values above 0
    count as 1, others as 0. Similar items are an item's neighbors, by weight.
    """

    _kept: Any = None
    """What an update or a removal keeps for the next, in memory alone."""

    @property
    def uses_values(self) -> bool:
        """Whether a fit reads the values of interactions, not only which are above 0."""
        return False

    @in_turn
    def fit(
        self,
        user_items: Any,
        y: None = None,
        *,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to interactions.

        Parameters
        ----------
        user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
        y : None
            scikit-learn's argument; interactions have no target.
        callback : function, optional
            Called once, at the end, with 0, the seconds of the fit and None.
        show_progress : bool, default False
            For the same signature as other models; nothing is shown.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            The data have no positive entry, or cannot be read as interactions.
        """
        refuse_target(y)
        fit_at_once(self, user_items, callback)
        return self

    @property
    def similarity(self) -> sp.csr_array:
        """Cosines of each item with its neighbors, float64, shape (n_items, n_items)."""
        return self._fitted().near

    @abstractmethod
    def _weights(self, rows: sp.csr_array) -> sp.csr_array:
        """Weights between items, float64, shape (n_items, n_items).

        They are from the values of the users, or from a matrix of ones, shape (n_users, n_items).
        """

    def _relinked(self, held: Neighborhood, rows: sp.csr_array) -> sp.csr_array | None:
        """The weights of changed rows, from those before; None if a fit is quicker."""
        return None

    @in_turn
    def partial_fit(
        self, new: Any = None, *, batch: str | None = None, leave_out: Any = None
    ) -> Self:
        """Update the model with new interactions; it is then as after a fit to all of them.

        Links of items without new users are kept where no new interaction can change them, so the
        time grows with the number of entries that share users with the items of ``new``.

        Parameters are those of :meth:`mfrank.ALS.partial_fit`.

        Raises
        ------
        ValueError, TypeError
            The model is unchanged if it lacks its interactions, or ids are whole numbers in only
            one of the model and ``new``.
        """
        update_at_once(self, self._known(self._now()), new, batch, leave_out)
        return self

    @in_turn
    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """Remove users and items; the model is then as after a fit without their interactions.

        Parameters and errors are those of :meth:`mfrank.Recommender.remove`.
        """
        removal_at_once(self, users, items, by_row=by_row)
        return self

    @of_one_state
    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Explanation:
        """Decompose a user's score of an item: each of the user's items adds its weight to it.

        Parameters are those of :meth:`mfrank.ALS.explain`. The baseline is 0, and items without a
        weight to the item are not listed.

        Raises
        ------
        ValueError, TypeError
            ``userid`` or ``itemid`` is not one id, or is unknown; or as in :meth:`recommend`.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        users, items = sides(self.store, by_row=by_row)
        item = int(items.rows(itemid, "itemid")[0])
        row = self._row_of(users, userid, user_items, items)
        products = row.data * self.similarity[row.indices][:, [item]].toarray().ravel()
        own, place = np.unique(row.indices % self.store.n_items, return_inverse=True)
        parts = np.bincount(place, products, len(own))
        linked = np.flatnonzero(parts)
        largest = linked[np.argsort(-parts[linked], kind="stable")[:N]]
        labels = items.answer(own[largest].astype(np.int32)).tolist()
        listed = list(zip(labels, parts[largest].tolist(), strict=True))
        return Explanation(float(parts.sum()), listed, 0.0, None)

    def _store_of(self, data: Interactions) -> FactorStore:
        rows = self._read(data.user_items)
        return popularity_store(data, describe(self), **pack_neighbors(self._weights(rows), rows))

    def _updated(self, held: ModelState, joined: Interactions, new: Interactions) -> FactorStore:
        """The store of a state after an update; ``joined`` are all interactions."""
        rows = self._read(joined.user_items)
        near, values = held.parts
        grown = cells.in_shape(near, (rows.shape[1],) * 2), cells.in_shape(values, rows.shape)
        weights = self._weights_after(Neighborhood(*grown), rows)
        return popularity_store(joined, describe(self), **pack_neighbors(weights, rows))

    def _weights_after(
        self, held: Neighborhood, rows: sp.csr_array, left: tuple[Rows, Rows] | None = None
    ) -> sp.csr_array:
        """The weights of changed rows, of the shape of those that are held; ``left`` are kept."""
        near = self._relinked(held, rows)
        if near is None:
            return self._weights(rows if left is None else sp.csr_array(rows[left[0]][:, left[1]]))
        return near if left is None else sp.csr_array(near[left[1]][:, left[1]])

    def _left(
        self, held: ModelState, users: NDArray[np.int64], items: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        """The popularity and the extras of a state of which these rows are left."""
        values = held.parts.values
        stays = marked(users, held.store.n_users)[cells.entry_rows(values)]
        stays &= marked(items, held.store.n_items)[values.indices]
        rows = cells.select(values, np.flatnonzero(stays))
        left = sp.csr_array(rows[users][:, items])
        weights = sp.csr_array((len(items), len(items)))
        if left.nnz:
            weights = self._weights_after(held.parts, rows, (users, items))
        popularity = np.bincount(left.indices[left.data > 0], minlength=len(items))
        return popularity.astype(np.float64), pack_neighbors(weights, left)

    def _known(self, held: ModelState) -> sp.csr_array:
        """The interactions of a state, with values of their signs if these are not read."""
        values: sp.csr_array = held.parts.values
        if self.uses_values or held.seen is None:
            return values
        seen = held.seen.positives
        if seen.dtype != bool:
            return seen
        disliked = cells.select(seen, cells.not_in(seen, values))
        return sp.csr_array(values - disliked.astype(np.float64))

    def _read(self, rows: sp.csr_array) -> sp.csr_array:
        """What the model reads of rows: their values, or ones for those above 0."""
        if self.uses_values:
            return rows
        liked = cells.select(rows, np.flatnonzero(rows.data > 0))
        return sp.csr_array((np.ones(liked.nnz), liked.indices, liked.indptr), liked.shape)

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        return restored(cls, store, own)

    def _fit_told(self) -> FitFacts | None:
        return fit_of(self, self._held)

    def _parts_of(self, store: FactorStore) -> Neighborhood:
        try:
            near, values = extra_rows.unpack_neighbors(store.extras, store.n_users, store.n_items)
        except (KeyError, ValueError) as error:
            raise unreadable("the neighbors saved with the store", "are damaged", error) from error
        return Neighborhood(near, values)

    def _fitted(self) -> Neighborhood:
        parts: Neighborhood = self._now().parts
        return parts

    def _rows_of(self, users: Rows) -> sp.csr_array:
        return extra_rows.pick(self._fitted().values, users, "values")

    def _rows_given(self, own: OwnRows) -> sp.csr_array:
        rows = own.rows
        try:
            given = sp.csr_array(rows.astype(np.float64))
            given.eliminate_zeros()  # what is only seen
            return self._read(Interactions.from_sparse(given).user_items)
        except (TypeError, ValueError) as error:
            raise within("`user_items`", error) from None

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> sp.csr_array:
        tell_of_liked(self, own.values, held.store.threshold, given=has_values)
        rows: sp.csr_array = super()._somebody(held, own, has_values=has_values)
        return rows

    def _scores_of(self, rows: sp.csr_array, n_threads: int) -> NDArray[Any]:
        return np.asarray((rows @ self.similarity).toarray())

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        cosines = np.asarray(self.similarity[items].toarray())
        cosines[cosines == 0] = -np.inf  # no neighbors
        cosines[np.arange(len(items)), items] = 1
        return cosines


Baseline: TypeAlias = Popularity | NeighborRecommender
"""A model whose fit is one step: its store follows from the data."""


# A linear item-to-item filter that keeps all directions of the data, not only the strongest.


@dataclass(eq=False, repr=False)
class ItemFilter(NeighborRecommender):
    """Recommend items that share users with the user's items, by a full-rank low-pass filter.

    X is 1 where a value is above 0; d has the number of items of each user, e the number of users
    of each item. The scores of a user with the row x are x W, where W is

        E^-q X' D^-p X E^-(1 - q),   D = diag(d), E = diag(e),

    with a zero diagonal: an item does not recommend itself, as in :class:`mfrank.EASE` and
    :class:`mfrank.ItemKNN`. With p = 1 and q = 1/2, unseen items have the scores of the linear
    filter of GF-CF (Shen et al. 2021). For the user's own items, GF-CF adds the diagonal, which
    matters only with ``filter_already_liked_items=False``.

    Factors represent the strongest directions of the data, the filter represents all, so a blend of
    both (:func:`mfrank.blend`) often ranks better than either.

    Parameters
    ----------
    user_power : float, default 1.0
        p, from 0 to 1: larger p reduces the weight of links through users with many items.
    item_power : float, default 0.5
        q, from 0 to 1: smaller q divides out more of the popularity of a recommended item.
    neighbors : int, default 200
        Maximum number of links per item, >= 1, strongest first. A link takes 12 bytes.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (n_items, n_items)
        Row i has the links of item i. Do not write to it.
    store : FactorStore
        As in :class:`mfrank.ItemKNN`.

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

    def _halves(self, likes: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
        """Two matrices whose product has the weights."""
        of_users, of_items = (np.maximum(likes.sum(axis=axis), 1.0) for axis in (1, 0))
        left = sp.csr_array(sp.diags_array(of_items**-self.item_power) @ likes.T)
        right = sp.csr_array(
            sp.diags_array(of_users**-self.user_power)
            @ likes
            @ sp.diags_array(of_items ** (self.item_power - 1))
        )
        return left, right

    def _weights(self, likes: sp.csr_array) -> sp.csr_array:
        return linked(*self._halves(likes), self.neighbors)

    def _relinked(self, held: Neighborhood, rows: sp.csr_array) -> sp.csr_array | None:
        users, columns = changes(held.values, rows)
        own = columns
        if self.user_power:  # what these users have is weighted otherwise
            own = columns.copy()
            for each in (held.values, rows):
                own[each.indices[users[cells.entry_rows(each)]]] = True
        if not few(rows, own, columns):
            return None
        return relinked(held.near, *self._halves(rows), self.neighbors, own, columns)


# The baseline of item-to-item neighbors.


_SHRUNK = 2.0
"""Users of the mean value that the mean value of an item begins with."""


@dataclass(eq=False, repr=False)
class ItemKNN(NeighborRecommender):
    """Recommend the neighbors of a user's items; often a strong baseline.

    The score of item j is the sum, over the user's items i with j among the nearest ``neighbors``
    of i, of the value of i times the cosine of the columns i and j (Sarwar et al. 2001). An item
    that is not a neighbor of any of the user's items has score 0 and is not in the user's list.
    Weight the data before the fit: ``ItemKNN().fit(mfrank.bm25_weight(data))``,
    ``ItemKNN().fit(mfrank.tfidf_weight(data))``.

    Parameters
    ----------
    neighbors : int, default 100
        Maximum number of neighbors of an item, >= 1.
    own_items : float, default 0.0
        >= 0. For lists that do not leave out all items of a user (``leave_out``, or
        ``filter_already_liked_items=False``), such as what was viewed and not bought: an item of
        the user, of value v, is given ``own_items`` v (s + 2 m) / (n + 2) more, with the sum s of
        the values of its n users and the mean m of all values. So of two viewed items, the one that
        is bought more often by those who view it ranks higher. With 10 and more, own items come
        first.

    Attributes
    ----------
    similarity : scipy.sparse.csr_array, float64, shape (n_items, n_items)
        Row i has the cosines of item i with its neighbors and, with ``own_items``, what is given to
        itself. Do not write to it.
    store : FactorStore
        Has the neighbors and the users' rows in its extras. Its factors are a placeholder (as in
        :class:`mfrank.Popularity`) and not used for ranking: ``Recommender.of(store)`` and exports
        of factors refuse the store.

    Notes
    -----
    A fit uses every core that the process may use. Its time grows with the sum of n_u^2 over the
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
    own_items: float = 0.0

    def __post_init__(self) -> None:
        check_count("neighbors", self.neighbors, 1)
        check_at_least_zero(own_items=self.own_items)

    @property
    def uses_values(self) -> bool:
        """True: cosines and scores use the values."""
        return True

    def _weights(self, rows: sp.csr_array) -> sp.csr_array:
        return self._with_own(nearest_items(rows, self.neighbors), rows)

    def _relinked(self, held: Neighborhood, rows: sp.csr_array) -> sp.csr_array | None:
        columns = changes(held.values, rows)[1]
        if not few(rows, columns, columns):
            return None
        others = np.flatnonzero(cells.entry_rows(held.near) != held.near.indices)
        near = cells.select(held.near, others)
        made = relinked(near, *unit_columns(rows), self.neighbors, columns, columns)
        return self._with_own(made, rows)

    def _with_own(self, near: sp.csr_array, rows: sp.csr_array) -> sp.csr_array:
        """The cosines, and what own items are given, from the mean values of items."""
        if not self.own_items or not rows.nnz:
            return near
        n_items = rows.shape[1]
        sums = np.bincount(rows.indices, rows.data, n_items)
        users = np.bincount(rows.indices, minlength=n_items)
        means = (sums + _SHRUNK * rows.data.mean(dtype=np.float64)) / (users + _SHRUNK)
        own = sp.diags_array(np.where(users > 0, self.own_items * means, 0.0))
        found = sp.csr_array(near + own.tocsr())
        found.sort_indices()
        return found
