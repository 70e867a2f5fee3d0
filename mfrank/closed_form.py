"""What models can do whose rows have a closed form: fold in, refit and explain without a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mfrank.als import refuse_dislikes
from mfrank.amounts import check_count
from mfrank.backends import Factors, choose
from mfrank.csr import CSR
from mfrank.data.interactions import Interactions
from mfrank.folding import Explanation, FoldIn
from mfrank.partial import grown, refit
from mfrank.quadratic import QuadraticObjective
from mfrank.retrieval.asked import Asked, Rows
from mfrank.retrieval.lists import Answer, Asking, Wanted, best
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.seen import check_seen
from mfrank.retrieval.sides import Matrix, Raw, Side, given_rows, is_single, sides

__all__ = ["ClosedForm"]


class ClosedForm(Recommender):
    """A recommender fitted under a quadratic objective, by which any row can be solved anew."""

    objective: QuadraticObjective
    n_threads: int
    _last_folding: FoldIn | None = None

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Factors of one or many users solved exactly from their rows; nothing is stored.

        Equal to the fit's own half-step against these item factors: for a fitted user's own row,
        the fitted factors (to rounding; under ``solver="cg"`` or ``gather_dtype="float16"`` those
        are approximate).

        Parameters
        ----------
        userid : id, or 1-D array-like of ids
            Users need not be known to the model.
        user_items : Interactions or scipy sparse
            Everything the users have: a row for each, in their order (see :class:`Recommender`).
        by_row : bool, default False
            Ids are row numbers.

        Returns
        -------
        array of shape (factors,) for one user, (users, factors) for many

        Raises
        ------
        ValueError, TypeError
            A matrix of another shape, ids that Interactions lack, or values the objective cannot
            use.
        """
        users, items = sides(self.store, by_row=by_row)
        rows = self._clean(given_rows(user_items, userid, users, items, "user_items"), "user_items")
        solved = self._folding.users(self._kernel_rows(rows))
        return solved[0] if is_single(userid) else solved

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Factors of one or many items solved exactly from their rows; nothing is stored.

        As :meth:`recalculate_user`; ``item_users`` are Interactions, or sparse with a row for each
        item.
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
        """Best items for somebody the model does not know, from the items they like.

        Parameters
        ----------
        itemids : 1-D array-like of ids
            What they have; not recommended again.
        N, filter_items, items, by_row, n_threads
            As in :meth:`recommend`.
        values : shape (len(itemids),), optional
            Strength of each, as in the data of the fit; default 1.

        Returns
        -------
        ids, scores : arrays of shape (N,)

        Raises
        ------
        ValueError, TypeError
            An item the model does not know, or ``values`` that are no numbers, one for each.
        """
        wanted = Wanted(N, filter_items, items, n_threads, choose(self.backend))
        side = sides(self.store, by_row=by_row)[1]
        columns = side.rows(itemids, "itemids")
        shape, ends = (1, len(side.ids)), np.array([0, len(columns)])
        if values is not None and np.shape(values) != columns.shape:
            raise ValueError(
                f"values must hold a number for each of the {len(columns)} itemids, got shape "
                f"{np.shape(values)}"
            )
        # An item of value 0 says nothing about taste, but they have it.
        seen = sp.csr_array((np.ones(len(columns), dtype=bool), columns, ends), shape)
        liked = Interactions.from_arrays(np.zeros_like(columns), columns, values, shape=shape)
        refuse_dislikes(self.objective, liked.user_items.data)
        factors = self._folding.users(self._kernel_rows(liked.user_items))
        ids, scores = best(Asking(Asked.new(1), factors, None), side, wanted, seen)
        return side.answer(ids[0]), scores[0]

    def partial_fit_users(self, userids: Raw, user_items: Matrix, *, by_row: bool = False) -> Self:
        """Solve users anew from their rows and store them; users the model does not know join it.

        Item factors stay as they are. Rows hold everything a user has, not what is new. Where
        row numbers are the ids, new users continue the numbering.

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
            As :meth:`recalculate_user`; or ids that repeat or leave a gap. Nothing is changed then.
        """
        users, items = sides(self.store, by_row=by_row)
        return self._partial_fit(users, items, userids, user_items, self._folding.users)

    def partial_fit_items(self, itemids: Raw, item_users: Matrix, *, by_row: bool = False) -> Self:
        """Solve items anew from their rows and store them, as :meth:`partial_fit_users`."""
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
        """Split a user's score of an item into what each item they have adds to it.

        The factors of a user are linear in their items (Hu, Koren & Volinsky 2008, section 5), so
        the score is a sum over them, plus the objective's background.

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions, scipy sparse, or None
            Holds the user's row, as in :meth:`recalculate_user`; None takes the interactions of
            the fit.
        N : int, default 10
            Contributions to list, greatest first.

        Returns
        -------
        Explanation
            ``(score, contributions, baseline)``.

        Raises
        ------
        ValueError, TypeError
            As :meth:`recalculate_user`; or ``user_items`` is None where the model holds no
            interactions, or not their values.
        """
        check_count("N", N, 1)
        for name, raw in (("userid", userid), ("itemid", itemid)):
            if not is_single(raw):
                raise TypeError(f"{name} must be one id, got {raw!r}")
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
        asking: Side,
        answering: Side,
        raw: Raw,
        matrix: Matrix,
        solve: Callable[[CSR], Factors],
    ) -> Self:
        if self._seen is not None:
            check_seen(self._seen)
        ids, rows = grown(asking, raw)
        argument = f"{asking.name}_{answering.name}s"
        given = self._clean(given_rows(matrix, raw, asking, answering, argument), argument)
        solved = solve(self._kernel_rows(given))
        self._store, self._seen = refit(
            self.store, self._seen, asking.name, ids, rows, given, solved
        )
        return self

    def _own_values(self, rows: Rows) -> sp.csr_array:
        """Rows of the fit's interactions, with their values if the objective reads them."""
        if self._seen is None or (self.objective.uses_values and self._seen.dtype == bool):
            raise ValueError(
                "user_items is needed: this model holds no values of interactions (they are not "
                "saved with it)"
            )
        own: sp.csr_array = self._seen[rows]
        return own

    def _clean(self, rows: sp.csr_array, argument: str) -> sp.csr_array:
        """Rows as the fit would have read them: merged, without zeros, finite."""
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
        """Fold-in of the present factors; kept, for what rows share is dear to compute."""
        wanted = FoldIn(self.objective, self.store, self.backend, self.n_threads)
        if self._last_folding != wanted:
            self._last_folding = wanted
        return self._last_folding
