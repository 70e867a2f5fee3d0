"""Two models judged by the lists of the same users, on what was held out from both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mfrank.data.groups import Groups, groups_by_activity, groups_by_popularity
from mfrank.data.interactions import Interactions
from mfrank.evaluation.report import Evaluation
from mfrank.pages.judging import (
    MOST_SECONDS,
    MOST_USERS,
    Rows,
    in_columns,
    judged,
    paced,
    rows_of,
)
from mfrank.retrieval.recommender import Recommender

__all__ = ["Pair", "judge_pair"]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
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
) -> Pair:
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
    return Pair(evaluation, theirs, users, held_out, n_drawn, len(drawn), of_users)


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
