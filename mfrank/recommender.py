"""Everything that is asked of a fitted model, whichever fitter made its factors."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.asked import Asked
from mfrank.backends import Factors, choose
from mfrank.candidates import Candidates
from mfrank.factors import FactorStore
from mfrank.ids import Ids
from mfrank.recommend import Lists, recommend, score, similar
from mfrank.sides import Matrix, Raw, Side, given_rows, is_single, sides

__all__ = ["Answer", "NotFittedError", "Recommender"]

Answer: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Ids and scores: 1-D for one id asked about, 2-D (ids asked about, N) for many."""


class NotFittedError(ValueError, AttributeError):
    """The model has no factors yet: call ``fit`` first."""


class Recommender:
    """A model over a :class:`mfrank.FactorStore`.

    Ids are those the model was fitted with: a DataFrame's own, or row numbers where it was fitted
    on a matrix. ``by_row=True`` speaks row numbers in any case, in arguments and answers.

    Lists keep a contract: exactly the N best, sorted by score, ties by lower row number; never an
    item that was filtered, by the seen items or by the call; where fewer candidates than N are
    left, the rest of the list has score NaN and id -1 (None where ids are not row numbers). Memory
    does not grow with users times items.
    """

    backend: str = "auto"
    _store: FactorStore | None = None
    _seen: sp.csr_array | None = None

    @classmethod
    def of(cls, store: FactorStore) -> Recommender:
        """Serve a store's factors: everything but fitting and folding in."""
        model = Recommender()
        model._store = store
        return model

    @property
    def store(self) -> FactorStore:
        """The fitted factors with their ids and history."""
        if self._store is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._store

    @property
    def user_factors(self) -> Factors:
        """User factors, shape (n_users, factors)."""
        return self.store.user_factors

    @property
    def item_factors(self) -> Factors:
        """Item factors, shape (n_items, factors)."""
        return self.store.item_factors

    @property
    def user_ids(self) -> Ids:
        """Id of each user row."""
        return self.store.user_ids

    @property
    def item_ids(self) -> Ids:
        """Id of each item row."""
        return self.store.item_ids

    def recommend(
        self,
        userid: Raw,
        user_items: Matrix | None = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
        *,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Best items of one or many users.

        Parameters
        ----------
        userid : id, or 1-D array-like of ids
        user_items : Interactions or scipy sparse, optional
            What users have seen: the whole matrix, or one row per user asked for. By default the
            interactions of the fit.
        N : int, default 10
            Length of a list, >= 1; it may exceed the number of items.
        filter_already_liked_items : bool, default True
            Leave out every item stored in the user's row of ``user_items``.
        filter_items : ids, list of lists of ids, or scipy sparse, optional
            Items not to recommend: to anyone, or to each user (one list or row per user).
        recalculate_user : bool, default False
            Solve the users' factors anew from their rows of ``user_items``, which must be given;
            users then need not be known to the model.
        items : ids, list of lists of ids, or scipy sparse, optional
            The only items to recommend, in the same forms as ``filter_items``.
        by_row : bool, default False
            Ids of users and items are row numbers, in arguments and answer.
        n_threads : int, default 0
            0 takes every core this process may use.

        Returns
        -------
        ids, scores : arrays of shape (N,) for one user, (users, N) for many

        Raises
        ------
        ValueError, TypeError
            An unknown user, a matrix of another shape, ``user_items`` missing where it is needed;
            the message names the argument.
        """
        users, item_side = sides(self.store, by_row=by_row)
        seen = None
        if filter_already_liked_items:
            seen = self._seen_by(userid, user_items, users, item_side)
        if recalculate_user:
            if user_items is None:
                raise ValueError("recalculate_user=True needs the users' rows in user_items")
            factors = np.atleast_2d(self.recalculate_user(userid, user_items, by_row=by_row))
            asking = _Asking(users.asked(userid, "userid"), factors, None)
        else:
            asking = _Asking.known(users, userid, "userid")
        lists = self._best(asking, item_side, N, seen, (filter_items, items), n_threads)
        return _answer(lists, item_side, userid)

    def recommend_users(
        self,
        itemid: Raw,
        item_users: Matrix | None = None,
        N: int = 10,
        filter_already_liked_users: bool = True,
        filter_users: Any = None,
        users: Any = None,
        *,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Users who score one or many items highest: :meth:`recommend` with the sides swapped.

        ``item_users`` are Interactions, or a sparse matrix with a row per item.
        """
        user_side, items = sides(self.store, by_row=by_row)
        seen = None
        if filter_already_liked_users:
            seen = self._seen_by(itemid, item_users, items, user_side)
        asking = _Asking.known(items, itemid, "itemid")
        lists = self._best(asking, user_side, N, seen, (filter_users, users), n_threads)
        return _answer(lists, user_side, itemid)

    def similar_items(
        self,
        itemid: Raw,
        N: int = 10,
        filter_items: Any = None,
        items: Any = None,
        *,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Items whose factors have the highest cosine with those of one or many items.

        An item comes first in its own list, unless it is filtered. Filters as in
        :meth:`recommend`.
        """
        side = sides(self.store, by_row=by_row)[1]
        return self._similar(side, itemid, N, (filter_items, items), n_threads)

    def similar_users(
        self,
        userid: Raw,
        N: int = 10,
        filter_users: Any = None,
        users: Any = None,
        *,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Users whose factors have the highest cosine, as :meth:`similar_items`."""
        side = sides(self.store, by_row=by_row)[0]
        return self._similar(side, userid, N, (filter_users, users), n_threads)

    def score(self, userid: ArrayLike, itemid: ArrayLike, *, by_row: bool = False) -> NDArray[Any]:
        """Scores of pairs: user ``userid[j]`` with item ``itemid[j]``, shape (pairs,)."""
        users, items = sides(self.store, by_row=by_row)
        rows = users.rows(userid, "userid"), items.rows(itemid, "itemid")
        scores = score(users.factors, items.factors, *rows, item_bias=items.biases)
        return scores if users.biases is None else scores + users.biases[rows[0]]

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Factors solved from users' rows; only models with a closed form have them."""
        raise TypeError(
            f"{type(self).__name__} cannot fold users in: its factors came without an objective "
            "with a closed form. Use recalculate_user=False"
        )

    def save(self, folder: str | os.PathLike[str], *, with_seen: bool = True) -> Path:
        """Save as a folder, atomically; see :meth:`mfrank.FactorStore.save`.

        ``with_seen`` saves which items each user has (not their values) beside the factors, so
        that a loaded model filters them as this one does.
        """
        extras = {k: v for k, v in self.store.extras.items() if k not in _SEEN}
        if with_seen and self._seen is not None:
            pattern = self._seen.indptr.astype(np.int64), self._seen.indices.astype(np.int32)
            extras |= dict(zip(_SEEN, pattern, strict=True))
        return replace(self.store, extras=extras).save(folder)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, mmap: bool = False, verify: bool = False
    ) -> Self:
        """Load a saved model; see :meth:`mfrank.FactorStore.load`.

        Raises
        ------
        ValueError
            No model there, a damaged one, or one of another class (``mfrank.load`` takes any).
        """
        return cls._from_store(FactorStore.load(folder, mmap=mmap, verify=verify))

    @classmethod
    def _from_store(cls, store: FactorStore) -> Self:
        model = cls()
        model._adopt(store)
        return model

    def _adopt(self, store: FactorStore) -> None:
        """Take over a loaded store, with the seen items saved in it."""
        self._store = store
        if set(_SEEN) <= set(store.extras):
            indptr, indices = (store.extras[name] for name in _SEEN)
            marks = np.ones(len(indices), dtype=bool)
            shape = store.n_users, store.n_items
            self._seen = sp.csr_array((marks, indices, indptr), shape)

    def _best(
        self,
        asking: _Asking,
        answering: Side,
        n: int,
        seen: sp.csr_array | None,
        filters: tuple[Any, Any],
        n_threads: int,
    ) -> Lists:
        """Lists of the answering side's rows; ``filters``: those to leave out, to restrict to."""
        ids, scores = recommend(
            asking.factors,
            answering.factors,
            n=n,
            candidates=_candidates(asking.asked, answering, filters, seen),
            item_bias=answering.biases,
            backend=choose(self.backend),
            n_threads=n_threads,
        )
        return ids, scores if asking.biases is None else scores + asking.biases[:, None]

    def _similar(
        self, side: Side, raw: Raw, n: int, filters: tuple[Any, Any], n_threads: int
    ) -> Answer:
        rows = side.rows(raw, f"{side.name}id")
        lists = similar(
            rows,
            side.factors,
            n=n,
            candidates=_candidates(Asked.known(rows, len(side.ids)), side, filters, None),
            backend=choose(self.backend),
            n_threads=n_threads,
        )
        return _answer(lists, side, raw)

    def _seen_by(
        self, raw: Raw, matrix: Matrix | None, asking: Side, answering: Side
    ) -> sp.csr_array:
        """One row for each id asked about: what not to list again."""
        argument = f"{asking.name}_{answering.name}s"
        if matrix is not None:
            return given_rows(matrix, raw, asking, answering, argument)
        if self._seen is None:
            raise ValueError(
                f"{argument} is needed to filter what was seen, as this model holds no "
                f"interactions: pass it, or filter_already_liked_{answering.name}s=False"
            )
        rows = asking.rows(raw, f"{asking.name}id")
        return self._seen[rows] if asking.name == "user" else self._seen.T.tocsr()[rows]


_SEEN = ("seen_indptr", "seen_indices")


class _Asking(NamedTuple):
    """Who asks, with their factors and biases."""

    asked: Asked
    factors: Factors
    biases: NDArray[Any] | None

    @classmethod
    def known(cls, side: Side, raw: Raw, argument: str) -> _Asking:
        rows = side.rows(raw, argument)
        all_of_them = len(rows) == len(side.ids) and np.array_equal(rows, np.arange(len(rows)))
        factors = side.factors if all_of_them else side.factors[rows]
        biases = None if side.biases is None else side.biases[rows]
        return cls(Asked.known(rows, len(side.ids)), factors, biases)


def _candidates(
    asked: Asked, answering: Side, filters: tuple[Any, Any], seen: sp.csr_array | None
) -> Candidates:
    name, (blocked, only) = f"{answering.name}s", filters
    return Candidates.of(
        Asked.new(asked.n_queries),  # every filter is brought to one row per query
        len(answering.ids),
        user_items=seen,
        filter_items=answering.filter(blocked, asked, f"filter_{name}"),
        items=answering.filter(only, asked, name),
    )


def _answer(lists: Lists, side: Side, raw: Raw) -> Answer:
    ids, scores = side.answer(lists[0]), lists[1]
    return (ids[0], scores[0]) if is_single(raw) else (ids, scores)
