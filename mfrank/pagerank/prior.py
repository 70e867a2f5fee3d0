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
    ``Recommender.of(with_prior(als.store, 0.1, page_rank.store))``. It is in units of the store's
    scores, so tune it on validation data, as below. Items of prior 0 are taken for half as likely
    as the least likely of the others.

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

    Examples
    --------
    The weight that ranks the validation part best, by the users' NDCG, 0 being one of them:

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
    if not isinstance(source, FactorStore):
        raise TypeError(f"prior must be a FactorStore, such as model.store; got {source!r}")
    source, store = source.on_host(), store.on_host()
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
