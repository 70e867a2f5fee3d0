"""Concatenate two stores into one with weighted sums of their scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_at_least_zero, check_instance
from mfrank.data import Counts
from mfrank.errors import InputValueError
from mfrank.store import contents as extra_rows
from mfrank.store.cold_rows import has_features, joins_weights
from mfrank.store.factors import FactorStore

_SIDES = ("users", "items")
_WITH_ITEMS = "ItemBlend"
"""The class that ranks by a blend with weights between items."""


def blend(store: FactorStore, other: FactorStore, weight: float) -> FactorStore:
    """Combine two stores into one that scores ``store`` plus ``weight`` times ``other``.

    The factors are concatenated, so the blend is an ordinary store: it gives exact top-K lists by
    one matrix product, and is saved, loaded and evaluated like any other. Models with different
    errors, such as an :class:`mfrank.ALS` and a :class:`mfrank.Descent` with cosine scores, rank
    better together than alone. Tune the weight on held-out interactions.

    Parameters
    ----------
    store, other : FactorStore
        Stores of the same users and items in the same order, such as ``model.store``. At least one
        model must score by products of factors; the other may be an :class:`mfrank.ItemFilter`,
        :class:`mfrank.EASE` or :class:`mfrank.ItemKNN`, but not a
        :class:`mfrank.SupervisedPageRank`.
    weight : float
        Finite and >= 0; multiplies the scores of ``other``.

    Returns
    -------
    FactorStore
        In numpy, as wide as both together, without history.

        - Dtype, prior and versions are from ``store``, or from ``other`` if only it has factors.
        - An item that only one of the two fits had is ranked by that one; counts are the maximum.
        - There are no extras, except for weights between items: then :class:`mfrank.ItemBlend`
          ranks by the store, and ``mfrank.load`` of a saved blend returns an ItemBlend.

    Raises
    ------
    TypeError, ValueError
        An argument is not a FactorStore, ids differ, one store belongs to a walk, neither has
        factors, or the weight is negative or not finite.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> als = mfrank.ALS(factors=8, random_state=0).fit(data)
    >>> cosines = mfrank.Descent(mfrank.SampledSoftmax(), 8, 2, scores="cosine", temperature=0.1)
    >>> both = mfrank.blend(als.store, cosines.fit(data, start=als).store, 0.2)
    >>> both.factors
    16
    """
    check_at_least_zero(weight=weight)
    for name, one in (("store", store), ("other", other)):
        check_instance(name, one, FactorStore, "a FactorStore, such as model.store")
        _refuse_walks(name, one)
    if not any(ranks_by_factors(one) for one in (store, other)):
        raise InputValueError(
            "`store` and `other` are both of weights between items",
            "blend one of them with a model with factors, such as ALS, first",
        )
    for name in ("user_ids", "item_ids"):
        if getattr(store, name) != getattr(other, name):
            raise InputValueError(
                f"`{name}` of the two stores differ", "fit both to data of the same users and items"
            )
    both = [store.on_host(), other.on_host()]
    if weight:
        both = _without_unmet(*both)
    parts = list(zip(both, (1.0, float(weight)), strict=True))
    rows = [each for part, times in parts for each in _item_rows(part, times)]
    first, *more = [(part, times) for part, times in parts if ranks_by_factors(part)]
    made, scale = first
    if scale != 1:
        made = replace(made, **_times(made, scale, made))
    for part, times in more:
        made = _beside(made, part, times)
    options: dict[str, Any] = {
        "weight": float(weight),
        "of": [part.fitter["name"] for part, _ in parts],
    }
    for side in ("user", "item"):
        if any(has_features(part, side) for part, _ in parts):
            options[f"{side}_features"] = True
    weights, values = zip(*rows, strict=True) if rows else ((), ())
    threshold = store.threshold if store.threshold == other.threshold else None
    where = store.where if store.where == other.where else {}
    of_events = store.event_weights if store.event_weights == other.event_weights else {}
    weightings = store.weightings if store.weightings == other.weightings else ()
    return replace(
        made,
        counts=(_counts(*both) if weight else None) or made.counts,
        fitter={"name": _WITH_ITEMS if rows else "blend", "options": options},
        history=(),
        threshold=threshold,
        where=where,
        event_weights=of_events,
        weightings=weightings,
        extras=extra_rows.pack_neighbors(
            sp.csr_array(sp.vstack(weights, format="csr")),
            sp.csr_array(sp.hstack(values, format="csr")),
        )
        if rows
        else {},
    )


def check_ranks_by_factors(store: FactorStore, remedy: str) -> None:
    """Raise ValueError unless the model ranks by its factors alone.

    ``remedy`` ends the message.
    """
    refuse_reranked(store)
    if not extra_rows.has_rows(store.extras):
        return
    name = store.fitter["name"]
    what = "weights between items" if has_item_weights(store) else "a walk on items"
    only = f"{what} beside its factors" if joins_weights(store) else f"{what}, not by its factors"
    raise InputValueError(f"`store` is of {name}, which ranks by {only}", f"{remedy}")


def refuse_reranked(store: FactorStore) -> None:
    """Raise ValueError if a store is that of a Reranker, whose lists it does not make."""
    if "second_stage" in store.fitter["options"]:
        raise InputValueError(
            f"`store` is of {store.fitter['name']}, which ranks by trees that are not in it",
            "pass the store of its first stage, as of reranker.model, or write lists by "
            "recommend_all",
        )


def has_item_weights(store: FactorStore) -> bool:
    """Whether there are weights between items (:func:`mfrank.store.contents.pack_neighbors`)."""
    return "neighbors_indptr" in store.extras


def ranks_by_factors(store: FactorStore) -> bool:
    """Whether the scores are products of the factors; otherwise these are a placeholder."""
    return joins_weights(store) or not extra_rows.has_rows(store.extras)


def _without_unmet(*both: FactorStore) -> list[FactorStore]:
    """The stores, with 0 for the factors of items that are cold in one and known in the other.

    Such factors come from the background or were drawn at random: in a blend they are noise.
    """
    unmet = [
        np.zeros(part.n_items, dtype=bool) if part.unmet_items is None else part.unmet_items
        for part in both
    ]
    known = []
    for part, own, other in zip(both, unmet, unmet[::-1], strict=True):
        noise = own & ~other
        changed: dict[str, Any] = {
            name: np.where(noise.reshape(-1, *[1] * (table.ndim - 1)), 0, table).astype(table.dtype)
            for name in ("item_factors", "item_biases")
            if (table := getattr(part, name)) is not None
        }
        known.append(replace(part, **changed) if noise.any() else part)
    return known


def _counts(store: FactorStore, other: FactorStore) -> Counts | None:
    """The larger counts of the two fits, one of which may be later; None if either has none."""
    if store.counts is None or other.counts is None:
        return None
    pairs = ((getattr(each, side) for each in (store.counts, other.counts)) for side in _SIDES)
    return Counts(*(np.maximum(*pair) for pair in pairs))


def _item_rows(store: FactorStore, weight: float) -> list[tuple[sp.csr_array, sp.csr_array]]:
    """A store's weights between items, and its users' values times ``weight``; none without."""
    if not extra_rows.has_rows(store.extras):
        return []
    weights, values = extra_rows.unpack_neighbors(store.extras, store.n_users, store.n_items)
    return [(weights, sp.csr_array(values * weight))]


def _beside(store: FactorStore, other: FactorStore, weight: float) -> FactorStore:
    """The factors of both, side by side."""
    added = _times(other, weight, store)
    return replace(
        store,
        user_factors=np.hstack([store.user_factors, added["user_factors"]]),
        item_factors=np.hstack([store.item_factors, added["item_factors"]]),
        user_biases=_sum(store.user_biases, added["user_biases"]),
        item_biases=_sum(store.item_biases, added["item_biases"]),
    )


def _times(store: FactorStore, weight: float, like: FactorStore) -> dict[str, Any]:
    """Factors and biases whose scores are ``weight`` times those of the store."""
    # The root of the weight on both sides, so that users and items keep similar scales.
    scale = np.sqrt(weight)
    return {
        "user_factors": (scale * store.user_factors).astype(like.dtype),
        "item_factors": (scale * store.item_factors).astype(like.dtype),
        "user_biases": _scaled(store.user_biases, weight),
        "item_biases": _scaled(store.item_biases, weight),
    }


def _refuse_walks(name: str, store: FactorStore) -> None:
    """Raise ValueError if the scores are neither products of factors nor weights between items."""
    refuse_reranked(store)
    if extra_rows.has_rows(store.extras) and not has_item_weights(store):
        raise InputValueError(
            f"`{name}` is of {store.fitter['name']}, whose scores are no products of factors",
            "blend models with factors, such as ALS and Descent, or add its prior with "
            "mfrank.with_prior",
        )


def _scaled(biases: NDArray[Any] | None, weight: float) -> NDArray[Any] | None:
    return None if biases is None else weight * biases.astype(np.float64)


def _sum(own: NDArray[Any] | None, other: NDArray[Any] | None) -> NDArray[Any] | None:
    if own is None or other is None:
        return other if own is None else own
    total: NDArray[Any] = own + other
    return total
