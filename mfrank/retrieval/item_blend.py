"""Recommendations from factors combined with weights between items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.lazy import lazy
from mfrank.data.pickling import MadeOfFields
from mfrank.retrieval.queries import Rows
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.row_scorer import RowScorer
from mfrank.store import extra_rows
from mfrank.store.factors import FactorStore
from mfrank.store.knowledge import empty_rows

__all__ = ["ItemBlend"]


class ItemBlend(RowScorer):
    """A recommender over a blend of factors with models of weights between items.

    Its store is a blend (:func:`mfrank.blend`) with an :class:`mfrank.ItemFilter`,
    :class:`mfrank.EASE` or :class:`mfrank.ItemKNN` among its parts: ``ItemBlend.of(store)``. Lists
    are exact; scores are the sums of the scores of all parts. An item is in no list if all parts
    give nothing: no weight leads to it from the user's items, and the user or the item has no
    factors. Similar items are those by the factors. There is no fold-in.

    Notes
    -----
    A list needs the scores of all items. Users are processed in blocks, so memory does not grow
    with users times items. Sums are in float64, for which the first list makes a copy of the item
    factors.
    """

    @classmethod
    def of(cls, store: FactorStore) -> Self:
        """Return a recommender over such a store.

        Raises
        ------
        ValueError
            The store is not such a blend.
        """
        model = cls()
        model._adopt(store)
        return model

    similar_items = Recommender.similar_items

    def _adopt(self, store: FactorStore) -> None:
        if store.fitter["name"] != type(self).__name__:
            raise ValueError(
                "store must be one of mfrank.blend that has weights between items; it is of "
                f"{store.fitter['name']}"
            )
        super()._adopt(store)

    def _parts_of(self, store: FactorStore) -> _Parts:
        try:
            both = extra_rows.unpack_neighbors(store.extras, store.n_users, store.n_items)
        except (KeyError, ValueError) as error:
            raise ValueError(f"the weights saved with the store are damaged: {error}") from error
        return _Parts(*both, store)

    def _fitted(self) -> _Parts:
        parts: _Parts = self._now().parts
        return parts

    def _rows_of(self, users: Rows) -> _Rows:
        store = self.store
        biases = None if store.user_biases is None else store.user_biases[users]
        values = extra_rows.pick(self._fitted().values, users, "values")
        return _Rows(values, store.user_factors[users], biases)

    def _rows_given(self, *_: Any) -> Any:
        raise TypeError(
            "a blend cannot fold users in; use recalculate_user=False; evaluate it by a split such "
            "as by_time or by_ratio, whose test users are in the training part"
        )

    def _scores_of(self, rows: _Rows, n_threads: int) -> NDArray[Any]:
        # BLAS may sum equal rows in different orders; rounding float64 sums keeps them tied.
        store, parts = self.store, self._fitted()
        scores: NDArray[Any] = rows.factors.astype(np.float64) @ parts.item_columns
        if store.item_biases is not None:
            scores += store.item_biases
        if rows.biases is not None:
            scores += rows.biases[:, None]
        scores += (rows.values @ parts.weights).toarray()
        return scores.astype(np.float32).astype(np.float64)

    def _nothing_in(self, rows: _Rows, scores: NDArray[Any]) -> NDArray[np.bool_]:
        if self.store.ranks_anybody:
            return np.zeros(len(scores), dtype=bool)
        linked = np.diff(rows.values.indptr) > 0
        return ~rows.factors.any(axis=1) & ~(linked & scores.any(axis=1))

    def _unlinked(
        self, rows: _Rows, scores: NDArray[Any], n: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        # Only where all parts give nothing: factors may also have a product of exactly 0.
        parts, lone_users = self._fitted(), np.asarray(~rows.factors.any(axis=1))
        lone_items = parts.lone_items
        if self.store.ranks_anybody:
            at = np.empty(0, dtype=np.int64)
        elif lone_items.any():
            at = np.arange(len(scores))
        else:
            at = np.flatnonzero(lone_users)
        unlinked = lone_users[at, None] | lone_items
        if len(at):
            unlinked &= (rows.values[at] @ parts.weights).toarray() == 0
        return at, unlinked


@dataclass(frozen=True, eq=False)
class _Parts(MadeOfFields):
    """Weights between items, the users' values that weight their sums, and the store of both."""

    weights: sp.csr_array
    values: sp.csr_array
    store: FactorStore

    @lazy
    def item_columns(self) -> NDArray[np.float64]:
        """The item factors in float64, shape (K, n_items)."""
        return self.store.item_factors.T.astype(np.float64)

    @lazy
    def lone_items(self) -> NDArray[np.bool_]:
        """Items of somebody, to which no factors and no bias lead, shape (n_items,)."""
        lone = empty_rows(self.store.item_factors, self.store.item_biases)
        if lone is None:
            return np.zeros(self.store.n_items, dtype=bool)
        unmet = self.store.unmet_items
        return lone if unmet is None else lone & ~unmet


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What users have: values of items, one block of columns for each part, and factors."""

    values: sp.csr_array
    factors: NDArray[Any]
    biases: NDArray[Any] | None

    @property
    def shape(self) -> tuple[int, int]:
        """Users, and factors."""
        return len(self.factors), self.factors.shape[1]

    def __getitem__(self, part: slice) -> _Rows:
        biases = None if self.biases is None else self.biases[part]
        return _Rows(self.values[part], self.factors[part], biases)
