"""A split by users, to evaluate a model on users it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_count, check_instance, is_count, share
from mfrank.arrays.random import Seed, generator
from mfrank.data.interactions import Interactions
from mfrank.data.row_portions import rank_in_rows, round_at_random

__all__ = ["HeldOut", "HeldOutSplit", "held_out_users"]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Entries of users who have none in the training part.

    Attributes
    ----------
    users : int64, shape (n,)
        Row numbers of these users, ascending.
    fold_in : Interactions
        Entries from which a model folds these users in.
    target : Interactions
        Entries that it has to predict.
    """

    users: NDArray[np.int64]
    fold_in: Interactions
    target: Interactions


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutSplit:
    """A split by users: ``train`` contains all entries of the users who are not held out.

    Attributes
    ----------
    train : Interactions
        Entries of the training users.
    valid, test : HeldOut
        Entries of the held-out users; ``valid`` is empty unless it was requested.
    """

    train: Interactions
    valid: HeldOut
    test: HeldOut


def held_out_users(
    interactions: Interactions,
    *,
    test: float,
    valid: float = 0,
    fold_in: float = 0.8,
    random_state: Seed = 0,
) -> HeldOutSplit:
    """Split by users, the strong generalization of Liang et al. (2018).

    The entries of held-out users are divided at random into a fold-in and a target part, rounded as
    in :func:`mfrank.by_ratio`; a user with one entry has no target. Unlike in Liang et al., target
    entries of items without training entries are kept: every model misses them, and the parts stay
    a partition.

    Parameters
    ----------
    interactions : Interactions
        Interactions to split.
    test, valid : int or float
        Users to hold out, drawn from the users with entries: an int is their number, a float in
        (0, 1) a fraction of these users, rounded. ``valid`` is 0 by default.
    fold_in : float, default 0.8
        Fraction of a held-out user's entries to fold in, in (0, 1). The default is Liang et al.'s.
    random_state : int, Generator or None, default 0
        Seed.

    Raises
    ------
    ValueError
        If a number or fraction is out of range, or no user is left to train on.
    """
    check_instance(
        "interactions", interactions, Interactions, "Interactions, such as Interactions.of(matrix)"
    )
    share("fold_in", fold_in)
    rng = generator(random_state)
    counts = interactions.counts.users
    active = np.flatnonzero(counts)
    n_test = _number_of_users(test, len(active), "test")
    n_valid = _number_of_users(valid, len(active), "valid")
    if n_test + n_valid >= max(len(active), 1):
        raise ValueError(
            f"test and valid hold out {n_test} + {n_valid} of the {len(active)} users with "
            "entries: none is left to train on. Hold out fewer"
        )
    n_fold_in = np.maximum(round_at_random(counts * fold_in, rng.random(len(counts))), 1)
    rank = rank_in_rows(interactions.user_items.indptr, rng.random(interactions.nnz))
    in_fold_in = rank < np.repeat(n_fold_in, counts)

    def entries_of(users: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen = np.zeros(len(counts), bool)
        chosen[users] = True
        return np.repeat(chosen, counts)

    def held_out(users: NDArray[np.int64]) -> HeldOut:
        own = entries_of(users)
        given, target = interactions.take(own & in_fold_in), interactions.take(own & ~in_fold_in)
        return HeldOut(np.sort(users), given, target)

    test_users, valid_users, train_users = np.split(
        rng.permutation(active), [n_test, n_test + n_valid]
    )
    train = interactions.take(entries_of(train_users))
    return HeldOutSplit(train, held_out(valid_users), held_out(test_users))


def _number_of_users(amount: float, n_users: int, name: str) -> int:
    if is_count(amount):
        check_count(name, int(amount), 0)
        return int(amount)
    return round(n_users * share(name, amount, "a number of users (int) or "))
