"""Small rerankers, and what they are fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als

import mfrank
from mfrank.data import Counts, Ids
from mfrank.models import Reranker
from mfrank.retrieval import Recommender
from mfrank.store import FactorStore

CATBOOST = "the extra rerank is not installed"


N_USERS, N_ITEMS = 60, 30


def store_of(rng: np.random.Generator, users: int, items: int, **more: Any) -> FactorStore:
    counts = Counts(rng.integers(0, 9, users), rng.integers(0, 9, items))
    p, q = rng.normal(size=(users, 3)), rng.normal(size=(items, 3))
    p[0], q[0] = 0, 0
    return FactorStore(p, q, Ids.numbered(users), Ids.numbered(items), counts=counts, **more)


def random_split(names: bool = True, seed: int = 0) -> mfrank.Split:
    """Random interactions, some of each user's held out; ids that are no row numbers."""
    rng = np.random.default_rng(seed)
    data = mfrank.Interactions.from_sparse(
        sp.csr_array((rng.random((N_USERS, N_ITEMS)) < 0.4).astype(float)),
        user_ids=[f"u{r}" for r in range(N_USERS)] if names else None,
        item_ids=[f"i{r}" for r in range(N_ITEMS)] if names else None,
    )
    return mfrank.by_ratio(data, train=0.5, valid=0.3, test=0.2, random_state=seed)


def small(model: Recommender, **options: Any) -> Reranker:
    few = {"candidates": 12, "iterations": 5, "depth": 3, "random_state": 0, "n_threads": 2}
    return Reranker(model, **(few | options))


def fitted(names: bool = True, **options: Any) -> tuple[Reranker, mfrank.Split]:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split(names)
    return small(als().fit(split.train), **options).fit(split.train, split.valid), split
