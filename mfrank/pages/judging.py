"""Evaluation of one or more models by held-out items of a sample of users, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.data import (
    Groups,
    Ids,
    Interactions,
    groups_by_activity,
    groups_by_popularity,
    not_in,
    select,
)
from mfrank.evaluation import NDCG, Evaluation, HitRate, Recall, evaluate, relevant_of
from mfrank.retrieval import Recommender

LENGTH = 10
"""Of the lists that are evaluated."""
METRICS = NDCG @ LENGTH, Recall @ LENGTH, HitRate @ LENGTH

MOST_USERS, MOST_SECONDS, _FIRST_USERS = 5_000, 15.0, 100

Rows = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """Evaluations of one or more models by the same users and test items, which can be compared.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        One for each model. Their users are those of ``users``, numbered from 0; their groups of
        items are ``popularity``.
    users : int64, shape (n_judged,)
        Rows of the first model.
    held_out : int64, shape (n_judged,)
        Number of held-out items of each user.
    n_drawn, n_in_data : int
        Number of users drawn, and of users in the data whom all models know. Drawn users with
        nothing held out are not judged.
    activity : Groups
        Groups of ``users`` by their number of items in the first model's fit.
    popularity : Groups
        Groups of the first model's items by their number of users in its fit.
    counts : int64, shape (n_items,)
        That number of users of each item.
    """

    evaluations: tuple[Evaluation, ...]
    users: Rows
    held_out: Rows
    n_drawn: int
    n_in_data: int
    activity: Groups
    popularity: Groups
    counts: Rows


class _Side:
    """A model, the rows of the data's users and items in it, and what it has seen."""

    def __init__(self, model: Recommender, data: Interactions) -> None:
        assert model.seen is not None
        self.model, self.seen, self.liked = model, model.seen.checked, model.seen.positives
        self.rows = rows_of(data.user_ids, model.user_ids)
        self.columns = rows_of(data.item_ids, model.item_ids)
        self.in_data = rows_of(model.item_ids, data.item_ids)

    def seen_of(self, some: Rows, n_items: int) -> sp.csr_array:
        """Items that the model has seen of some of the data's users, in the data's columns."""
        return in_columns(sp.csr_array(self.seen[self.rows[some]]), self.in_data, n_items)


def judge(
    models: Sequence[Recommender],
    data: Interactions,
    most_users: int = MOST_USERS,
    most_seconds: float = MOST_SECONDS,
) -> Judgement:
    """Evaluate the lists of all models for a sample of users, drawn with a fixed seed.

    The first hundred are timed; the sample is as large as ``most_seconds`` then allow.

    Parameters
    ----------
    models : sequence of Recommender
        With ``seen``.
    data : Interactions
        Held out are the entries with a value above 0 that no model has seen. Users and items that
        any model does not know are left out.
    most_users : int, default 5000
    most_seconds : float, default 15
        For all models.
    """
    sides = [_Side(model, data) for model in models]
    own = sides[0]
    counts = np.bincount(own.liked.indices, minlength=own.liked.shape[1])
    popularity = groups_by_popularity(counts, 3)
    there = np.all([side.rows >= 0 for side in sides], axis=0)
    drawn = np.flatnonzero(there & (np.diff(data.user_items.indptr) > 0))
    drawn = np.random.default_rng(0).permutation(drawn)
    known = np.all([side.columns >= 0 for side in sides], axis=0)

    def first(size: int) -> list[tuple[Evaluation, Rows, Rows]]:
        some = drawn[:size]
        left = data.user_items[some]
        for side in sides:
            left = select(left, not_in(left, side.seen_of(some, len(known))))
        return [
            evaluate_users(
                side.model,
                side.rows[some],
                in_columns(left, np.where(known, side.columns, -1), side.seen.shape[1]),
                side.seen,
                _moved(popularity, rows_of(side.model.item_ids, own.model.item_ids)),
            )
            for side in sides
        ]

    results, n_drawn = paced(first, len(drawn), most_users, most_seconds)
    _, users, held_out = results[0]
    activity = groups_by_activity(np.diff(own.liked.indptr).astype(np.int64), 4)
    return Judgement(
        tuple(evaluation for evaluation, _, _ in results),
        users,
        held_out,
        n_drawn,
        len(drawn),
        Groups(activity.names, activity.of_rows[users]),
        popularity,
        counts,
    )


def paced(
    judge_first: Callable[[int], T], n_drawn: int, most_users: int, most_seconds: float
) -> tuple[T, int]:
    """Judge a hundred users, then as many as the time allows; also return how many."""
    began = time.perf_counter()
    result = judge_first(_FIRST_USERS)
    pace = _FIRST_USERS / max(time.perf_counter() - began, 1e-9)
    size = min(most_users, int(pace * most_seconds))
    if size > _FIRST_USERS < n_drawn:
        result = judge_first(size)
    return result, min(max(size, _FIRST_USERS), n_drawn)


def evaluate_users(
    model: Recommender, users: Rows, test: sp.csr_array, seen: sp.csr_array, popularity: Groups
) -> tuple[Evaluation, Rows, Rows]:
    """Evaluate the users with something held out; also their rows and numbers of held-out items.

    Parameters
    ----------
    test : shape (len(users), n_items)
    seen : shape (n_users, n_items)
    """
    own = sp.csr_array(seen[users])
    blocks = relevant_of(test, CSR.from_scipy(own, None), np.arange(len(users)))
    parts = [(part.users, np.diff(part.items.indptr)) for part in blocks]
    places = np.concatenate([place for place, _ in parts])
    held_out = np.concatenate([count for _, count in parts])

    def recommend(some: Rows, _: Any, N: int) -> Any:
        return model.recommend(users[places][some], N=N, by_row=True)

    evaluation = evaluate(
        recommend, test[places], train=own[places], metrics=METRICS, item_groups=popularity
    )
    return evaluation, users[places], held_out.astype(np.int64)


def rows_of(ids: Ids, known: Ids) -> Rows:
    """The row of each id among the known ids, -1 if none."""
    return np.arange(len(ids)) if ids == known else known.rows(ids.labels, missing=-1)


def in_columns(matrix: sp.csr_array, columns: Rows, n_columns: int) -> sp.csr_array:
    """The matrix with each column moved to ``columns``; -1 leaves one out."""
    cells = sp.coo_array(matrix)
    rows, moved = cells.coords[0], columns[cells.coords[1]]
    stays = moved >= 0
    entries = cells.data[stays], (rows[stays], moved[stays])
    return sp.csr_array(sp.coo_array(entries, (matrix.shape[0], n_columns)))


def _moved(groups: Groups, rows: Rows) -> Groups:
    """The groups of other rows; -1, a row in no group, gets the first."""
    return Groups(groups.names, np.where(rows >= 0, groups.of_rows[rows], 0))
