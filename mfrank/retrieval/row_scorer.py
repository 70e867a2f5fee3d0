"""Recommenders that score all items from one sparse row per query, with or without factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import MadeOfFields, counted, lazy, on_host
from mfrank.data import OnUnknown
from mfrank.errors import InputTypeError, InputValueError, unreadable
from mfrank.retrieval.filters import Candidates
from mfrank.retrieval.lists_by_id import (
    Answer,
    KnownQueries,
    ListCall,
    ListOptions,
    OwnRows,
    answer,
)
from mfrank.retrieval.model_state import ModelState
from mfrank.retrieval.queries import LikedItems, Matrix, Queries
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.scored_lists import best_lists, blocks
from mfrank.retrieval.side import Raw, Rows, Side, sides
from mfrank.retrieval.steered import scored_steered
from mfrank.retrieval.top_k import Lists
from mfrank.steering import Levers, Steering
from mfrank.store import FactorStore, empty_rows, joins_weights
from mfrank.store import contents as extra_rows

_P = ParamSpec("_P")
_T = TypeVar("_T")


def of_one_state(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a method read a snapshot of the model, taken at the beginning of the call.

    The method reads the model several times, and another thread may fit it meanwhile.
    """

    @wraps(method)
    def answering(*args: _P.args, **options: _P.kwargs) -> _T:
        model, *rest = args
        as_it_is: Any = model._snapshot()  # type: ignore[attr-defined]
        return method(as_it_is, *rest, **options)  # type: ignore[arg-type]

    return answering


