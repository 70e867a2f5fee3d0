"""Recommendations as a table: one row per item of each user's list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.retrieval.recommender import Recommender

__all__ = ["listing"]


def listing(
    model: Recommender, users: NDArray[Any], n: int = 10, **options: Any
) -> dict[str, NDArray[Any]]:
    """Columns user, rank (from 1), item and score of the users' best ``n`` items.

    ``options`` are passed to :meth:`mfrank.Recommender.recommend`. Shorter lists have fewer rows.
    """
    items, scores = model.recommend(users, N=n, **options)
    listed = ~np.isnan(scores)
    of_user, rank = np.nonzero(listed)
    return {
        "user": users[of_user],
        "rank": rank + 1,
        "item": items[listed],
        "score": scores[listed],
    }
