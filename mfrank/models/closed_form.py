"""Rows solved in closed form: new users and items, and explanations of a user's scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.als import Explanation, FoldIn, QuadraticObjective, UserWeights, refuse_dislikes
from mfrank.arrays import CSR, shown, to_host
from mfrank.backends import Factors
from mfrank.data import Interactions, OnUnknown
from mfrank.errors import InputTypeError, InputValueError, within
from mfrank.models.options import OPTION_KINDS, option_classes, tell_below, tell_unread_values
from mfrank.models.parameters import is_of, restore
from mfrank.retrieval import Matrix, ModelState, Raw, Seen, Side, given_ids, given_rows
from mfrank.store import FactorStore, means_of

# What solves the rows of a fit, whatever was set since.


def objective_of(store: FactorStore, now: QuadraticObjective) -> QuadraticObjective:
    """The objective of the fit of a store; ``now`` is the model's, which may have been set since.

    Factors that another objective made cannot be solved for by this one: a user's new row would be
    on another scale than all others.
    """
    described = store.fitter["options"].get("objective", {})
    if is_of(now, described):
        return now
    objective: QuadraticObjective = restore(described, option_classes(), OPTION_KINDS)
    return objective


def had_biases(store: FactorStore) -> bool:
    """Whether the rows of the fit had a bias in addition to factors."""
    return bool(store.fitter["options"].get("biases", False))


def check_solvable(store: FactorStore, new_items: bool = False) -> None:
    """Raise ValueError if the item biases include a prior, which prevents solving rows."""
    remedy = "load the model without the prior, and add it by mfrank.with_prior afterwards"
    if store.item_prior is not None and had_biases(store):
        raise InputValueError(
            "users and items cannot be solved, because the item biases of the fit have a prior "
            "in them:",
            f"{remedy}",
        )
    if new_items and not had_biases(store) and store.item_biases is not None:
        raise InputValueError(
            "new items have no prior, which all items of this model have:", f"{remedy}"
        )


def feature_means(store: FactorStore, side: Side, raw: Raw) -> Factors | None:
    """Means of some ids from the fit's features, (len(raw), factors); 0 for new ids."""
    means = means_of(store, side.name)
    if means is None:
        return None
    rows = side.rows(raw, f"{side.name}id", missing=-1)
    own = np.zeros((len(rows), means.shape[1]), dtype=means.dtype)
    own[rows >= 0] = means[rows[rows >= 0]]
    return own


def clean_rows(rows: sp.csr_array, argument: str, objective: QuadraticObjective) -> sp.csr_array:
    """Rows as a fit reads them: duplicates merged, zeros dropped, all values finite.

    Zeros are cells that are only seen (:class:`mfrank.retrieval.seen.Seen`).
    """
    try:
        if not rows.data.all():
            rows = sp.csr_array(rows, copy=True)
            rows.eliminate_zeros()
        cleaned = Interactions.from_sparse(rows).user_items
    except (TypeError, ValueError) as error:
        raise within(f"`{argument}`", error) from None
    refuse_dislikes(objective, cleaned.data, argument)
    return cleaned


def training_rows(seen: Seen | None, objective: QuadraticObjective) -> Seen:
    """The training interactions, with their values if the objective uses them."""
    if seen is None or (objective.uses_values and seen.matrix.dtype == bool):
        raise InputValueError(
            "`user_items` is needed: this model does not have the values of its training "
            "interactions, which are not saved with it"
        )
    return seen


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
        raise InputValueError(
            f"`values` must be finite and fit {np.dtype(dtype)}, got {sums[~finite][0]} for an "
            "item",
            "drop or replace it",
        )
    return merged


def _numbers(values: Any, size: int) -> NDArray[np.float64]:
    given = np.asarray(to_host(values, "values"))
    if given.shape != (size,):
        raise InputValueError(
            f"`values` must have one number for each of the {size} itemids, got shape {given.shape}"
        )
    if given.dtype.kind == "c":
        raise InputTypeError("`values` must be real numbers, got complex ones")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputValueError(f"`values` must be numbers: {error}") from error


def _row(items: NDArray[np.int32], values: NDArray[Any] | None, n_items: int) -> CSR:
    return CSR(np.array([0, len(items)]), items, values, n_items)


def liked_items(
    itemids: Any, values: Any, items: Side, on_unknown: OnUnknown, folding: FoldIn
) -> LikedItems:
    """The row of somebody new, from arguments of :meth:`mfrank.ALS.recommend_from_items`."""
    missing = None if on_unknown == "error" else -1
    liked = given_ids(itemids, "itemids", ordered=values is not None)
    columns = items.rows(liked, "itemids", missing=missing)
    store, objective = folding.store, folding.objective
    own = LikedItems.of(columns, values, len(items.ids), store.dtype)
    refuse_dislikes(objective, own.values, "values")
    if values is not None and not objective.uses_values:
        tell_unread_values(type(objective).__name__, own.values)
    tell_below("values", own.values, store.threshold, "count as likes")
    return own


# Explanations: a user's factors, and so all their scores, are linear in their items.


def weigh_items(
    folding: FoldIn,
    held: ModelState,
    both: tuple[Side, Side],
    userid: Raw,
    user_items: Matrix | None,
) -> UserWeights:
    """Decompose a user by their items: a row of ``user_items``, or of the training interactions."""
    users, items = both
    if user_items is None:
        seen = training_rows(held.seen, folding.objective)
        given = seen.positives[users.rows(userid, "userid")]
    else:
        given = given_rows(user_items, userid, users, items, "user_items")
    rows = clean_rows(given, "user_items", folding.objective)
    own = CSR.from_scipy(rows, folding.store.dtype)
    return folding.weigh(own, feature_means(folding.store, users, userid))


def check_user_weights(weights: UserWeights, folding: FoldIn, user: Raw, userid: Raw) -> None:
    """Raise unless weights are of these factors and of this user: a row, or an unknown id."""
    if not isinstance(weights, UserWeights):
        raise InputTypeError(
            f"`user_weights` must be an explanation's `user_weights`, got {shown(weights)}"
        )
    width = folding.store.item_factors.shape[1] + folding.biases
    if weights.background.shape != (width,):
        raise InputValueError(
            f"`user_weights` have {len(weights.background)} factors, the model {width}:",
            "explain without them once after each fit",
        )
    if weights.version not in (None, folding.version):
        raise InputValueError(
            "`user_weights` are of the model as it was before a fit, an update or a removal:",
            "explain without them once after each",
        )
    if weights.user is not None and weights.user != user:
        raise InputValueError(
            f"`user_weights` are of another user than {shown(userid)}:",
            "explain without them once for each user",
        )


def explained(folding: FoldIn, weights: UserWeights, items: Side, item: int, n: int) -> Explanation:
    """The score of an item: the ``n`` largest contributions of the user's items, and a baseline."""
    store = folding.store
    factors = store.item_factors[item].astype(np.float64)
    if folding.biases:
        factors = np.append(factors, 1)  # which meets the user's bias
    parts, baseline = weights.parts @ factors, float(weights.background @ factors)
    if store.item_biases is not None:  # of the fit, or a prior
        baseline += float(store.item_biases[item])
    greatest = np.argsort(-parts, kind="stable")[:n]
    labels = items.answer(weights.items[greatest])
    listed = list(zip(labels.tolist(), parts[greatest].tolist(), strict=True))
    return Explanation(float(parts.sum()) + baseline, listed, baseline, weights)
