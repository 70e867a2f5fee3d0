"""Everything that is asked of a fitted model, whichever fitter made its factors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import beside
from mfrank.backends import Factors, choose
from mfrank.data.ids import Ids
from mfrank.picked import Listed, Picked
from mfrank.retrieval.lists import Answer, Asking, Wanted, answer, best, closest
from mfrank.retrieval.recommend import score
from mfrank.retrieval.seen import Seen, pack, unpack
from mfrank.retrieval.sides import Matrix, Raw, Side, given_ids, given_lists, sides
from mfrank.store.factors import FactorStore

__all__ = ["NotFittedError", "Recommender"]


class NotFittedError(ValueError, AttributeError):
    """The model has no factors yet: call ``fit`` first."""


class Recommender:
    """A model over a :class:`mfrank.FactorStore`.

    Ids are those the model was fitted with: a DataFrame's own, or row numbers where it was fitted
    on a matrix. ``by_row=True`` speaks row numbers in any case, in arguments and answers.

    A sparse matrix beside ids (``user_items``, ``filter_items``, ``items`` and the like) has a row
    for each id asked about, in their order, as with implicit: ``recommend(ids, matrix[ids])``. One
    with another number of rows, which is that of the model, is the whole matrix, and each id's row
    is taken from it. Interactions are read by their ids. Any other number of rows is an error.

    Lists keep a contract: exactly the N best, sorted by score, ties by lower row number; never an
    item that was filtered, by the seen items or by the call; where fewer candidates than N are
    left, the rest of the list has score NaN and id -1, or None where ids are no numbers
    (:meth:`mfrank.data.ids.Ids.raw`). Memory does not grow with users times items. From the second
    time on that a few are asked for, the processor reads a sketch of the other side, a byte a
    factor, which is kept beside the store.

    Ids may be arrays of any library. Row numbers that lie on a GPU are answered there, by CuPy's
    arrays: with ``backend="cuda"`` nothing comes to the host meanwhile, neither factors nor scores,
    nor filters that lie there too (arrays, or sparse matrices of CuPy's). Only labels are host
    things: where ids have labels, they are looked up and answered on the host.
    """

    backend: str = "auto"
    _store: FactorStore | None = None
    _seen: sp.csr_array | None = None
    _seen_rows: Seen | None = None

    @classmethod
    def of(cls, store: FactorStore) -> Recommender:
        """Serve a store's factors: everything but fitting and folding in."""
        model = Recommender()
        model._adopt(store)
        return model

    @property
    def placed(self) -> FactorStore:
        """The store, its factors where the fit left them: on a GPU, until they are looked at."""
        if self._store is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._store

    @property
    def store(self) -> FactorStore:
        """The fitted factors with their ids and history."""
        return self.placed

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
        return self.placed.user_ids

    @property
    def item_ids(self) -> Ids:
        """Id of each item row."""
        return self.placed.item_ids

    @property
    def seen(self) -> Seen | None:
        """Which items each user has, as of the fit: what lists leave out. None: it is not known."""
        if self._seen is None:
            return None
        if self._seen_rows is None or self._seen_rows.matrix is not self._seen:
            self._seen_rows = Seen(self._seen)
        return self._seen_rows

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
        user_items : Interactions, or sparse of scipy's or CuPy's, optional
            What users have seen. By default the interactions of the fit, which go to a GPU once and
            stay there while the model lives, if they fit. A sparse matrix has a row for each user
            asked about (see the class).
        N : int, default 10
            Length of a list, >= 1; it may exceed the number of items.
        filter_already_liked_items : bool, default True
            Leave out every item stored in the user's row of ``user_items``.
        filter_items : ids, list of lists of ids, or sparse of scipy's or CuPy's, optional
            Items not to recommend: to anyone, or (one list or row for each, of an array too) to
            each user asked about, in their order. The entries stored in a sparse matrix count, its
            columns are item rows.
        recalculate_user : bool, default False
            Solve the users' factors anew from their rows of ``user_items``, which must be given;
            users then need not be known to the model. Rows are checked on the host for it.
        items : as filter_items, optional
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
        userid = given_ids(userid, "userid")
        wanted = self._wanted(N, filter_items, items, n_threads)
        users, item_side = sides(self.placed, by_row=by_row)
        if recalculate_user:
            if user_items is None:
                raise ValueError("recalculate_user=True needs the users' rows in user_items")
            factors = np.atleast_2d(self.recalculate_user(userid, user_items, by_row=by_row))
            asking = Asking(users.asked(userid), factors, None)
        else:
            asking = Asking.known(users, userid, "userid", wanted.backend)
        seen = None
        if filter_already_liked_items:
            seen = self._seen_by(userid, user_items, users, item_side)
        return answer(best(asking, item_side, wanted, seen), item_side, userid)

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

        ``item_users`` are Interactions, or a sparse matrix with a row for each item asked about.
        """
        itemid = given_ids(itemid, "itemid")
        wanted = self._wanted(N, filter_users, users, n_threads)
        user_side, items = sides(self.placed, by_row=by_row)
        asking = Asking.known(items, itemid, "itemid", wanted.backend)
        seen = None
        if filter_already_liked_users:
            seen = self._seen_by(itemid, item_users, items, user_side)
        return answer(best(asking, user_side, wanted, seen), user_side, itemid)

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
        side, itemid = sides(self.placed, by_row=by_row)[1], given_ids(itemid, "itemid")
        return closest(side, itemid, self._wanted(N, filter_items, items, n_threads))

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
        side, userid = sides(self.placed, by_row=by_row)[0], given_ids(userid, "userid")
        return closest(side, userid, self._wanted(N, filter_users, users, n_threads))

    def score(self, userid: ArrayLike, itemid: ArrayLike, *, by_row: bool = False) -> NDArray[Any]:
        """Scores of pairs: user ``userid[j]`` with item ``itemid[j]``, shape (pairs,)."""
        users, items = sides(self.placed, by_row=by_row)
        given = given_ids(userid, "userid"), given_ids(itemid, "itemid")
        rows = users.rows_there(given[0], "userid"), items.rows_there(given[1], "itemid")
        scores = score(users.factors, items.factors, *rows, item_bias=items.biases)
        if users.biases is not None:
            scores += beside(users.biases[beside(rows[0], users.biases)], scores)
        return scores

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

        Raises
        ------
        ValueError
            Before anything is written: :meth:`load` would refuse it, as options of a class that is
            not mfrank's, or interactions whose arrays were changed since the fit; or the folder
            holds anything but a model.
        OSError
            If writing fails; a model saved before is still there.
        """
        store = self.store
        try:
            self._from_store(store)
        except ValueError as error:
            raise ValueError(
                f"the model cannot be saved, as it could not be loaded ({error}); store.save saves "
                "its factors"
            ) from error
        seen = self._seen if with_seen else None
        return (store if seen is None else pack(store, seen)).save(folder)

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
        return cls._from_folder(folder, FactorStore.load(folder, mmap=mmap, verify=verify))

    @classmethod
    def _from_folder(cls, folder: str | os.PathLike[str], store: FactorStore) -> Self:
        """As :meth:`_from_store`; errors name the folder."""
        try:
            return cls._from_store(store)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error

    @classmethod
    def _from_store(cls, store: FactorStore) -> Self:
        model = cls()
        model._adopt(store)
        return model

    def _adopt(self, store: FactorStore) -> None:
        """Take over a store, and the seen items saved in it."""
        self._store, self._seen = unpack(store)

    def _wanted(self, n: int, blocked: Any, only: Any, n_threads: int) -> Wanted:
        return Wanted(n, blocked, only, n_threads, choose(self.backend))

    def _seen_by(
        self, raw: Raw, matrix: Matrix | None, asking: Side, answering: Side
    ) -> sp.csr_array | Listed:
        """One row for each id asked about: what not to list again."""
        argument = f"{asking.name}_{answering.name}s"
        if matrix is not None:
            return given_lists(matrix, raw, asking, answering, argument)
        seen = self.seen
        if seen is None:
            raise ValueError(
                f"{argument} is needed to filter what was seen, as this model holds no "
                f"interactions: pass it, or filter_already_liked_{answering.name}s=False"
            )
        rows = asking.rows_there(raw, f"{asking.name}id")
        return Picked(seen.rows_of(asking.name), rows)
