"""Recommendations as a table: a row for each item of each user's list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.retrieval.recommender import Recommender

__all__ = ["listing"]


def listing(
    model: Recommender, users: NDArray[Any], n: int = 10, **how: Any
) -> dict[str, NDArray[Any]]:
    """Columns user, rank (from 1), item and score of the users' best ``n`` items.

    ``how`` goes to :meth:`mfrank.Recommender.recommend`. Lists that end early have fewer rows.
    """
    items, scores = model.recommend(users, N=n, **how)
    there = ~np.isnan(scores)
    of_user, rank = np.nonzero(there)
    return {
        "user": users[of_user],
        "rank": rank + 1,
        "item": items[there],
        "score": scores[there],
    }
