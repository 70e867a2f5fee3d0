"""Fold-in and explanations, for models whose rows have a closed-form solution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.als import Explanation, FoldIn, QuadraticObjective, UserWeights, refuse_dislikes
from mfrank.arrays import CSR, check_count, check_same_rows, in_turn, shown, to_host
from mfrank.backends import Factors, choose
from mfrank.data import Interactions, OnUnknown
from mfrank.models.options import OPTION_KINDS, option_classes, tell_below, tell_unread_values
from mfrank.models.parameters import is_of, restore
from mfrank.retrieval import (
    Answer,
    Fallback,
    Held,
    KnownQueries,
    ListCall,
    ListOptions,
    Matrix,
    OwnRows,
    Queries,
    QueryFactors,
    Raw,
    Recommender,
    Seen,
    Side,
    given_id,
    given_ids,
    given_rows,
    is_single,
    popularity_of,
    settled,
    sides,
)
from mfrank.steering import Steering
from mfrank.store import FactorStore, check_features, means_of

# The row of somebody new, made from the items that they like.
#
# It is not made from a scipy matrix: building one takes longer than solving the row and finding its
# list.


class LikedItems(NamedTuple):
    """A single row of a users x items matrix.

    Attributes
    ----------
    items : CSR, without values
        Every item of the row, to be filtered.
    likes : CSR
        The items with a value other than 0, from which the user's factors are solved.
    values : shape (entries of likes,)
        The values in ``likes``.
    """

    items: CSR
    likes: CSR
    values: NDArray[Any]

    @classmethod
    def of(
        cls, columns: NDArray[np.int64], values: Any, n_items: int, dtype: DTypeLike
    ) -> LikedItems:
        """Build the row; values of a repeated item are summed.

        Parameters
        ----------
        columns : int64, shape (n,)
            Rows of the items, in any order; -1 is left out.
        values : shape (n,), or None
            None is 1 for each.
        n_items : int
        dtype : dtype
            Dtype of the values in ``likes``.

        Raises
        ------
        TypeError, ValueError
            ``values`` are not one finite real number for each of ``columns``.
        """
        numbers = None if values is None else _numbers(values, len(columns))
        order = columns.argsort(kind="stable")
        order = order[columns.searchsorted(0, sorter=order) :]
        ascending = columns[order]
        begins = np.empty(len(order), dtype=bool)
        begins[:1] = True
        np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
        items = ascending[begins].astype(np.int32)
        place = begins.cumsum() - 1
        if numbers is None:
            likes, kept = items, np.bincount(place).astype(dtype)
        else:
            sums = _fitting(np.bincount(place, numbers[order]), dtype)
            likes, kept = items[sums != 0], sums[sums != 0]
        return cls(_row(items, None, n_items), _row(likes, kept, n_items), kept)


def _fitting(sums: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """The sums in this dtype; ValueError if one is not finite there."""
    with np.errstate(over="ignore"):
        merged = sums.astype(dtype)
    finite = np.isfinite(merged)
    if not finite.all():
        raise ValueError(
            f"values must be finite and fit {np.dtype(dtype)}, got {sums[~finite][0]} for an item; "
            "drop or replace it"
        )
    return merged


def _numbers(values: Any, size: int) -> NDArray[np.float64]:
    given = np.asarray(to_host(values, "values"))
    if given.shape != (size,):
        raise ValueError(
            f"values must have one number for each of the {size} itemids, got shape {given.shape}"
        )
    if given.dtype.kind == "c":
        raise TypeError("values must be real numbers, got complex ones")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"values must be numbers: {error}") from error


def _row(items: NDArray[np.int32], values: NDArray[Any] | None, n_items: int) -> CSR:
    return CSR(np.array([0, len(items)]), items, values, n_items)


class ClosedForm(Recommender):
    """A recommender with a quadratic objective, for which any row can be solved exactly."""

    objective: QuadraticObjective
    n_threads: int
    _last_folding: FoldIn | None = None

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Solve one or many users exactly from their rows; nothing is stored.

        This is the half-step of the fit against the current item factors. For a fitted user with
        their training row, it returns the fitted factors up to rounding, and up to the
        approximation of ``solver="cg"`` or ``gather_dtype="float16"``.

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
        userid, held = given_ids(userid, "userid"), self._now()
        users, items = sides(held.store, by_row=by_row)
        own = OwnRows(KnownQueries.to_solve(users, userid), user_items, items, None)
        solved = self._folded_users(held, own).factors
        return solved[0] if is_single(userid) else solved

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Solve one or many items exactly from their rows; nothing is stored.

        See :meth:`recalculate_user`. ``item_users`` is Interactions, or a sparse matrix with one
        row per item.
        """
        itemid = given_ids(itemid, "itemid")
        store = self.store
        users, items = sides(store, by_row=by_row)
        given = given_rows(item_users, itemid, items, users, "item_users")
        rows = self._clean(given, "item_users", store)
        own = CSR.from_scipy(rows, store.dtype)
        solved = self._folding_of(store).items(own, feature_means(store, items, itemid))
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
        on_unknown: OnUnknown = "error",
        fallback: Fallback = "none",
        n_threads: int = 0,
        steer: Steering | None = None,
    ) -> Answer:
        """Recommend items to an unknown user, from a list of liked items.

        Parameters
        ----------
        itemids : 1-D array-like of ids
            The user's items, which are left out of the list.
        N, filter_items, items, by_row, fallback, n_threads, steer
            As in :meth:`mfrank.Recommender.recommend`; a user without a known item has no usable
            data.
        on_unknown : {"error", "skip"}, default "error"
            With "skip", unknown items are left out of all arguments, with their ``values``.
        values : shape (len(itemids),), optional
            Value of each interaction, as in the training data; default 1. Read only by objectives
            that use values.

        Returns
        -------
        ids, scores : arrays of shape (N,)

        Raises
        ------
        UnknownIdError
            An item is unknown, and ``on_unknown`` is "error".
        ValueError, TypeError
            There is not one number in ``values`` per item.
        """
        check_same_rows(itemids=itemids, values=values)
        options = ListOptions(
            N, filter_items, items, n_threads, choose(self.backend), on_unknown, fallback
        )
        held = self._now()
        store = held.store.on_host()
        (users, side), folding = sides(store, by_row=by_row), self._folding_of(store)
        levers = self._levers(steer, store, side, on_unknown)
        missing = None if on_unknown == "error" else -1
        liked = given_ids(itemids, "itemids", ordered=values is not None)
        columns = side.rows(liked, "itemids", missing=missing)
        own = LikedItems.of(columns, values, len(side.ids), store.dtype)
        refuse_dislikes(folding.objective, own.values, "values")
        if values is not None and not folding.objective.uses_values:
            tell_unread_values(type(folding.objective).__name__, own.values)
        tell_below("values", own.values, store.threshold, "count as likes")
        query_factors = QueryFactors(*folding.users_and_biases(own.likes))
        somebody = OwnRows(KnownQueries(users, [0], Queries.new(1)), None, side, None)
        popularity = popularity_of(held, None, side) if fallback == "popularity" else None
        call = ListCall(
            Held(store, held.seen), somebody, options, levers, popularity, history=own.items
        )
        filters = options.candidates(somebody.known.queries, side)
        candidates = filters.without_lists(own.items)
        lists, nobody = self._ranked(query_factors, call, candidates)
        ids, scores = settled(call, lists, nobody, filters, candidates)
        return Answer(side.answer(ids[0]), scores[0])

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        user_weights: UserWeights | None = None,
        by_row: bool = False,
    ) -> Explanation:
        """Decompose a user's score of an item into contributions of the user's own items.

        A user's factors are linear in their items (Hu, Koren & Volinsky 2008, section 5), so the
        score is a sum over these items, plus a baseline from the objective's background term.

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions, scipy sparse, or None
            The user's row, as in :meth:`recalculate_user`; None uses the training interactions.
        N : int, default 10
            Number of contributions to return, the largest first.
        user_weights : UserWeights, optional
            From an earlier explanation for the same user and factors, which saves most of the work.
            ``user_items`` is then not read.

        Returns
        -------
        Explanation
            ``score, contributions, user_weights``, and ``baseline``.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recalculate_user`; or ``user_items`` is None and the model lacks the
            training interactions or their values; or ``user_weights`` belong to other factors or
            another user.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        held = self._now()
        store = held.on_host()
        (users, items), folding = sides(store, by_row=by_row), self._folding_of(store)
        item = int(items.rows(itemid, "itemid")[0])
        row = int(users.rows(userid, "userid", missing=-1)[0])
        user = userid if row < 0 else row
        if user_weights is None:
            if user_items is None:
                given = self._values_of(held.seen, store).positives[users.rows(userid, "userid")]
            else:
                given = given_rows(user_items, userid, users, items, "user_items")
            own = CSR.from_scipy(self._clean(given, "user_items", store), store.dtype)
            solved = folding.weigh(own, feature_means(store, users, userid))
            user_weights = replace(solved, user=user)
        elif not isinstance(user_weights, UserWeights):
            raise TypeError(
                f"user_weights must be an explanation's user_weights, got {shown(user_weights)}"
            )
        factors = store.item_factors[item].astype(np.float64)
        if folding.biases:
            factors = np.append(factors, 1)  # which meets the user's bias
        if user_weights.background.shape != factors.shape:
            raise ValueError(
                f"user_weights have {len(user_weights.background)} factors, the model "
                f"{len(factors)}: explain without them once after each fit"
            )
        if user_weights.version not in (None, folding.version):
            raise ValueError(
                "user_weights are of the model as it was before a fit, an update or a removal: "
                "explain without them once after each"
            )
        if user_weights.user is not None and user_weights.user != user:
            raise ValueError(
                f"user_weights are of another user than {shown(userid)}: explain without them once "
                "for each user"
            )
        parts, baseline = user_weights.parts @ factors, float(user_weights.background @ factors)
        if store.item_biases is not None:  # of the fit, or a prior
            baseline += float(store.item_biases[item])
        greatest = np.argsort(-parts, kind="stable")[:N]
        labels = items.answer(user_weights.items[greatest])
        listed = list(zip(labels.tolist(), parts[greatest].tolist(), strict=True))
        return Explanation(float(parts.sum()) + baseline, listed, baseline, user_weights)

    def _folded_users(self, held: Held, own: OwnRows) -> QueryFactors:
        store, (side, ids, *_) = held.on_host(), own.known
        rows = CSR.from_scipy(self._clean(own.rows, "user_items", store), store.dtype)
        means = feature_means(store, side, ids)
        return QueryFactors(*self._folding_of(store).users_and_biases(rows, means))

    def _adopt(self, store: FactorStore) -> None:
        check_features(store)
        if had_biases(store) and (store.user_biases is None or store.item_biases is None):
            raise ValueError("the store lacks the biases of its fit: it is damaged")
        super()._adopt(store)

    def _objective_of(self, store: FactorStore) -> QuadraticObjective:
        """The objective of the fit of a store, whatever was set since.

        Factors that another objective made cannot be solved for by this one: a user's new row would
        be on another scale than all others.
        """
        described = store.fitter["options"].get("objective", {})
        if is_of(self.objective, described):
            return self.objective
        objective: QuadraticObjective = restore(described, option_classes(), OPTION_KINDS)
        return objective

    def _values_of(self, seen: Seen | None, store: FactorStore) -> Seen:
        """The training interactions, with their values if the objective uses them."""
        if seen is None or (self._objective_of(store).uses_values and seen.matrix.dtype == bool):
            raise ValueError(
                "user_items is needed: this model does not have the values of its training "
                "interactions, which are not saved with it"
            )
        return seen

    def _clean(self, rows: sp.csr_array, argument: str, store: FactorStore) -> sp.csr_array:
        """Rows as a fit reads them: duplicates merged, zeros dropped, all values finite.

        Zeros are cells that are only seen (:class:`mfrank.retrieval.seen.Seen`).
        """
        try:
            if not rows.data.all():
                rows = sp.csr_array(rows, copy=True)
                rows.eliminate_zeros()
            cleaned = Interactions.from_sparse(rows).user_items
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}: {error}") from None
        refuse_dislikes(self._objective_of(store), cleaned.data, argument)
        return cleaned

    @in_turn
    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """See :meth:`mfrank.Recommender.remove`."""
        super().remove(users, items, by_row=by_row)
        self._last_folding = None  # it has the factors as they were
        return self

    @property
    def _folding(self) -> FoldIn:
        return self._folding_of(self.store)

    def _folding_of(self, store: FactorStore) -> FoldIn:
        """Fold-in against these factors; cached, because its Gram matrix is expensive."""
        objective = self._objective_of(store)
        folding = FoldIn(objective, store, self.backend, self.n_threads, had_biases(store))
        last = self._last_folding
        if last is None or last != folding:
            check_solvable(store)
            self._tell_set_since(store.fitter)
            self._last_folding = last = folding
        return last


def had_biases(store: FactorStore) -> bool:
    """Whether the rows of the fit had a bias in addition to factors."""
    return bool(store.fitter["options"].get("biases", False))


def check_solvable(store: FactorStore, new_items: bool = False) -> None:
    """Raise ValueError if the item biases include a prior, which prevents solving rows."""
    remedy = "load the model without the prior, and add it by mfrank.with_prior afterwards"
    if store.item_prior is not None and had_biases(store):
        raise ValueError(
            "users and items cannot be solved, because the item biases of the fit have a prior in "
            f"them: {remedy}"
        )
    if new_items and not had_biases(store) and store.item_biases is not None:
        raise ValueError(f"new items have no prior, which all items of this model have: {remedy}")


def feature_means(store: FactorStore, side: Side, raw: Raw) -> Factors | None:
    """Means of some ids from the fit's features, (len(raw), factors); 0 for new ids."""
    means = means_of(store, side.name)
    if means is None:
        return None
    rows = side.rows(raw, f"{side.name}id", missing=-1)
    own = np.zeros((len(rows), means.shape[1]), dtype=means.dtype)
    own[rows >= 0] = means[rows[rows >= 0]]
    return own
