"""Concatenation of two stores into one whose scores are weighted sums of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_at_least_zero, check_instance
from mfrank.store import extra_rows
from mfrank.store.factors import FactorStore

__all__ = ["blend"]


def blend(store: FactorStore, other: FactorStore, weight: float) -> FactorStore:
    """Combine two stores into one that scores ``store`` plus ``weight`` times ``other``.

    The factors are concatenated, so the blend is an ordinary store: exact top-K by one matrix
    product, saved, loaded and evaluated like any other. Models that err differently, such as an
    :class:`mfrank.ALS` and a :class:`mfrank.Descent` with cosine scores, rank better together than
    either does alone. Tune the weight on held-out interactions.

    Parameters
    ----------
    store, other : FactorStore
        Of the same users and items in the same order, such as ``model.store``. Both of models whose
        scores are products of factors, so not of :class:`mfrank.ItemKNN` or
        :class:`mfrank.SupervisedPageRank`.
    weight : float
        Finite and >= 0; scales the scores of ``other`` to those of ``store``.

    Returns
    -------
    FactorStore
        In numpy, as wide as both together; its dtype, counts, prior and versions are those of
        ``store``, and it has no history and no extras.

    Raises
    ------
    TypeError, ValueError
        An argument is not a FactorStore, the stores' ids differ, the scores of one are no products
        of its factors, or the weight is negative or not finite.

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
        _refuse_stand_in(name, one)
    for name in ("user_ids", "item_ids"):
        if getattr(store, name) != getattr(other, name):
            raise ValueError(
                f"{name} of the two stores differ; fit both to data of the same users and items"
            )
    store, other = store.on_host(), other.on_host()
    # The root of the weight on both sides, so that users and items keep similar scales.
    scale = np.sqrt(weight)
    return replace(
        store,
        user_factors=np.hstack([store.user_factors, _scaled(other.user_factors, scale, store)]),
        item_factors=np.hstack([store.item_factors, _scaled(other.item_factors, scale, store)]),
        user_biases=_sum(store.user_biases, other.user_biases, weight),
        item_biases=_sum(store.item_biases, other.item_biases, weight),
        fitter={
            "name": "blend",
            "options": {
                "weight": float(weight),
                "of": [store.fitter["name"], other.fitter["name"]],
            },
        },
        history=(),
        extras={},
    )


def _refuse_stand_in(name: str, store: FactorStore) -> None:
    """Raise ValueError if the factors are not what the model scores by."""
    if extra_rows.has_rows(store.extras):
        prior = "" if store.item_prior is None else ", or add its prior with mfrank.with_prior"
        raise ValueError(
            f"{name} is of {store.fitter['name']}, whose scores are no products of factors; blend "
            f"models with factors, such as ALS and Descent{prior}"
        )


def _scaled(factors: NDArray[Any], scale: float, like: FactorStore) -> NDArray[Any]:
    return (scale * factors).astype(like.dtype)


def _sum(
    own: NDArray[Any] | None, other: NDArray[Any] | None, weight: float
) -> NDArray[Any] | None:
    if other is None:
        return own
    weighted: NDArray[Any] = weight * other.astype(np.float64)
    return weighted if own is None else own + weighted
