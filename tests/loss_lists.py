"""Users' lists with scores that several test files share, and what is true of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mfrank.lists import Lists
from mfrank.trainers import Loss, Sizes, Slopes

Scores = NDArray[np.float64]

N_LIKES, N_OTHERS = (3, 1, 4), (6, 8, 2)
SIZES = Sizes(cells=sum(N_LIKES), users=3, items=5)
LIST_FIELDS = (
    "gains",
    "others",
    "n_likes",
    "n_items",
    "ideal",
    "cells",
    "users",
    "liked_items",
    "between",
)


def whole_lists(seed: int = 0) -> tuple[Lists, Scores, Scores]:
    """Three users' whole lists of up to four likes and eight others, padded, with scores."""
    rng = np.random.default_rng(seed)
    gains, others = np.zeros((3, 4)), np.zeros((3, 8), dtype=bool)
    for user, (likes, rest) in enumerate(zip(N_LIKES, N_OTHERS, strict=True)):
        gains[user, :likes] = 2.0 ** rng.integers(1, 4, likes) - 1
        others[user, :rest] = True
    best_first = -np.sort(-gains, axis=1)
    lists = Lists(
        gains=gains,
        others=others,
        n_likes=np.array(N_LIKES, dtype=float),
        n_items=np.array(N_LIKES, dtype=float) + N_OTHERS,
        ideal=(best_first / np.log2(np.arange(2, 6))).sum(1),
        cells=np.where(gains > 0, np.cumsum(gains > 0).reshape(gains.shape) - 1, -1),
        users=np.arange(3),
        liked_items=np.arange(12).reshape(3, 4) % SIZES.items,  # some by two users
        between=np.random.default_rng([seed, 1]).normal(size=(3, 4, 8)),
    )
    return lists, rng.normal(size=(3, 4)), rng.normal(size=(3, 8))


def long_lists(users: int, n_likes: int, n_others: int) -> tuple[Lists, Scores, Scores]:
    """Users' whole lists of so many places, none of them padding, with scores."""
    rng = np.random.default_rng(0)
    lists = Lists(
        gains=np.ones((users, n_likes)),
        others=np.ones((users, n_others), dtype=bool),
        n_likes=np.full(users, float(n_likes)),
        n_items=np.full(users, float(n_likes + n_others)),
        ideal=np.full(users, (1 / np.log2(2 + np.arange(n_likes))).sum()),
        cells=np.arange(users * n_likes).reshape(users, n_likes),
        users=np.arange(users),
    )
    return lists, rng.normal(size=(users, n_likes)), rng.normal(size=(users, n_others))


def single_like() -> tuple[Lists, Scores, Scores]:
    """The whole list of the user who likes one item."""
    lists, likes, others = whole_lists()
    only = {name: getattr(lists, name)[1:2] for name in LIST_FIELDS}
    return replace(lists, **only), likes[1:2], others[1:2]


def slopes(loss: Loss, lists: Lists, likes: Scores, others: Scores) -> Slopes:
    return loss.slopes(lists, likes, others, loss.memory(SIZES))


def derivative(f: Callable[[Scores], float], at: Scores) -> Scores:
    """Central differences."""
    found, step = np.zeros_like(at), 1e-6
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        found[place] = (f(up) - f(down)) / (2 * step)
    return found


def metrics(lists: Lists, likes: Scores, others: Scores) -> tuple[Scores, Scores]:
    """NDCG and average precision of each user, from the order of its scores."""
    ndcg, precision = [], []
    for user in range(len(likes)):
        gains = np.concatenate([lists.gains[user], np.zeros(others.shape[1])])
        there = np.concatenate([lists.likes[user], lists.others[user]])
        order = np.argsort(-np.concatenate([likes[user], others[user]])[there])
        ranked = gains[there][order]
        discounted = ranked / np.log2(np.arange(2, len(ranked) + 2))
        ndcg.append(discounted.sum() / lists.ideal[user])
        hits = np.flatnonzero(ranked)
        precision.append(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))
    return np.array(ndcg), np.array(precision)