class RowScorer(Recommender):
    """A recommender that scores from a row of items: the user's items, or a walk's restarts.

    A subclass defines the rows of users (:meth:`_rows_of`, :meth:`_rows_given`), the scores of all
    items for rows (:meth:`_scores_of`), and the similarity of all items to some items
    (:meth:`_scores_near`). Scores and lists are on the host.

    Scores are computed from the users' rows in the fit or, with ``recalculate_user``, in
    ``user_items``. A user's list does not depend on the other users of the call. An item without a
    link from the user's items (score 0) is in no list, unless ``steer`` boosts it. The diversity of
    ``steer`` and ``recalculate_item`` need item factors and raise TypeError.
    """

    n_threads: int = 0
    folds_in = True

    recommend = of_one_state(Recommender.recommend)
    recommend_from_items = of_one_state(Recommender.recommend_from_items)
    similar_items = of_one_state(Recommender.similar_items)
    score = of_one_state(Recommender.score)

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: the scores of different users cannot be compared."""
        raise InputTypeError(
            f"{type(self).__name__} ranks items for a user; it cannot rank users for an item:",
            "use recommend",
        )

    def remove(self, *args: Any, **options: Any) -> Self:
        """Raise TypeError: the users' items are spread over the whole model."""
        raise InputTypeError(
            f"{type(self).__name__} cannot remove users and items:",
            "fit it anew to interactions without them",
        )

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: there are no user factors."""
        raise InputTypeError(
            f"{type(self).__name__} relates items; it cannot compare users:", "use similar_items"
        )

    def _rows_of(self, users: Rows) -> Any:
        """Rows of users of the fit: float64, sparse, or what else :meth:`_scores_of` reads.

        They have a ``shape`` that begins with len(users), and slices.
        """
        raise NotImplementedError

    def _rows_given(self, own: OwnRows) -> Any:
        """Rows of users from what they have now, in the same form."""
        raise NotImplementedError

    def _row_of(self, users: Side, userid: Raw, user_items: Matrix | None, items: Side) -> Any:
        """The row of one user: from ``user_items``, or of the fit."""
        if user_items is None:
            return self._rows_of(users.rows(userid, "userid"))
        known = KnownQueries.to_solve(users, userid)
        return self._rows_given(OwnRows(known, user_items, items, None))

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> Any:
        users, items = sides(held.store)
        somebody = KnownQueries(users, [0], Queries.new(1))
        likes = own.likes
        row = sp.csr_array((own.values, likes.indices, likes.indptr), (1, len(items.ids)))
        return self._rows_given(OwnRows(somebody, row, items, None))

    def _scores_of(self, rows: Any, n_threads: int) -> NDArray[Any]:
        """Scores of all items, a new float64 array of shape (len(rows), n_items)."""
        raise NotImplementedError

    def _nothing_in(self, rows: Any, scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these rows tell no item from another, bool (len(rows),), given their scores."""
        nothing: NDArray[np.bool_] = np.logical_not(scores.any(axis=1))
        return nothing

    def _unlinked(
        self, rows: Any, scores: NDArray[Any], n: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Items to which nothing leads from these rows: their lists would be in the order of ids.

        Parameters
        ----------
        rows : as of :meth:`_rows_of`
        scores : float64, shape (len(rows), n_items)
            Of these rows; -inf where an item is filtered.
        n : int
            Length of the lists.

        Returns
        -------
        at : int64, shape (R,)
            Which of the rows to look at; nothing of the kind is among the best n of the others.
        unlinked : bool, shape (R, n_items)
        """
        # A sum over links is exactly 0 without links; to look for that in all rows takes long.
        at = np.flatnonzero((scores > 0).sum(axis=1, dtype=np.int32) < n)
        return at, scores[at] == 0

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        """Nearness of all items to some, in the same form; -inf for what is not to be listed."""
        raise NotImplementedError

    def _levers(
        self, steer: Steering | None, store: FactorStore, items: Side, on_unknown: OnUnknown
    ) -> Levers | None:
        levers = super()._levers(steer, store, items, on_unknown)
        if levers is not None and levers.diversity:
            raise InputTypeError(
                f"{type(self).__name__} has no item factors by which lists could be diverse",
                "use `diversity=0` in steer",
            )
        return levers

    def _queries_of(self, call: ListCall) -> Any:
        if call.recalculate:
            return self._rows_given(call.own)
        return self._rows_of(on_host(call.own.known.rows))

    def _ranked(
        self, rows: Any, call: ListCall, candidates: Candidates
    ) -> tuple[Lists, NDArray[np.bool_]]:
        options, items = call.options, call.own.answering
        nobody = np.zeros(rows.shape[0], dtype=bool)

        def scores_of(some: Rows) -> NDArray[Any]:
            scores = self._scores_of(rows[some], options.n_threads)
            nobody[some] = self._nothing_in(rows[some], scores)
            return scores

        lists = scored_steered(
            scores_of,
            lambda some, scores, n: self._unlinked(rows[some], scores, n),
            (len(nobody), len(items.ids)),
            candidates.without_any(items.unmet),
            options.n,
            call.levers,
            call.history,
        )
        return lists, nobody

    def _scored(self, users: Side, items: Side, user_rows: Rows, item_rows: Rows) -> NDArray[Any]:
        user_rows, item_rows = on_host(user_rows), on_host(item_rows)
        if len(user_rows) != len(item_rows):
            raise InputValueError(
                f"{counted(len(user_rows), 'user')} for {counted(len(item_rows), 'item')}",
                "pass one item a user",
            )
        known = np.flatnonzero((user_rows >= 0) & (item_rows >= 0))
        distinct_users, place = np.unique(user_rows[known], return_inverse=True)
        scores = np.full(len(user_rows), np.nan)
        for block in blocks(len(distinct_users), len(items.ids)):
            of_block = (place >= block.start) & (place < block.stop)
            values = self._scores_of(self._rows_of(distinct_users[block]), self.n_threads)
            pairs = known[of_block]
            scores[pairs] = values[place[of_block] - block.start, item_rows[pairs]]
        return scores

    def _similar(
        self, side: Side, raw: Raw, options: ListOptions, recalculate: bool, matrix: Matrix | None
    ) -> Answer:
        if recalculate:
            raise InputTypeError(
                f"{type(self).__name__} has no item factors to recalculate",
                "use `recalculate_item=False`",
            )
        known = KnownQueries.of(side, raw, options.on_unknown)
        if known.nobody:
            return answer(known.padding(options.n), side, raw)
        rows = on_host(known.rows)
        lists = best_lists(
            lambda block: self._scores_near(rows[block], options.n_threads),
            len(rows),
            len(side.ids),
            options.candidates(known.queries, side),
            options.n,
            first=rows,
        )
        return answer(known.blank(lists), side, raw)


# Recommendations from factors combined with weights between items.


class ItemBlend(RowScorer):
    """A recommender over a blend of factors and weights between items.

    ``ItemBlend.of(store)`` takes a blend (:func:`mfrank.blend`) with an :class:`mfrank.ItemFilter`,
    :class:`mfrank.EASE` or :class:`mfrank.ItemKNN` among its parts. Lists are exact; scores are
    sums of the scores of all parts. An item is in no list if no part scores it: there is no weight
    to it from the user's items, and the user or the item has no factors. Similar items use the
    factors only. There is no fold-in.

    Notes
    -----
    A list needs the scores of all items. Users are processed in blocks, so memory does not grow
    with users times items. Sums are in float64; the first list makes a float64 copy of the item
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

    folds_in = False
    _similar = Recommender._similar

    def _adopt(self, store: FactorStore) -> None:
        if not joins_weights(store):
            raise InputValueError(
                "`store` must be one of mfrank.blend that has weights between items; it is of "
                f"{store.fitter['name']}"
            )
        super()._adopt(store)

    def _parts_of(self, store: FactorStore) -> _Summands:
        try:
            both = extra_rows.unpack_neighbors(store.extras, store.n_users, store.n_items)
        except (KeyError, ValueError) as error:
            raise unreadable("the weights saved with the store", "are damaged", error) from error
        return _Summands(*both, store)

    def _fitted(self) -> _Summands:
        parts: _Summands = self._now().parts
        return parts

    def _rows_of(self, users: Rows) -> BlendRows:
        store = self.store
        biases = None if store.user_biases is None else store.user_biases[users]
        values = extra_rows.pick(self._fitted().values, users, "values")
        return BlendRows(values, store.user_factors[users], biases)

    def _rows_given(self, *_: Any) -> Any:
        raise InputTypeError(
            "an ItemBlend cannot fold users in",
            "use `recalculate_user=False`, or mfrank.Blend in place of mfrank.blend",
        )

    def _scores_of(self, rows: BlendRows, n_threads: int) -> NDArray[Any]:
        # BLAS may sum equal rows in different orders; rounding float64 sums keeps them tied.
        store, parts = self.store, self._fitted()
        scores: NDArray[Any] = rows.factors.astype(np.float64) @ parts.item_columns
        if store.item_biases is not None:
            scores += store.item_biases
        if rows.biases is not None:
            scores += rows.biases[:, None]
        scores += (rows.values @ parts.weights).toarray()
        return scores.astype(np.float32).astype(np.float64)

    def _nothing_in(self, rows: BlendRows, scores: NDArray[Any]) -> NDArray[np.bool_]:
        if self.store.ranks_anybody:
            return np.zeros(len(scores), dtype=bool)
        linked = np.diff(rows.values.indptr) > 0
        return ~rows.factors.any(axis=1) & ~(linked & scores.any(axis=1))

    def _unlinked(
        self, rows: BlendRows, scores: NDArray[Any], n: int
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
class _Summands(MadeOfFields):
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
class BlendRows:
    """What users have: values of items, one block of columns for each part, and factors."""

    values: sp.csr_array
    factors: NDArray[Any]
    biases: NDArray[Any] | None

    @property
    def shape(self) -> tuple[int, int]:
        """Users, and factors."""
        return len(self.factors), self.factors.shape[1]

    def __getitem__(self, part: slice) -> BlendRows:
        biases = None if self.biases is None else self.biases[part]
        return BlendRows(self.values[part], self.factors[part], biases)
