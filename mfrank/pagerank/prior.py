"""What a walk knows of items before any user, added to the scores of factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mfrank.amounts import check_at_least_zero
from mfrank.store.factors import FactorStore

__all__ = ["with_prior"]


def with_prior(store: FactorStore, weight: float, prior: FactorStore | None = None) -> FactorStore:
    """The store with ``weight`` times the log of the items' prior added to their biases.

    Scores become p_x . q_y + b_y + weight log(prior of y); the ranking of
    ``Recommender.of(with_prior(als.store, 0.1, page_rank.store))``. Tune the weight on held-out
    interactions; it is in units of the store's scores. Items of prior 0 are taken for half as
    likely as the least likely of the others.

    Parameters
    ----------
    store : FactorStore
        Of any fitter.
    weight : float
        >= 0.
    prior : FactorStore, optional
        Has the ``item_prior``, for the same items; left out, the store itself.

    Raises
    ------
    TypeError, ValueError
        There is no prior, or one of other items, or the weight is none.
    """
    check_at_least_zero(weight=weight)
    source = store if prior is None else prior
    if not isinstance(source, FactorStore):
        raise TypeError(f"prior must be a FactorStore, such as model.store; got {source!r}")
    if source.item_prior is None:
        raise ValueError(
            f"there is no item_prior in {source!r}; a SupervisedPageRank's store has one"
        )
    if source.item_ids != store.item_ids:
        raise ValueError(
            f"prior is of other items than the store: {len(source.item_ids)} and "
            f"{len(store.item_ids)} of them; fit both to data of the same item ids"
        )
    values = source.item_prior.astype(np.float64)
    if values.min() < 0 or values.max() <= 0:
        raise ValueError("item_prior must not be negative, and some of it above 0")
    logs = np.log(np.where(values > 0, values, values[values > 0].min() / 2))
    own = 0.0 if store.item_biases is None else store.item_biases.astype(np.float64)
    return replace(store, item_biases=own + weight * logs, item_prior=source.item_prior)
