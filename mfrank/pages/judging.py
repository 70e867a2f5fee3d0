"""How well models serve users, judged on what was held out: a sample of them, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.data import Groups, Ids, Interactions, groups_by_activity, groups_by_popularity
from mfrank.evaluation import NDCG, Evaluation, HitRate, Recall, evaluate, relevant_of
from mfrank.retrieval import Recommender, Seen

LENGTH = 10
"""Of the lists that are judged."""
METRICS = NDCG @ LENGTH, Recall @ LENGTH, HitRate @ LENGTH

MOST_USERS, MOST_SECONDS, _FIRST_USERS = 5_000, 15.0, 100

Rows = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """An evaluation of some users.

    Attributes
    ----------
    evaluation : Evaluation
        Its users are those of ``users``, numbered from 0.
    users : int64, shape (n_judged,)
        Rows of the model.
    held_out : int64, shape (n_judged,)
        Number of items held out of each.
    n_drawn, n_in_data : int
        Number of users drawn, and of those in the data. The drawn who have nothing held out are
        not judged.
    activity : Groups
        Of ``users``, by their number of items in the fit.
    popularity : Groups
        Of items, by their number of users in the fit.
    counts : int64, shape (n_items,)
        Number of users of each item in the fit.
    """

    evaluation: Evaluation
    users: Rows
    held_out: Rows
    n_drawn: int
    n_in_data: int
    activity: Groups
    popularity: Groups
    counts: Rows


def judge(
    model: Recommender,
    seen: Seen,
    data: Interactions,
    most_users: int = MOST_USERS,
    most_seconds: float = MOST_SECONDS,
) -> Judgement:
    """Judge lists of at most so many users, always drawn with the same seed.

    The first hundred are timed, and no more are judged than the time then allows.

    Parameters
    ----------
    model : Recommender
    seen : Seen
        What it was fitted to: ``model.seen``.
    data : Interactions
        What has a value above 0 here and is not in ``seen`` is held out. Users and items that the
        model does not know are left out.
    most_users : int, default 5000
    most_seconds : float, default 15
    """
    known, liked = seen.checked, seen.positives
    counts = np.bincount(liked.indices, minlength=liked.shape[1])
    popularity = groups_by_popularity(counts, 3)
    rows, columns = rows_of(data.user_ids, model.user_ids), rows_of(data.item_ids, model.item_ids)
    there = np.flatnonzero((rows >= 0) & (np.diff(data.user_items.indptr) > 0))
    drawn = np.random.default_rng(0).permutation(there)

    def first(size: int) -> tuple[Evaluation, Rows, Rows]:
        some = drawn[:size]
        test = in_columns(data.user_items[some], columns, len(counts))
        return judged(model, rows[some], test, known, popularity)

    found, n_drawn = paced(first, len(drawn), most_users, most_seconds)
    evaluation, users, held_out = found
    activity = groups_by_activity(np.diff(liked.indptr).astype(np.int64), 4)
    return Judgement(
        evaluation,
        users,
        held_out,
        n_drawn,
        len(there),
        Groups(activity.names, activity.of_rows[users]),
        popularity,
        counts,
    )


def paced(
    judge_first: Callable[[int], T], n_drawn: int, most_users: int, most_seconds: float
) -> tuple[T, int]:
    """Judge the first hundred of the drawn, then as many as the time allows; and how many."""
    began = time.perf_counter()
    found = judge_first(_FIRST_USERS)
    pace = _FIRST_USERS / max(time.perf_counter() - began, 1e-9)
    size = min(most_users, int(pace * most_seconds))
    if size > _FIRST_USERS < n_drawn:
        found = judge_first(size)
    return found, min(max(size, _FIRST_USERS), n_drawn)


def judged(
    model: Recommender, users: Rows, test: sp.csr_array, seen: sp.csr_array, popularity: Groups
) -> tuple[Evaluation, Rows, Rows]:
    """The evaluation of those users with something held out, their rows, and how much it is.

    Parameters
    ----------
    test : shape (len(users), n_items)
    seen : shape (n_users, n_items)
    """
    own = sp.csr_array(seen[users])
    found = relevant_of(test, CSR.from_scipy(own, None), np.arange(len(users)))
    parts = [(part.users, np.diff(part.items.indptr)) for part in found]
    places = np.concatenate([place for place, _ in parts])
    held_out = np.concatenate([count for _, count in parts])

    def recommend(some: Rows, _: Any, N: int) -> Any:
        return model.recommend(users[places][some], N=N, by_row=True)

    evaluation = evaluate(
        recommend, test[places], train=own[places], metrics=METRICS, item_groups=popularity
    )
    return evaluation, users[places], held_out.astype(np.int64)


def rows_of(ids: Ids, known: Ids) -> Rows:
    """The row that the model has for each id, -1 if none."""
    return np.arange(len(ids)) if ids == known else known.rows(ids.labels, missing=-1)


def in_columns(matrix: sp.csr_array, columns: Rows, n_columns: int) -> sp.csr_array:
    """The same with its columns moved; those moved to -1 are left out."""
    cells = sp.coo_array(matrix)
    rows, moved = cells.coords[0], columns[cells.coords[1]]
    kept = moved >= 0
    entries = cells.data[kept], (rows[kept], moved[kept])
    return sp.csr_array(sp.coo_array(entries, (matrix.shape[0], n_columns)))


# Two models judged by the lists of the same users, on what was held out from both.


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPair:
    """Evaluations of two models by the same users and test items, which can be compared.

    Attributes
    ----------
    first, second : Evaluation
        Their groups of items are those of the first model's fit, by popularity.
    users : int64, shape (n_judged,)
        Rows of the first model.
    held_out : int64, shape (n_judged,)
        Number of items held out of each.
    n_drawn, n_in_data : int
        Number of users drawn, and of those in the data whom both models know.
    activity : Groups
        Of ``users``, by their number of items in the first model's fit.
    """

    first: Evaluation
    second: Evaluation
    users: Rows
    held_out: Rows
    n_drawn: int
    n_in_data: int
    activity: Groups


class _Side:
    """A model, where the users and items of the data are in it, and what it has seen."""

    def __init__(self, model: Recommender, data: Interactions) -> None:
        assert model.seen is not None
        self.model, self.seen, self.liked = model, model.seen.checked, model.seen.positives
        self.rows = rows_of(data.user_ids, model.user_ids)
        self.columns = rows_of(data.item_ids, model.item_ids)
        self.in_data = rows_of(model.item_ids, data.item_ids)

    def has(self, some: Rows, n_items: int) -> sp.csr_array:
        """What the model has seen of some users of the data, in the columns of the data."""
        return in_columns(sp.csr_array(self.seen[self.rows[some]]), self.in_data, n_items)


def judge_pair(
    models: tuple[Recommender, Recommender],
    data: Interactions,
    most_users: int = MOST_USERS,
    most_seconds: float = MOST_SECONDS,
) -> JudgedPair:
    """Judge both by at most so many users, always drawn with the same seed.

    Parameters
    ----------
    models : two Recommenders
        With their ``seen``.
    data : Interactions
        What has a value above 0 here and is seen by neither is held out. Users and items that one
        of the models does not know are left out.
    most_users : int, default 5000
    most_seconds : float, default 15
        For both.
    """
    one, two = (_Side(model, data) for model in models)
    counts = np.bincount(one.liked.indices, minlength=one.liked.shape[1])
    popularity = groups_by_popularity(counts, 3)
    of_two = rows_of(two.model.item_ids, one.model.item_ids)
    beside = Groups(popularity.names, np.where(of_two >= 0, popularity.of_rows[of_two], 0))
    there = (one.rows >= 0) & (two.rows >= 0) & (np.diff(data.user_items.indptr) > 0)
    drawn = np.random.default_rng(0).permutation(np.flatnonzero(there))
    known = (one.columns >= 0) & (two.columns >= 0)

    def first(size: int) -> tuple[tuple[Evaluation, Rows, Rows], Evaluation]:
        some = drawn[:size]
        left = _without(data.user_items[some], *(each.has(some, len(known)) for each in (one, two)))
        found = [
            judged(
                each.model,
                each.rows[some],
                in_columns(left, np.where(known, each.columns, -1), each.seen.shape[1]),
                each.seen,
                groups,
            )
            for each, groups in ((one, popularity), (two, beside))
        ]
        return found[0], found[1][0]

    (ours, theirs), n_drawn = paced(first, len(drawn), most_users, most_seconds)
    evaluation, users, held_out = ours
    activity = groups_by_activity(np.diff(one.liked.indptr).astype(np.int64), 4)
    of_users = Groups(activity.names, activity.of_rows[users])
    return JudgedPair(evaluation, theirs, users, held_out, n_drawn, len(drawn), of_users)


def _without(matrix: sp.csr_array, *others: sp.csr_array) -> sp.csr_array:
    """The entries of a matrix in whose cells the others have none."""
    cells = sp.coo_array(matrix)
    taken = np.concatenate([_cells(sp.coo_array(other)) for other in others])
    kept = ~np.isin(_cells(cells), taken)
    rows, columns = (each[kept] for each in cells.coords)
    return sp.csr_array(sp.coo_array((cells.data[kept], (rows, columns)), matrix.shape))


def _cells(matrix: sp.coo_array) -> Rows:
    rows, columns = matrix.coords
    found: Rows = rows.astype(np.int64) * matrix.shape[1] + columns
    return found
