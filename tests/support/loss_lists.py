"""Users' lists with scores that several test files share, and what is true of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mfrank.losses import WRITTEN_OUT, Gradients, Lists, ListSums, Loss, Sizes

Scores = NDArray[np.float64]

N_POSITIVES, N_NEGATIVES = (3, 1, 4), (6, 8, 2)
SIZES = Sizes(cells=sum(N_POSITIVES), users=3, items=5)
LIST_FIELDS = (
    "gains",
    "negatives",
    "n_positives",
    "n_items",
    "ideal",
    "cells",
    "users",
    "positive_items",
    "pair_scores",
)


def whole_lists(
    seed: int = 0,
    sums: ListSums = WRITTEN_OUT,
    n_positives: tuple[int, ...] = N_POSITIVES,
    n_negatives: tuple[int, ...] = N_NEGATIVES,
) -> tuple[Lists, Scores, Scores]:
    """Three users' whole lists of up to four likes and eight others, padded, with scores."""
    rng = np.random.default_rng(seed)
    gains, negatives = np.zeros((3, 4)), np.zeros((3, 8), dtype=bool)
    for user, (positives, rest) in enumerate(zip(n_positives, n_negatives, strict=True)):
        gains[user, :positives] = 2.0 ** rng.integers(1, 4, positives) - 1
        negatives[user, :rest] = True
    best_first = -np.sort(-gains, axis=1)
    lists = Lists(
        gains=gains,
        negatives=negatives,
        n_positives=np.array(n_positives, dtype=float),
        n_items=np.array(n_positives, dtype=float) + n_negatives,
        ideal=(best_first / np.log2(np.arange(2, 6))).sum(1),
        cells=np.where(gains > 0, np.cumsum(gains > 0).reshape(gains.shape) - 1, -1),
        users=np.arange(3),
        sums=sums,
        positive_items=np.arange(12).reshape(3, 4) % SIZES.items,  # some by two users
        pair_scores=np.random.default_rng([seed, 1]).normal(size=(3, 4, 8)),
    )
    return lists, rng.normal(size=(3, 4)), rng.normal(size=(3, 8))


def long_lists(
    users: int, n_positives: int, n_negatives: int, sums: ListSums = WRITTEN_OUT
) -> tuple[Lists, Scores, Scores]:
    """Users' whole lists of so many places, none of them padding, with scores."""
    rng = np.random.default_rng(0)
    lists = Lists(
        gains=np.ones((users, n_positives)),
        negatives=np.ones((users, n_negatives), dtype=bool),
        n_positives=np.full(users, float(n_positives)),
        n_items=np.full(users, float(n_positives + n_negatives)),
        ideal=np.full(users, (1 / np.log2(2 + np.arange(n_positives))).sum()),
        cells=np.arange(users * n_positives).reshape(users, n_positives),
        users=np.arange(users),
        sums=sums,
    )
    return lists, rng.normal(size=(users, n_positives)), rng.normal(size=(users, n_negatives))


def single_like(sums: ListSums = WRITTEN_OUT) -> tuple[Lists, Scores, Scores]:
    """The whole list of the user who likes one item."""
    lists, positives, negatives = whole_lists(sums=sums)
    only = {name: getattr(lists, name)[1:2] for name in LIST_FIELDS}
    return replace(lists, **only), positives[1:2], negatives[1:2]


def gradients(loss: Loss, lists: Lists, positives: Scores, negatives: Scores) -> Gradients:
    return loss.gradients(lists, positives, negatives, loss.memory(SIZES))


def derivative(f: Callable[[Scores], float], at: Scores) -> Scores:
    """Central differences."""
    found, step = np.zeros_like(at), 1e-6
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        found[place] = (f(up) - f(down)) / (2 * step)
    return found


def metrics(lists: Lists, positives: Scores, negatives: Scores) -> tuple[Scores, Scores]:
    """NDCG and average precision of each user, from the order of its scores."""
    ndcg, precision = [], []
    for user in range(len(positives)):
        gains = np.concatenate([lists.gains[user], np.zeros(negatives.shape[1])])
        there = np.concatenate([lists.positives[user], lists.negatives[user]])
        order = np.argsort(-np.concatenate([positives[user], negatives[user]])[there])
        ranked = gains[there][order]
        discounted = ranked / np.log2(np.arange(2, len(ranked) + 2))
        ndcg.append(discounted.sum() / lists.ideal[user])
        hits = np.flatnonzero(ranked)
        precision.append(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))
    return np.array(ndcg), np.array(precision)
