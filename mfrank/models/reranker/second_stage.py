"""The trees' scores of the first stage's lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.models.reranker import trees
from mfrank.models.reranker.features import FirstLists, GivenFeatures, ListedUsers
from mfrank.models.reranker.pairs import blocks, described
from mfrank.retrieval import Answer, Matrix, Raw, Recommender, given_rows, sides


def scores_of_trees(
    grown: Any,
    given: GivenFeatures,
    model: Recommender,
    userid: Raw,
    first: Answer,
    folded: Matrix | None,
    *,
    by_row: bool,
    n_threads: int,
) -> NDArray[np.float64]:
    """Return the trees' score of each position of the lists; NaN for padding.

    Parameters
    ----------
    grown : CatBoost's model
    given : GivenFeatures
    model : Recommender
        The first stage.
    userid : id, or 1-D array-like of ids
    first : Answer
        The first stage's lists, of shape (users, candidates).
    folded : Interactions or sparse matrix, optional
        The users' rows, if they were folded in.
    by_row : bool
    n_threads : int
    """
    store = model.store.on_host()
    lists = _by_row(model, first, by_row)
    listed_users, rows = _listed_users(model, userid, folded, by_row, given)
    scores = np.full(lists.scores.shape, np.nan)
    for block in blocks(*lists.scores.shape):
        part, some = (
            FirstLists(*(x[block] for x in lists)),
            ListedUsers(*(x[block] for x in listed_users)),
        )
        own = None if rows is None else rows[block]
        features = described(store, some, part, own, given)
        if len(features):
            scores[block][part.pairs] = trees.scores(grown, features, n_threads)
    return scores


def _by_row(model: Recommender, first: Answer, by_row: bool) -> FirstLists:
    """The first stage's lists as item rows."""
    listed = ~np.isnan(first.scores)
    rows = np.full(first.ids.shape, -1, dtype=np.int64)
    if listed.any():
        rows[listed] = sides(model.store, by_row=by_row)[1].rows(first.ids[listed], "items")
    return FirstLists(rows, first.scores)


def _listed_users(
    model: Recommender, userid: Raw, folded: Matrix | None, by_row: bool, given: GivenFeatures
) -> tuple[ListedUsers, NDArray[np.int64] | None]:
    """The users' factors and counts, and their rows in the model if they are needed.

    Without ``folded`` these are the model's; with it, they come from the users' rows of it.
    """
    store = model.store.on_host()
    users, items = sides(store, by_row=by_row)
    if folded is None:
        rows = users.rows(userid, "userid", missing=0)  # unknown ones have no candidates
        return ListedUsers(store.user_factors[rows], store.known_counts.users[rows]), rows
    factors = np.atleast_2d(model.recalculate_user(userid, folded, by_row=by_row))
    rated = given_rows(folded, userid, users, items, "user_items")
    own = None if given.users is None else users.rows(userid, "userid")
    return ListedUsers(factors, np.diff(rated.indptr).astype(np.int64)), own
