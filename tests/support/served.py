"""A store that is served, and every call that takes arrays of any library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from problems import toy

import mfrank
from mfrank.data import Counts, Ids

N_USERS, N_ITEMS, WIDTH = 11, 23, 5


class Producer:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array: NDArray[Any], memory: int = 1) -> None:
        self.array, self.memory = array, memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory, 0

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)


def store(seed: int = 0, place: Any = np.asarray, labels: bool = False) -> mfrank.FactorStore:
    rng = np.random.default_rng(seed)
    users, items = (rng.standard_normal((n, WIDTH)) for n in (N_USERS, N_ITEMS))
    users[1], items[4] = 0, items[3]  # a row without a direction, two with the same
    names = [f"item-{i}" for i in range(N_ITEMS)]
    return mfrank.FactorStore(
        place(users),
        place(items),
        Ids.numbered(N_USERS),
        Ids.of(names) if labels else Ids.numbered(N_ITEMS),
        counts=Counts(np.zeros(N_USERS, int), np.zeros(N_ITEMS, int)),
        user_biases=place(rng.standard_normal(N_USERS)),
        item_biases=place(rng.standard_normal(N_ITEMS)),
    )


def serving(held: mfrank.FactorStore, backend: str) -> mfrank.Recommender:
    model = mfrank.Recommender.of(held)
    model.backend = backend
    return model


STEER = mfrank.Steering(
    popularity_penalty=0.5,
    categories={i: i % 5 for i in range(N_ITEMS)},
    at_most=1,
    diversity=0.3,
    calibration=0.3,
    pool=3,
)

CALLS = {
    "recommend": lambda model, ids, more: model.recommend(
        ids, N=6, filter_already_liked_items=False, filter_items=more
    ),
    "recommend for the seen": lambda model, ids, more: model.recommend(
        ids, toy(N_USERS, N_ITEMS), N=30, items=more
    ),
    "recommend, steered": lambda model, ids, more: model.recommend(
        ids, toy(N_USERS, N_ITEMS), N=6, filter_items=more, steer=STEER
    ),
    "recommend_users": lambda model, ids, more: model.recommend_users(
        ids, N=4, filter_already_liked_users=False
    ),
    "similar_items": lambda model, ids, more: model.similar_items(ids, N=6, filter_items=more),
    "similar_users": lambda model, ids, more: model.similar_users(ids, N=20),
    "score": lambda model, ids, more: (model.score(ids, more),),
}
