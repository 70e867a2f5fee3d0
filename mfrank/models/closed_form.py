"""Rows solved in closed form: new users and items, and explanations of a user's scores."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mfrank.als import Explanation, FoldIn, QuadraticObjective, UserWeights, refuse_dislikes
from mfrank.arrays import CSR, shown
from mfrank.backends import Factors
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError, within
from mfrank.models.odd_updates import tell_scale_of_rows
from mfrank.models.options import OPTION_KINDS, option_classes
from mfrank.models.parameters import is_of, restore
from mfrank.retrieval import Matrix, ModelState, Raw, Seen, Side, given_rows
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
            "interactions"
        )
    return seen


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
    if user_items is not None:
        tell_scale_of_rows("user_items", rows.data, held.seen, folding.objective)
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
