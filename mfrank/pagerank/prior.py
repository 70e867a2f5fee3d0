"""Adds the log of an item prior, such as a walk's, to the scores of factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mfrank.arrays.checks import check_at_least_zero, check_instance, shown
from mfrank.store.blend import ranks_by_factors
from mfrank.store.factors import FactorStore

__all__ = ["with_prior"]


def with_prior(store: FactorStore, weight: float, prior: FactorStore | None = None) -> FactorStore:
    """Return the store with ``weight`` times the log of the item prior added to its item biases.

    Scores become p_x . q_y + b_y + weight log(prior of y), and
    ``Recommender.of(with_prior(als.store, 0.1, page_rank.store))`` ranks by them. The best weight
    depends on the scale of the scores: tune it on validation data, as below. Items with a prior of
    0 are treated as half as likely as the least likely other item.

    Parameters
    ----------
    store : FactorStore
        Of a model that ranks by its factors, or of a blend.
    weight : float
        >= 0.
    prior : FactorStore, optional
        Store with the ``item_prior`` of the same items; default: ``store`` itself.

    Raises
    ------
    TypeError, ValueError
        There is no prior, its items differ from the store's, or the weight is invalid; or the store
        is of a model that would not read the prior, such as :class:`mfrank.EASE`.

    Examples
    --------
    Choose the weight, possibly 0, that gives the best NDCG on the validation part:

    >>> import dataclasses, mfrank
    >>> from mfrank.pagerank.prior import with_prior
    >>> data = mfrank.synthetic(60, 40, 600, random_state=0)
    >>> split = mfrank.by_ratio(data, random_state=0)
    >>> als = mfrank.ALS(factors=4, iterations=3, random_state=0).fit(split.train).store
    >>> by_users = als.counts.items / als.counts.items.sum()  # or a SupervisedPageRank's store
    >>> known = dataclasses.replace(als, item_prior=by_users)
    >>> def ndcg(weight):
    ...     blended = mfrank.Recommender.of(with_prior(als, weight, known))
    ...     return mfrank.evaluate(blended, split.valid, train=split.train)["ndcg@10"].value
    >>> best = max((0, 0.01, 0.03, 0.1, 0.3), key=ndcg)
    """
    check_at_least_zero(weight=weight)
    source = store if prior is None else prior
    for name, one in (("store", store), ("prior", source)):
        check_instance(name, one, FactorStore, "a FactorStore, such as model.store")
    if not ranks_by_factors(store):
        raise ValueError(
            f"store is of {store.fitter['name']}, which ranks by other things than its factors, so "
            "that a prior would change nothing; give a model with factors, such as ALS, or a blend"
        )
    source, store = source.on_host(), store.on_host()
    if source.item_prior is None:
        raise ValueError(
            f"there is no item_prior in {shown(source)}; a SupervisedPageRank's store has one"
        )
    if source.item_ids != store.item_ids:
        raise ValueError(
            f"prior and store have different items ({len(source.item_ids)} and "
            f"{len(store.item_ids)}); fit both to data with the same item ids"
        )
    values = source.item_prior.astype(np.float64)
    if values.min() < 0 or values.max() <= 0:
        raise ValueError("item_prior must be >= 0, with at least one value above 0")
    logs = np.log(np.where(values > 0, values, values[values > 0].min() / 2))
    own = 0.0 if store.item_biases is None else store.item_biases.astype(np.float64)
    return replace(store, item_biases=own + weight * logs, item_prior=source.item_prior)
