"""A split by users: what a model does for users that it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.amounts import check_count, is_count, share
from mfrank.data.interactions import Interactions
from mfrank.data.portions import rank_in_rows, round_at_random
from mfrank.seeds import Seed, generator

__all__ = ["HeldOut", "HeldOutSplit", "held_out_users"]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Entries of users whom the training part does not know.

    Attributes
    ----------
    users : int64, shape (n,)
        Rows of these users, ascending.
    fold_in : Interactions
        What a model is told about them: it folds them in from these entries.
    target : Interactions
        What it has to predict.
    """

    users: NDArray[np.int64]
    fold_in: Interactions
    target: Interactions


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutSplit:
    """A split by users: ``train`` holds all entries of the users that are not held out.

    Attributes
    ----------
    train : Interactions
        Entries of the training users.
    valid, test : HeldOut
        The held-out users' entries; ``valid`` has no users where none were asked for.
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
    in :func:`mfrank.by_ratio`; a user of one entry has no target. Unlike Liang et al. no
    target entry is dropped because its item was never trained on: any model misses such items
    alike, and the parts stay a partition.

    Parameters
    ----------
    interactions : Interactions
        What to split.
    test, valid : int or float
        Users to hold out: an int is their number, a float in (0, 1) a share of the users that
        have entries, rounded. They are drawn among these. ``valid`` is 0 by default.
    fold_in : float, default 0.8
        Share of a held-out user's entries given to fold the user in, in (0, 1); Liang et al.'s.
    random_state : int, Generator or None, default 0
        Seed.

    Raises
    ------
    ValueError
        If a number or share is out of range, or no user is left to train on.
    """
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
    told = rank < np.repeat(n_fold_in, counts)

    def entries_of(users: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen = np.zeros(len(counts), bool)
        chosen[users] = True
        return np.repeat(chosen, counts)

    def held_out(users: NDArray[np.int64]) -> HeldOut:
        theirs = entries_of(users)
        known, unknown = interactions.take(theirs & told), interactions.take(theirs & ~told)
        return HeldOut(np.sort(users), known, unknown)

    test_users, valid_users, others = np.split(rng.permutation(active), [n_test, n_test + n_valid])
    train = interactions.take(entries_of(others))
    return HeldOutSplit(train, held_out(valid_users), held_out(test_users))


def _number_of_users(amount: float, n_users: int, name: str) -> int:
    if is_count(amount):
        check_count(name, int(amount), 0)
        return int(amount)
    return round(n_users * share(name, amount, "a number of users (int) or "))
