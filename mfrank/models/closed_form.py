"""Fold-in, partial fit and explanations, for models whose rows have a closed-form solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mfrank.als.engine import refuse_dislikes
from mfrank.als.fold_in import Explanation, FoldIn
from mfrank.als.quadratic import QuadraticObjective
from mfrank.arrays.checks import check_count, shown
from mfrank.arrays.csr import CSR
from mfrank.backends import Factors, choose
from mfrank.data.interactions import Interactions
from mfrank.models.partial_fit import grown, refit
from mfrank.retrieval.answers import Answer, Asking, Wanted, best
from mfrank.retrieval.queries import Asked, Rows
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.seen import check_seen
from mfrank.retrieval.sides import Matrix, Raw, Side, given_rows, is_single, sides

__all__ = ["ClosedForm"]


class ClosedForm(Recommender):
    """A recommender with a quadratic objective, under which any row can be solved exactly."""

    objective: QuadraticObjective
    n_threads: int
    _last_folding: FoldIn | None = None

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Solve one or many users exactly from their rows; nothing is stored.

        This is the fit's own half-step against the current item factors. For a fitted user and
        their row of the training data it returns the fitted factors, up to rounding (those are
        themselves approximate after ``solver="cg"`` or ``gather_dtype="float16"``).

        Parameters
        ----------
        userid : id, or 1-D array-like of ids
            Users may be new to the model.
        user_items : Interactions or scipy sparse
            All interactions of the users, one row per user in the same order (see
            :class:`Recommender`).
        by_row : bool, default False
            Ids are row numbers.

        Returns
        -------
        array of shape (factors,) for one user, (len(userid), factors) for many
            In the dtype of the factors.

        Raises
        ------
        ValueError, TypeError
            The matrix has the wrong shape, the Interactions lack an id, or the objective cannot
            use a value.
        """
        users, items = sides(self.store, by_row=by_row)
        rows = self._clean(given_rows(user_items, userid, users, items, "user_items"), "user_items")
        solved = self._folding.users(self._kernel_rows(rows))
        return solved[0] if is_single(userid) else solved

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Solve one or many items exactly from their rows; nothing is stored.

        See :meth:`recalculate_user`. ``item_users`` are Interactions, or a sparse matrix with one
        row per item.
        """
        users, items = sides(self.store, by_row=by_row)
        rows = self._clean(given_rows(item_users, itemid, items, users, "item_users"), "item_users")
        solved = self._folding.items(self._kernel_rows(rows))
        return solved[0] if is_single(itemid) else solved

    def recommend_from_items(
        self,
        itemids: Any,
        N: int = 10,
        *,
        values: Any = None,
        filter_items: Any = None,
        items: Any = None,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Recommend items to an unknown user, from the items they like.

        Parameters
        ----------
        itemids : 1-D array-like of ids
            The user's items, which are not recommended again.
        N, filter_items, items, by_row, n_threads
            As in :meth:`recommend`.
        values : shape (len(itemids),), optional
            Value of each interaction, as in the training data; default 1.

        Returns
        -------
        ids, scores : arrays of shape (N,)

        Raises
        ------
        ValueError, TypeError
            An item is unknown, or ``values`` are not one number per item.
        """
        wanted = Wanted(N, filter_items, items, n_threads, choose(self.backend))
        side = sides(self.store, by_row=by_row)[1]
        columns = side.rows(itemids, "itemids")
        shape, ends = (1, len(side.ids)), np.array([0, len(columns)])
        if values is not None and np.shape(values) != columns.shape:
            raise ValueError(
                f"values must have one number for each of the {len(columns)} itemids, got shape "
                f"{np.shape(values)}"
            )
        # An item of value 0 does not change the factors, but it is filtered.
        seen = sp.csr_array((np.ones(len(columns), dtype=bool), columns, ends), shape)
        liked = Interactions.from_arrays(np.zeros_like(columns), columns, values, shape=shape)
        refuse_dislikes(self.objective, liked.user_items.data)
        factors = self._folding.users(self._kernel_rows(liked.user_items))
        ids, scores = best(Asking(Asked.new(1), factors, None), side, wanted, seen)
        return side.answer(ids[0]), scores[0]

    def partial_fit_users(self, userids: Raw, user_items: Matrix, *, by_row: bool = False) -> Self:
        """Solve users from their rows and store the result; unknown users are added.

        Item factors do not change. A row must contain all of a user's interactions, not only the
        new ones. If the ids are row numbers, new users must continue the numbering.

        Parameters
        ----------
        userids, user_items, by_row
            As in :meth:`recalculate_user`; no id twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recalculate_user`, or ids repeat or leave a gap. The model is unchanged.
        """
        users, items = sides(self.store, by_row=by_row)
        return self._partial_fit(users, items, userids, user_items, self._folding.users)

    def partial_fit_items(self, itemids: Raw, item_users: Matrix, *, by_row: bool = False) -> Self:
        """Solve items from their rows and store the result; see :meth:`partial_fit_users`."""
        users, items = sides(self.store, by_row=by_row)
        return self._partial_fit(items, users, itemids, item_users, self._folding.items)

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Explanation:
        """Split a user's score of an item into the contributions of the user's own items.

        A user's factors are linear in their items (Hu, Koren & Volinsky 2008, section 5), so the
        score is a sum over these items, plus a baseline from the objective's background term.

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions, scipy sparse, or None
            The user's row, as in :meth:`recalculate_user`; None uses the training interactions.
        N : int, default 10
            Number of contributions to return, the largest first.

        Returns
        -------
        Explanation
            ``(score, contributions, baseline)``.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recalculate_user`, or ``user_items`` is None and the model does not have
            the training interactions or their values.
        """
        check_count("N", N, 1)
        for name, raw in (("userid", userid), ("itemid", itemid)):
            if not is_single(raw):
                raise TypeError(f"{name} must be one id, got {shown(raw)}")
        users, items = sides(self.store, by_row=by_row)
        item = int(items.rows(itemid, "itemid")[0])
        if user_items is None:
            given = self._own_values(users.rows(userid, "userid"))
        else:
            given = given_rows(user_items, userid, users, items, "user_items")
        row = self._kernel_rows(self._clean(given, "user_items"))
        score, parts, baseline = self._folding.explain(row, item)
        greatest = np.argsort(-parts, kind="stable")[:N]
        labels = items.answer(row.indices[greatest])
        listed = list(zip(labels.tolist(), parts[greatest].tolist(), strict=True))
        return Explanation(score, listed, baseline)

    def _partial_fit(
        self,
        side: Side,
        other: Side,
        raw: Raw,
        matrix: Matrix,
        solve: Callable[[CSR], Factors],
    ) -> Self:
        if self._seen is not None:
            check_seen(self._seen)
        ids, rows = grown(side, raw)
        argument = f"{side.name}_{other.name}s"
        given = self._clean(given_rows(matrix, raw, side, other, argument), argument)
        solved = solve(self._kernel_rows(given))
        self._store, self._seen = refit(self.store, self._seen, side.name, ids, rows, given, solved)
        return self

    def _own_values(self, rows: Rows) -> sp.csr_array:
        """Rows of the training interactions, with their values if the objective uses them."""
        if self._seen is None or (self.objective.uses_values and self._seen.dtype == bool):
            raise ValueError(
                "user_items is needed: this model does not have the values of its training "
                "interactions, which are not saved with it"
            )
        own: sp.csr_array = self._seen[rows]
        return own

    def _clean(self, rows: sp.csr_array, argument: str) -> sp.csr_array:
        """Rows as a fit reads them: duplicates merged, zeros dropped, all values finite."""
        try:
            cleaned = Interactions.from_sparse(rows).user_items
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}: {error}") from None
        refuse_dislikes(self.objective, cleaned.data)
        return cleaned

    def _kernel_rows(self, cleaned: sp.csr_array) -> CSR:
        return CSR.from_scipy(cleaned, self.store.dtype)

    @property
    def _folding(self) -> FoldIn:
        """Fold-in against the current factors; cached, because its Gram matrix is expensive."""
        folding = FoldIn(self.objective, self.store, self.backend, self.n_threads)
        if self._last_folding != folding:
            self._last_folding = folding
        return self._last_folding
